//! The `steersman` binary: reads the command line, starts logging, and hands over to a subcommand.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::builder::Styles;

use remedy::Remedy;

mod alloc;
mod cli;
mod controller_manager;
mod logging;
mod node;
mod remedy;
mod serve;
mod signals;
mod standalone;
mod version;

/// Threads that a controller manager works with, besides the one that waits for its end. What it does is mostly one small
/// event after another: a second thread makes each of them wake threads, which doubles the processor time at rest (a
/// thousand nodes that renew their leases, `benches/cluster.sh`) and makes no load's wall time shorter.
const MANAGER_THREADS: usize = 1;

/// Threads that a node agent works with at the most. It mostly waits, for its runtime and its API server; each thread more
/// costs a stack and an arena of the allocator, and a node may have a hundred processors.
const NODE_THREADS: usize = 2;

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
            run(manager.logging.clone(), MANAGER_THREADS, controller_manager::run(*manager))
        }
        Ok(cli::Invocation::Node(node)) => {
            run(node.logging.clone(), processors().min(NODE_THREADS), node::run(*node))
        }
        Ok(cli::Invocation::Standalone(all)) => run(all.logging.clone(), processors(), standalone::run(*all)),
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
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
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

/// How many processors there are for this process.
fn processors() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// Runs a subcommand to its end, on so many threads.
fn run<E: std::error::Error + Remedy>(
    logging: logging::Logging,
    threads: usize,
    command: impl Future<Output = Result<(), E>>,
) -> ExitCode {
    logging::start(logging);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = match runtime {
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
