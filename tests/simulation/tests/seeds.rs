//! Clusters with the faults of many seeds.
//!
//! `SIMULATION_SECONDS` is for how long new ones begin (20), `SIMULATION_SEEDS` how many there are at most (10,000), and
//! `SIMULATION_SEED` the first one (1). Of one seed alone, the story is printed.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "it says how long the clusters lived, and a test takes its effort from the environment"
)]

use std::time::Duration;

use peak_alloc::PeakAlloc;
use simulation::{Summary, run};
use tokio::time::Instant;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// How many bytes more than after the first cluster may be in use after a later one: what grows once in a while, such as tables that
/// are never freed.
const MORE: usize = 1 << 20;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("it must be a number"))
}

#[test]
fn users_get_what_they_want_and_nobody_writes_who_does_not_lead_whatever_happens() {
    let (first, seeds) = (number("SIMULATION_SEED", 1), number("SIMULATION_SEEDS", 10_000));
    // Outside of the runtimes, whose time is paused.
    let end = Instant::now() + Duration::from_secs(number("SIMULATION_SECONDS", 20));
    let (mut lasted, mut ran, mut first_left) = (Duration::ZERO, 0, None);
    // One at least, however slow the machine is.
    while ran == 0 || ran < seeds && Instant::now() < end {
        let seed = first + ran;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let summary = runtime.expect("a runtime can be made").block_on(run(seed));
        let Summary { lasted: one, settled, story } =
            summary.unwrap_or_else(|why| panic!("SIMULATION_SEED={seed}: {why}"));
        println!("seed {seed}: {one:.0?}, of which {settled:.0?} until users had what they wanted");
        if seeds == 1 {
            println!("{story}");
        }
        lasted += one;
        ran += 1;
        let left = MEMORY.current_usage();
        let allowed = *first_left.get_or_insert(left) + MORE;
        assert!(
            left <= allowed,
            "SIMULATION_SEED={seed}: {left} bytes are in use after it, of {allowed} at most"
        );
    }
    println!("{ran} clusters lived for {lasted:.0?}");
}
