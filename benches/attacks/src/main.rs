//! Attacks one server on loopback, and prints what the attack cost the server's process and its other clients.
//!
//! Each attack is bounded in connections and in time. A bystander asks the same server for something small meanwhile, on a
//! new connection each time, as a probe or a scrape does. `benches/attacks.sh` runs the attacks on every server.

mod attack;
mod bystander;
mod connect;
mod process;
mod report;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tokio::time::{sleep, timeout};

use crate::attack::Attack;
use crate::bystander::Bystander;
use crate::connect::Target;
use crate::process::Process;
use crate::report::Report;

/// How long the server gets to come to rest before its memory is read for the last time.
const REST: Duration = Duration::from_secs(5);

#[derive(Debug, Parser)]
#[command(about = "Attacks a server on loopback, and tells what it cost")]
struct Arguments {
    /// Where the server listens; an address of the loopback range.
    #[arg(long, value_parser = loopback)]
    address: SocketAddr,
    /// The server speaks plain HTTP instead of HTTPS.
    #[arg(long)]
    plain: bool,
    /// The server's process.
    #[arg(long)]
    pid: u32,
    /// What the bystander gets. Any answer counts, so that the bystander needs no credentials.
    #[arg(long, default_value = "/healthz")]
    path: String,
    /// How long the attack lasts, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    #[command(subcommand)]
    attack: Attack,
}

/// Why an attack could not be measured.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("process {pid}: {source}")]
    Process { pid: u32, source: std::io::Error },
    #[error("process {pid} ended under attack")]
    Ended { pid: u32 },
    #[error("making certificates: {0}")]
    Certificates(#[from] rcgen::Error),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "must be ip:port".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("must be an address of the loopback range".to_owned())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match measure(Arguments::parse()).await {
        Ok(report) => {
            #[expect(clippy::print_stdout, reason = "a command's result belongs there")]
            {
                print!("{report}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "a command's error belongs there")]
            {
                eprintln!("{error}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Measures in three parts of the same length: before, during and after the attack.
async fn measure(arguments: Arguments) -> Result<Report, Error> {
    let length = Duration::from_secs(arguments.seconds);
    let target = Target::new(arguments.address, arguments.plain)?;
    let bystander = Bystander::new(target.clone(), arguments.path);
    let process = Process::new(arguments.pid);

    let calm = bystander.watch(length).await;
    let before = process.usage()?;
    let attack = arguments.attack.run(&target);
    // The bystander has a thread of its own: its figures are not to tell how busy the attacker is.
    let (seen, done) = tokio::join!(bystander.watch_apart(length), timeout(length, attack));
    // An attack lasts until the time is up, unless it fails before it begins.
    if let Ok(ended) = done {
        ended?;
    }
    let during = process.usage()?;
    sleep(REST).await;
    let after = process.usage()?;
    let recovered = bystander.watch(length).await;
    Ok(Report { calm, seen, recovered, before, during, after, answers: arguments.attack.answers() })
}
