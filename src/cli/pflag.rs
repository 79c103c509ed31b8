//! Makes clap parse flags, and word errors, as Go's pflag does.

use std::ffi::OsString;
use std::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command};

/// Why the command line is invalid: one line with the flag and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(String);

impl Refusal {
    /// A refusal with this reason.
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// A refusal of a flag's value.
    pub(crate) fn of_value(flag: &str, value: &str, why: impl fmt::Display) -> Self {
        Self(format!("invalid argument {value:?} for {flag:?} flag: {why}"))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Lets flags be repeated (the last one counts), and lets a flag take the next argument as its value even if it begins with
/// a dash, such as `-job`.
pub(crate) fn go_like(command: Command) -> Command {
    command.args_override_self(true).disable_help_flag(false).mut_args(|arg| {
        let takes_next =
            matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) && !arg.is_require_equals_set();
        arg.allow_hyphen_values(takes_next)
    })
}

/// Replaces underscores in a flag's name by dashes: `--leader_elect` is `--leader-elect`.
pub(crate) fn normalized(arg: OsString) -> OsString {
    let Some(text) = arg.to_str().filter(|text| text.starts_with("--")) else { return arg };
    let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
    format!("{}{value}", name.replace('_', "-")).into()
}

/// The text of the help if the user asked for it; else the refusal.
pub(crate) fn help_or_refusal(error: &clap::Error) -> Result<String, Refusal> {
    match error.kind() {
        ErrorKind::DisplayHelp => Ok(error.render().to_string()),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Refusal::new("a command is required: see steersman --help"))
        }
        _ => Err(refusal(error)),
    }
}

/// Turns clap's error into one line in pflag's words.
pub(crate) fn refusal(error: &clap::Error) -> Refusal {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let argument = context(ContextKind::InvalidArg);
    // clap appends the value's name.
    let flag = argument.split([' ', '=', '[']).next().unwrap_or(argument);
    let value = context(ContextKind::InvalidValue);
    let hint = match context(ContextKind::SuggestedArg) {
        "" => String::new(),
        suggested => format!(", did you mean {suggested}?"),
    };
    Refusal(match error.kind() {
        ErrorKind::UnknownArgument if flag.starts_with("--") => format!("unknown flag: {flag}{hint}"),
        ErrorKind::UnknownArgument if flag.starts_with('-') => {
            format!("unknown shorthand flag: {flag}{hint}")
        }
        ErrorKind::UnknownArgument => format!("unexpected argument {argument:?}"),
        ErrorKind::InvalidSubcommand => {
            format!("unknown command {:?} for \"steersman\"", context(ContextKind::InvalidSubcommand))
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("flag needs an argument: {flag}"),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
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
