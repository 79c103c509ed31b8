//! Many seeds, as processes.

use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

/// Runs `seeds` from `first` on, so many at a time, and begins with none after `time`. Prints a line for each, and all that the first
/// one prints that fails.
///
/// # Panics
/// If the program can't start itself.
pub(crate) fn run(first: u64, seeds: u64, time: Option<Duration>, jobs: Option<usize>) -> ExitCode {
    let jobs = jobs.or_else(|| thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    let end = time.map(|time| Instant::now() + time);
    let (next, done, has_failed) = (AtomicU64::new(first), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let is_late = end.is_some_and(|end| Instant::now() >= end);
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // One at least, however slow the machine is.
                    let is_enough = seed >= first.saturating_add(seeds) || is_late && seed > first;
                    if is_enough || has_failed.load(Ordering::Relaxed) {
                        return;
                    }
                    match one(seed) {
                        Ok(line) => println!("{line}"),
                        Err(all) if has_failed.swap(true, Ordering::Relaxed) => drop(all),
                        Err(all) => println!("{all}\nseed {seed} has failed"),
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    println!("{} clusters", done.into_inner());
    if has_failed.into_inner() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The last line that a seed's process prints; if it fails, all lines.
fn one(seed: u64) -> Result<String, String> {
    let program = std::env::current_exe().expect("a running program has a file");
    let output = Command::new(program).arg(seed.to_string()).output().expect("a program starts itself");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stdout);
    match (output.status.success(), printed.trim_end().lines().last()) {
        (true, Some(last)) => Ok(last.to_owned()),
        _ => Err(format!("{printed}\n{}\n{}", text(&output.stderr), output.status)),
    }
}
