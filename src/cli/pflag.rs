//! Makes clap parse flags, and word errors, as Go's pflag does.

use std::ffi::OsString;
use std::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, ValueHint};

use super::typed::{Typed, listed};

/// Why the command line is invalid: one line with the flag and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(String);

impl Refusal {
    /// A refusal with this reason.
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// A refusal of a flag's value, or of the value of an argument such as `<shell>`.
    pub(crate) fn of_value(flag: &str, value: &str, why: impl fmt::Display) -> Self {
        let why = remedied(why.to_string());
        match flag.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
            Some(name) => Self(format!("invalid {name} {value:?}: {why}")),
            None => Self(format!("invalid argument {value:?} for {flag:?} flag: {why}")),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Says what a value must be, where the parser's words say only what it is not.
fn remedied(why: String) -> String {
    match why.as_str() {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "must be a whole number".to_owned()
        }
        "invalid float literal" | "cannot parse float from empty string" => {
            "must be a number, such as 20 or 0.5".to_owned()
        }
        // Go's words, which begin so for durations only.
        duration if duration.starts_with("time: ") => format!("{why}; write 30s, 5m or 1h30m"),
        _ => why,
    }
}

/// Lets flags be repeated (the last one counts), and lets a flag take the next argument as its value even if it begins with
/// a dash, such as `-job`. Shells complete paths where a flag takes one.
pub(crate) fn go_like(command: Command) -> Command {
    command.args_override_self(true).disable_help_flag(false).mut_args(|arg| {
        let takes_next =
            matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) && !arg.is_require_equals_set();
        let hint = match arg.get_value_names().and_then(<[_]>::first).map(|name| name.as_str()) {
            Some("file" | "socket") => ValueHint::FilePath,
            Some("folder") => ValueHint::DirPath,
            _ => arg.get_value_hint(),
        };
        arg.allow_hyphen_values(takes_next).value_hint(hint)
    })
}

/// Replaces underscores in a flag's name by dashes: `--leader_elect` is `--leader-elect`.
pub(crate) fn normalized(arg: OsString) -> OsString {
    let Some(text) = arg.to_str().filter(|text| text.starts_with("--")) else { return arg };
    let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
    format!("{}{value}", name.replace('_', "-")).into()
}

/// Turns clap's error into one line in pflag's words, with a remedy.
pub(crate) fn refusal(error: &clap::Error, typed: &Typed<'_>) -> Refusal {
    let texts: fn(&ContextValue) -> Vec<&str> = |value| match value {
        ContextValue::String(text) => vec![text],
        ContextValue::Strings(texts) => texts.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    let all = |kind| error.get(kind).map(texts).unwrap_or_default();
    let first = |kind| all(kind).first().copied().unwrap_or_default();
    let argument = first(ContextKind::InvalidArg);
    // clap appends the value's name.
    let flag = argument.split([' ', '=', '[']).next().unwrap_or(argument);
    let value = first(ContextKind::InvalidValue);
    Refusal(match error.kind() {
        ErrorKind::UnknownArgument if flag.starts_with("--") => {
            format!("unknown flag: {flag}{}", typed.remedy_of_flag(flag, first(ContextKind::SuggestedArg)))
        }
        ErrorKind::UnknownArgument if flag.starts_with('-') => {
            format!("unknown shorthand flag: {flag}{}", typed.remedy_of_letter(flag))
        }
        ErrorKind::UnknownArgument => {
            format!("unexpected argument {argument:?}{}", typed.remedy_of_argument(argument))
        }
        ErrorKind::InvalidSubcommand => {
            let command = first(ContextKind::InvalidSubcommand);
            if typed.lacks_dashes(command) {
                return Refusal(format!(
                    "unexpected argument {command:?}{}",
                    typed.remedy_of_argument(command)
                ));
            }
            let remedy = typed.remedy_of_command(command, first(ContextKind::SuggestedSubcommand));
            format!("unknown command {command:?} for {:?}{remedy}", typed.path())
        }
        ErrorKind::MissingRequiredArgument => {
            format!("missing argument: {argument}; {} --help shows the usage", typed.path())
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("flag needs an argument: {argument}"),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let why = match std::error::Error::source(error) {
                Some(why) => why.to_string(),
                None => format!("must be {}", listed(&all(ContextKind::ValidValue), "or")),
            };
            return Refusal::of_value(flag, value, why);
        }
        _ => error
            .render()
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_owned(),
    })
}
