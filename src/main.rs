//! The `steersman` binary: reads the command line, starts logging, and hands over to a subcommand.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::Styles;

use remedy::Remedy;
use tokio::runtime::{Builder, Runtime};

mod alloc;
mod cli;
mod controller_manager;
mod logging;
mod node;
mod remedy;
mod runtime;
mod serve;
mod signals;
mod standalone;
mod version;

/// How long threads that do not come to an end hold up the end of the process.
const LAST_GRACE: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    match cli::parse(std::env::args_os()) {
        // The reader of a pipe may close it before its end: that is no failure.
        Ok(cli::Invocation::Print(text)) => {
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Ok(cli::Invocation::Help(text)) => {
            // Removes the styles unless this is a terminal, and for NO_COLOR and a dumb terminal.
            let _ = write!(anstream::stdout(), "{}", text.ansi());
            ExitCode::SUCCESS
        }
        Ok(cli::Invocation::Write(files)) => write_all(&files),
        Ok(cli::Invocation::ControllerManager(manager)) => {
            run(manager.logging.clone(), runtime::of_manager, controller_manager::run(*manager))
        }
        Ok(cli::Invocation::Node(node)) => run(node.logging.clone(), runtime::of_node, node::run(*node)),
        Ok(cli::Invocation::Standalone(all)) => {
            run(all.logging.clone(), runtime::of_all, standalone::run(*all))
        }
        Ok(cli::Invocation::Snapshot(snapshot)) => do_and_tell(standalone::snapshot::run(snapshot)),
        Err(refusal) => refuse(&refusal),
    }
}

/// Writes files, and prints their paths.
fn write_all(files: &[(PathBuf, String)]) -> ExitCode {
    for (path, text) in files {
        if let Err(error) = fs::write(path, text) {
            return refuse(&format_args!("writing {}: {error}", path.display()));
        }
        let _ = writeln!(io::stdout(), "{}", path.display());
    }
    ExitCode::SUCCESS
}

/// Runs a command that ends by itself, and prints its result or its error.
fn do_and_tell<E: std::error::Error + Remedy>(done: impl Future<Output = Result<String, E>>) -> ExitCode {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&error),
    };
    match runtime.block_on(done) {
        Ok(text) => {
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => match error.remedy() {
            Some(remedy) => refuse(&format_args!("{error}; {remedy}")),
            None => refuse(&error),
        },
    }
}

/// Says why there is nothing to run.
fn refuse(why: &dyn Display) -> ExitCode {
    let style = Styles::styled();
    let style = style.get_error();
    let _ = writeln!(anstream::stderr(), "{style}Error:{style:#} {why}");
    ExitCode::FAILURE
}

/// Runs a subcommand to its end, on a runtime of its own.
fn run<E: std::error::Error + Remedy>(
    logging: logging::Logging,
    runtime: fn() -> io::Result<Runtime>,
    command: impl Future<Output = Result<(), E>>,
) -> ExitCode {
    logging::start(logging);
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error, None),
    };
    let ended = runtime.block_on(command);
    // A thread may be held up for ever by what was just dropped for taking too long.
    runtime.shutdown_timeout(LAST_GRACE);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error, error.remedy()),
    }
}

fn failed(error: &dyn std::error::Error, remedy: Option<String>) -> ExitCode {
    tracing::error!(%error, remedy, "command failed");
    ExitCode::FAILURE
}
