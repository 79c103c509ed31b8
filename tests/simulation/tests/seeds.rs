//! Clusters with the faults of many seeds.
//!
//! `SIMULATION_SEEDS` is how many (8), `SIMULATION_SEED` the first one (1). Of one seed alone, the story is printed.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "it says how long the clusters lived, and a test takes its effort from the environment"
)]

use std::time::Duration;

use simulation::{Summary, run};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("it must be a number"))
}

#[test]
fn users_get_what_they_want_and_nobody_writes_who_does_not_lead_whatever_happens() {
    let (first, seeds) = (number("SIMULATION_SEED", 1), number("SIMULATION_SEEDS", 8));
    let mut lasted = Duration::ZERO;
    for seed in first..first + seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let ran = runtime.expect("a runtime can be made").block_on(run(seed));
        let Summary { lasted: one, settled, story } =
            ran.unwrap_or_else(|why| panic!("SIMULATION_SEED={seed}: {why}"));
        println!("seed {seed}: {one:.0?}, of which {settled:.0?} until users had what they wanted");
        if seeds == 1 {
            println!("{story}");
        }
        lasted += one;
    }
    println!("{seeds} clusters lived for {lasted:.0?}");
}
