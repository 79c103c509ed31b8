//! The threads that a subcommand works with, and how often they wake up.

use std::io;
use std::num::NonZero;
use std::thread::{available_parallelism, sleep};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

/// Threads that a controller manager works with, besides the one that waits for its end. What it does is mostly one small
/// event after another: a second thread makes each of them wake threads, which doubles the processor time at rest (a
/// thousand nodes that renew their leases, `benches/cluster.sh`) and makes no load's wall time shorter.
const MANAGER_THREADS: usize = 1;

/// Threads that a node agent works with at the most. It mostly waits, for its runtime and its API server; each thread more
/// costs a stack and an arena of the allocator, and a node may have a hundred processors.
const NODE_THREADS: usize = 2;

/// The runtime of a controller manager. While much happens, its thread wakes up less often: see [`Wakeups`].
///
/// # Errors
/// The system gives no thread, or no means to wait for connections.
pub(crate) fn of_manager() -> io::Result<Runtime> {
    let wakeups = Mutex::new(Wakeups::new(Instant::now()));
    let about_to_wait = move || {
        let pause = wakeups.lock().pause(Instant::now());
        #[expect(
            clippy::disallowed_methods,
            reason = "the thread has no task to run, and events must wait for the end of the pause"
        )]
        sleep(pause);
    };
    threads(MANAGER_THREADS).on_thread_park(about_to_wait).build()
}

/// The runtime of a node agent.
///
/// # Errors
/// As [`of_manager`].
pub(crate) fn of_node() -> io::Result<Runtime> {
    threads(processors().min(NODE_THREADS)).build()
}

/// A runtime that uses all processors.
///
/// # Errors
/// As [`of_manager`].
pub(crate) fn of_all() -> io::Result<Runtime> {
    threads(processors()).build()
}

/// How many processors there are for this process.
fn processors() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

fn threads(count: usize) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(count).enable_all();
    builder
}

/// How often the thread of a manager may wake up: at once after a quiet time, and once in [`PERIOD`](Self::PERIOD) under load, as
/// network cards moderate their interrupts.
///
/// To wake up for one event of a watch or one answer costs as much as to handle it, and under load the next one is there some
/// hundred microseconds later. What arrives in a pause is read, decrypted and handled together. For 50 Jobs of 40 pods
/// (`benches/batch.sh`) this saves a quarter of the processor time, and takes no longer.
struct Wakeups {
    /// When the thread may wake up [`BURST`](Self::BURST) times in a row again.
    full_at: Instant,
}

impl Wakeups {
    /// With 10 ms, one large Job costs a sixth less, and 200 Deployments take a twentieth longer to roll.
    const PERIOD: Duration = Duration::from_millis(5);
    /// Number of wake-ups without a pause after a quiet time, so that one event and the calls that follow from it are not delayed.
    const BURST: u32 = 10;

    fn new(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Returns how long the thread must sleep before it waits for events. Counts one wake-up.
    fn pause(&mut self, now: Instant) -> Duration {
        let most_ahead = Self::PERIOD * (Self::BURST - 1);
        let ahead = self.full_at.saturating_duration_since(now);
        let pause = ahead.saturating_sub(most_ahead);
        self.full_at = self.full_at.max(now + pause) + Self::PERIOD;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The pauses, in milliseconds, of a thread that is out of work again so many milliseconds after each wake-up.
    fn pauses(after: impl IntoIterator<Item = u32>) -> Vec<u128> {
        let mut now = Instant::now();
        let mut wakeups = Wakeups::new(now);
        let mut pauses = Vec::new();
        for work in after {
            now += MS * work;
            let pause = wakeups.pause(now);
            now += pause;
            pauses.push(pause.as_millis());
        }
        pauses
    }

    #[test]
    fn a_burst_is_handled_at_once_and_more_of_it_in_portions() {
        assert_eq!(pauses([0; 12]), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5]);
        assert_eq!(pauses([1; 15])[11..], [0, 3, 4, 4], "work counts");
        assert_eq!(pauses([5; 30]), [0; 30], "no more than one in a period");
        let again = [vec![0; 12], vec![50], vec![0; 10]].concat();
        assert_eq!(pauses(again)[12..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5], "after a quiet time");
    }

    #[test]
    fn a_manager_under_load_does_what_it_has_to_do() {
        let runtime = of_manager().unwrap();
        let turns = runtime.block_on(async {
            let mut turns = tokio::task::JoinSet::new();
            turns.spawn(async {
                for _ in 0..100 {
                    tokio::time::sleep(MS).await;
                }
                100
            });
            turns.join_next().await.unwrap().unwrap()
        });
        assert_eq!(turns, 100);
    }
}
