//! The `steersman` binary: reads the command line, starts logging, and hands over to a subcommand.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

mod alloc;
mod cli;
mod controller_manager;
mod logging;
mod node;
mod serve;
mod signals;
mod version;

/// How long threads that do not come to an end hold up the end of the process.
const LAST_GRACE: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    match cli::parse(std::env::args_os()) {
        Ok(cli::Invocation::Print(text)) => {
            // Whoever closed the pipe does not want to read it.
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Ok(cli::Invocation::ControllerManager(manager)) => {
            run(manager.logging, controller_manager::run(*manager))
        }
        Ok(cli::Invocation::Node(node)) => run(node.logging, node::run(*node)),
        Err(refusal) => {
            let _ = writeln!(io::stderr(), "Error: {refusal}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a subcommand to its end.
fn run<E: std::error::Error>(
    logging: logging::Logging,
    command: impl Future<Output = Result<(), E>>,
) -> ExitCode {
    logging::start(logging);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let ended = runtime.block_on(command);
    // A thread may be held up for ever by what was just dropped for taking too long.
    runtime.shutdown_timeout(LAST_GRACE);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    tracing::error!(%error, "command failed");
    ExitCode::FAILURE
}
