//! What the user typed, and the remedies for what is wrong with it.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use super::values::boolean;

/// What users of other programs call Steersman's commands.
const OTHER_NAMES: [(&str, &str); 3] =
    [("kubelet", "node"), ("kcm", "controller-manager"), ("kube-controller-manager", "controller-manager")];

/// The least similarity of a typed name to the one that the user probably meant; clap's own for flags.
const SIMILAR: f64 = 0.7;

/// The arguments after the program's name, and the grammar that they do not follow.
pub(super) struct Typed<'a> {
    grammar: &'a Command,
    args: Vec<String>,
}

impl<'a> Typed<'a> {
    /// `args` begins with the program's name.
    pub(super) fn new(grammar: &'a Command, args: &[OsString]) -> Self {
        let args = args.iter().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
        Self { grammar, args }
    }

    /// The subcommands that the user typed, each within the one before.
    fn commands(&self) -> Vec<&'a Command> {
        let mut commands: Vec<&'a Command> = Vec::new();
        for word in self.args.iter().filter(|arg| !arg.starts_with('-')) {
            let within = commands.last().copied().unwrap_or(self.grammar);
            commands.extend(within.find_subcommand(word));
            if commands.is_empty() {
                break;
            }
        }
        commands
    }

    /// The innermost subcommand, if the user typed one.
    fn command(&self) -> Option<&'a Command> {
        self.commands().pop()
    }

    /// The command line up to the innermost subcommand, such as `steersman node`.
    pub(super) fn path(&self) -> String {
        let names = self.commands().into_iter().map(Command::get_name);
        [self.grammar.get_name()].into_iter().chain(names).collect::<Vec<_>>().join(" ")
    }

    /// Whether the innermost subcommand has a flag that is called like this argument, without its dashes.
    pub(super) fn lacks_dashes(&self, argument: &str) -> bool {
        let name = format!("--{}", argument.split('=').next().unwrap_or(argument));
        self.command().is_some_and(|command| flag_of(command, &name).is_some())
    }

    /// For an unknown flag. `similar` is a flag of this command that resembles it, or empty.
    pub(super) fn remedy_of_flag(&self, flag: &str, similar: &str) -> String {
        let owners = self.grammar.get_subcommands().filter(|command| flag_of(command, flag).is_some());
        let owners: Vec<_> =
            owners.map(|owner| format!("{} {} {flag}", self.grammar.get_name(), owner.get_name())).collect();
        match (owners.is_empty(), similar, self.command()) {
            (false, _, Some(_)) => format!("; another command has it: {}", owners.join(", ")),
            (false, _, None) => format!("; it stands after the command: {}", owners.join(", ")),
            (true, "", _) => format!("; {} --help lists the flags", self.path()),
            (true, similar, _) => format!(", did you mean {similar}?"),
        }
    }

    /// For an unknown flag of one letter, such as `-k`: in Go's own programs, long flags may have one dash.
    pub(super) fn remedy_of_letter(&self, letter: &str) -> String {
        let typed = self.args.iter().find(|arg| arg.len() > letter.len() && arg.starts_with(letter));
        let long = typed.map(|arg| format!("-{}", arg.split('=').next().unwrap_or(arg)));
        let long = long.filter(|long| self.command().is_some_and(|command| flag_of(command, long).is_some()));
        self.remedy_of_flag(letter, &long.unwrap_or_default())
    }

    /// For an argument where only flags may stand.
    pub(super) fn remedy_of_argument(&self, argument: &str) -> String {
        let Some(command) = self.command() else { return String::new() };
        let place = self.args.iter().position(|arg| arg == argument);
        let before = place.and_then(|place| self.args.get(place.checked_sub(1)?));
        if let Some(switch) = before.filter(|before| is_switch(command, before) && boolean(argument).is_ok())
        {
            return format!("; a value of this flag follows an equals sign: {switch}={argument}");
        }
        let name = format!("--{}", argument.split('=').next().unwrap_or(argument));
        if flag_of(command, &name).is_some() {
            return format!(", did you mean --{argument}?");
        }
        if command.get_positionals().next().is_none() {
            return format!("; {} takes flags only", self.path());
        }
        format!("; {} --help shows the usage", self.path())
    }

    /// For an unknown subcommand. `similar` is the one that resembles it most, or empty.
    pub(super) fn remedy_of_command(&self, typed: &str, similar: &str) -> String {
        let within = self.command().unwrap_or(self.grammar);
        let names = || within.get_subcommands().map(Command::get_name);
        let other = OTHER_NAMES.iter().find(|(name, _)| *name == typed).map(|(_, ours)| *ours);
        let similar = Some(similar).filter(|similar| !similar.is_empty());
        match other.or(similar).or_else(|| nearest(typed, names())) {
            Some(meant) => format!(", did you mean {meant}?"),
            None => match names().collect::<Vec<_>>().as_slice() {
                [only] => format!("; the only command is {only}"),
                names => format!("; the commands are {}", listed(names, "and")),
            },
        }
    }
}

/// The flag `--name` of a command.
fn flag_of<'a>(command: &'a Command, flag: &str) -> Option<&'a Arg> {
    command
        .get_arguments()
        .find(|arg| arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long)))
}

/// Whether the command has this flag, and it takes a value only after an equals sign.
fn is_switch(command: &Command, flag: &str) -> bool {
    flag_of(command, flag)
        .is_some_and(|arg| arg.is_require_equals_set() && !matches!(arg.get_action(), ArgAction::Help))
}

/// The name that most resembles what the user typed, if one is similar enough.
pub(super) fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let similar = names.into_iter().map(|name| (strsim::jaro(typed, name), name));
    let similar = similar.filter(|(similarity, _)| *similarity > SIMILAR);
    similar.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}

/// Names as a list of words: `a, b or c`.
pub(super) fn listed<T: AsRef<str>>(names: &[T], word: &str) -> String {
    match names {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [some @ .., last] => {
            let some: Vec<_> = some.iter().map(AsRef::as_ref).collect();
            format!("{} {word} {}", some.join(", "), last.as_ref())
        }
    }
}
