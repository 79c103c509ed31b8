//! Runs clusters with the faults of seeds, each in a process of its own: a process that has run nothing before does the same each
//! time.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program that prints")]

mod many;

use std::process::{self, ExitCode};
use std::thread;
use std::time::Duration;

use clap::Parser;
use peak_alloc::PeakAlloc;
use simulation::{Summary, run};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// How many bytes may be in use after a cluster has ended: tables that are made once, such as those of the schema.
const LEFT: usize = 450 << 10;
/// How long a cluster may take, of real time.
const REAL_TIME: Duration = Duration::from_secs(300);

/// Runs clusters with the faults of seeds, and says what is wrong with the first that fails, and its story.
#[derive(Parser)]
struct Options {
    /// The first seed.
    #[arg(default_value_t = 1)]
    seed: u64,
    /// How many seeds, one after the other. The story is printed if there is only one.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Begin with no other seed after so many seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// How many clusters run at a time; one for each processor by default.
    #[arg(long)]
    jobs: Option<usize>,
    /// Make each request of a manager part of the story.
    #[arg(long)]
    requests: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.seeds > 1 {
        return many::run(
            options.seed,
            options.seeds,
            options.seconds.map(Duration::from_secs),
            options.jobs,
        );
    }
    match one(options.seed, options.requests) {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the story, and in its last line a summary.
fn one(seed: u64, requests: bool) -> Result<String, String> {
    replay::begin(seed);
    thread::spawn(end_late);
    let cluster = thread::spawn(move || run(seed, requests));
    let Summary { lasted, settled, story } =
        cluster.join().map_err(|_| "it panics, see above".to_owned()).flatten()?;
    let left = MEMORY.current_usage() - story.capacity();
    if left > LEFT {
        return Err(format!("{story}{left} bytes are still in use, of {LEFT} at most"));
    }
    Ok(format!(
        "{story}seed {seed}: {lasted:.0?}, of which {settled:.0?} until users had what they wanted; {left} bytes left"
    ))
}

/// Ends the process if it is still there after [`REAL_TIME`].
#[allow(clippy::disallowed_methods, reason = "all other waits follow the clocks of the cluster")]
fn end_late() {
    thread::sleep(REAL_TIME);
    eprintln!("the cluster is not ready after {REAL_TIME:?}");
    process::abort();
}
