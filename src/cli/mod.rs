//! The command line: upstream's flags, parsed as Go's pflag parses them.

use std::ffi::OsString;
use std::path::Path;

use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::version;

mod configz;
mod controller_manager;
mod effects;
mod feature_gates;
#[cfg(test)]
mod flags_table;
mod node;
mod pflag;
pub(crate) mod secure_port;
mod standalone;
#[cfg(test)]
mod tests;
mod upstream;
mod values;

pub(crate) use controller_manager::ControllerManager;
pub(crate) use node::Node;
pub(crate) use pflag::Refusal;
pub(crate) use standalone::Standalone;
pub(crate) use values::Address;

/// What the command line asks for.
pub(crate) enum Invocation {
    /// Text for standard output: help, or a version.
    Print(String),
    /// `steersman controller-manager`.
    ControllerManager(Box<ControllerManager>),
    /// `steersman node`.
    Node(Box<Node>),
    /// `steersman standalone`.
    Standalone(Box<Standalone>),
}

/// Kubernetes's controller manager and node agent in one small process.
#[derive(Parser)]
#[command(name = "steersman", disable_version_flag = true, disable_help_subcommand = true)]
#[command(arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print the version and quit; `raw` prints all details
    #[arg(long, global = true, value_name = "true|raw", action = ArgAction::Set, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", value_parser = VersionWish::parse)]
    #[arg(help_heading = "Global flags")]
    version: Option<VersionWish>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the controllers of kube-controller-manager that this version has
    #[command(disable_help_flag = true)]
    ControllerManager(Box<controller_manager::Flags>),
    /// Run the node agent: the pods of this machine, as the kubelet does
    #[command(disable_help_flag = true)]
    Node(Box<node::Flags>),
    /// Run all of Kubernetes in one process: API server, controllers, scheduler and one node
    #[command(disable_help_flag = true)]
    Standalone(Box<standalone::Flags>),
}

/// How much of the version to print.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VersionWish {
    None,
    Line,
    Raw,
}

impl VersionWish {
    fn parse(text: &str) -> Result<Self, String> {
        match (text, values::boolean(text)) {
            ("raw", _) => Ok(Self::Raw),
            (_, Ok(true)) => Ok(Self::Line),
            (_, Ok(false)) => Ok(Self::None),
            (_, Err(_)) => Err("must be true, false or raw".to_owned()),
        }
    }
}

/// Reads the command line, program name first.
///
/// # Errors
/// It can't be obeyed; the error is one line that says which part, and why.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, Refusal> {
    let command = command();
    let read = command.clone().try_get_matches_from(with_command(args).map(pflag::normalized));
    let matches = match read {
        Ok(matches) => matches,
        Err(error) => return pflag::help_or_refusal(&error).map(Invocation::Print),
    };
    let cli = Cli::from_arg_matches(&matches).map_err(|error| pflag::refusal(&error))?;
    match (cli.version.unwrap_or(VersionWish::None), cli.command) {
        (VersionWish::Line, _) => Ok(Invocation::Print(version::line())),
        (VersionWish::Raw, _) => Ok(Invocation::Print(format!("{:#?}\n", version::info()))),
        (VersionWish::None, Some(Command::ControllerManager(flags))) => {
            let unheeded = upstream::CONTROLLER_MANAGER.missed(of_command(&matches));
            let options = controller_manager::options_of_controllers(of_command(&matches))?;
            let manager = command.find_subcommand("controller-manager").expect("the command must exist");
            let values = controller_manager::values_of_flags(manager, of_command(&matches));
            Ok(Invocation::ControllerManager(Box::new(flags.check(options, unheeded, values)?)))
        }
        (VersionWish::None, Some(Command::Node(flags))) => {
            Ok(Invocation::Node(Box::new(flags.check(of_command(&matches))?)))
        }
        (VersionWish::None, Some(Command::Standalone(flags))) => {
            Ok(Invocation::Standalone(Box::new(flags.check()?)))
        }
        (VersionWish::None, None) => Err(Refusal::new("a command is required: see steersman --help")),
    }
}

/// Adds the command if the program was started as `kube-controller-manager`, by a link of that name.
fn with_command(args: impl IntoIterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut args = args.into_iter();
    let program = args.next();
    let name = program.as_ref().and_then(|program| Path::new(program).file_name());
    let command = name.filter(|name| *name == "kube-controller-manager").map(|_| "controller-manager".into());
    program.into_iter().chain(command).chain(args)
}

/// The command line's grammar.
fn command() -> clap::Command {
    Cli::command()
        .mut_subcommand("controller-manager", |manager| {
            let flags =
                controller_manager::flags_of_controllers().chain(upstream::CONTROLLER_MANAGER.flags());
            pflag::go_like(controller_manager::describe(manager).args(flags))
        })
        .mut_subcommand("node", |node| pflag::go_like(node::describe(node)))
        .mut_subcommand("standalone", |all| pflag::go_like(standalone::describe(all)))
}

/// The arguments of the subcommand.
fn of_command(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, matches)| matches)
}
