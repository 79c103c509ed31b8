//! The command line: upstream's flags, parsed as Go's pflag parses them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::StyledStr;
use clap::error::ErrorKind;
use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use man::Pages;
use snapshot::Action;
use typed::Typed;

use crate::version as build;

mod completion;
mod configz;
mod controller_manager;
mod controllers;
mod effects;
mod examples;
mod feature_gates;
#[cfg(test)]
mod flags_table;
mod man;
mod node;
mod pflag;
pub(crate) mod secure_port;
mod snapshot;
mod standalone;
#[cfg(test)]
mod tests;
mod typed;
mod upstream;
mod values;
mod version;

pub(crate) use controller_manager::ControllerManager;
pub(crate) use node::Node;
pub(crate) use pflag::Refusal;
pub(crate) use snapshot::Snapshot;
pub(crate) use standalone::Standalone;
pub(crate) use values::Address;

/// What the command line asks for.
pub(crate) enum Invocation {
    /// Text for standard output, such as a version.
    Print(String),
    /// Help for standard output, with styles for a terminal.
    Help(StyledStr),
    /// Files to write: their paths and contents.
    Write(Vec<(PathBuf, String)>),
    /// `steersman controller-manager`.
    ControllerManager(Box<ControllerManager>),
    /// `steersman node`.
    Node(Box<Node>),
    /// `steersman standalone`.
    Standalone(Box<Standalone>),
    /// `steersman standalone snapshot`.
    Snapshot(Snapshot),
}

/// Kubernetes's controller manager and node agent in one small process.
#[derive(Parser)]
#[command(
    name = "steersman",
    bin_name = "steersman",
    disable_version_flag = true,
    arg_required_else_help = true
)]
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
    /// Print the versions of Steersman and of Kubernetes
    Version(version::Flags),
    /// Print a script with which a shell completes commands and flags
    Completion(completion::Arguments),
    /// Print or write manual pages
    Man(man::Arguments),
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
/// It can't be obeyed; the error is one line that says which part, why, and what to do.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, Refusal> {
    let args: Vec<_> = with_command(args).map(pflag::normalized).collect();
    let command = command();
    let typed = Typed::new(&command, &args);
    let matches = match command.clone().try_get_matches_from(&args) {
        Ok(matches) => matches,
        Err(error) if is_help(&error) => return Ok(Invocation::Help(error.render())),
        Err(error) => return Err(pflag::refusal(&error, &typed)),
    };
    let cli = Cli::from_arg_matches(&matches).map_err(|error| pflag::refusal(&error, &typed))?;
    match (cli.version.unwrap_or(VersionWish::None), cli.command) {
        (VersionWish::Line, _) => Ok(Invocation::Print(build::line())),
        (VersionWish::Raw, _) => Ok(Invocation::Print(format!("{:#?}\n", build::info()))),
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
        (VersionWish::None, Some(Command::Standalone(mut flags))) => match flags.action.take() {
            Some(Action::Snapshot(verb)) => Ok(Invocation::Snapshot(verb.check()?)),
            None => Ok(Invocation::Standalone(Box::new(flags.check()?))),
        },
        (VersionWish::None, Some(Command::Version(flags))) => Ok(Invocation::Print(flags.text())),
        (VersionWish::None, Some(Command::Completion(arguments))) => {
            Ok(Invocation::Print(arguments.script(&command)))
        }
        (VersionWish::None, Some(Command::Man(arguments))) => match arguments.pages(grammar())? {
            Pages::Print(page) => Ok(Invocation::Print(page)),
            Pages::Write(pages) => Ok(Invocation::Write(pages)),
        },
        (VersionWish::None, None) => Ok(Invocation::Help(command.clone().render_help())),
    }
}

/// Whether clap's error is the help that the user asked for, or gets for an empty command line.
fn is_help(error: &clap::Error) -> bool {
    matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
}

/// Adds the command if the program was started as `kube-controller-manager`, by a link of that name.
fn with_command(args: impl IntoIterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut args = args.into_iter();
    let program = args.next();
    let name = program.as_ref().and_then(|program| Path::new(program).file_name());
    let command = name.filter(|name| *name == "kube-controller-manager").map(|_| "controller-manager".into());
    program.into_iter().chain(command).chain(args)
}

/// The command line's grammar, with examples in its help.
fn command() -> clap::Command {
    with_examples(grammar())
}

fn with_examples(command: clap::Command) -> clap::Command {
    examples::added_to(command).mut_subcommands(with_examples)
}

/// The command line's grammar.
fn grammar() -> clap::Command {
    Cli::command().mut_subcommands(|command| match command.get_name() {
        "controller-manager" => {
            let flags =
                controller_manager::flags_of_controllers().chain(upstream::CONTROLLER_MANAGER.flags());
            pflag::go_like(controller_manager::describe(command).args(flags))
        }
        "node" => pflag::go_like(node::describe(command)),
        "standalone" => {
            let with_flags = |verbs: clap::Command| verbs.mut_subcommands(pflag::go_like);
            pflag::go_like(standalone::describe(command)).mut_subcommands(with_flags)
        }
        _ => command,
    })
}

/// The arguments of the subcommand.
fn of_command(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, matches)| matches)
}
