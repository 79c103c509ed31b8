//! Breaks off work, except in parts that must run to their end.

use std::sync::Arc;

use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;

/// Asks the work on a pod to end early. All clones are the same interrupt.
///
/// [`run`](Self::run) drops the work at whatever it awaits. Dropping a call to the runtime in the middle cancels it there,
/// and the runtime may then leave a network, a name or a container behind that the agent does not know. The work therefore
/// wraps such calls in [`whole`](Self::whole), and `run` drops the work right after the call instead.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    asked: CancellationToken,
    /// Each whole part under way holds it for reading; `run` waits for them by writing.
    whole: RwLock<()>,
}

impl Interrupt {
    /// An interrupt that nobody has asked for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the work to end. Returns at once.
    pub fn interrupt(&self) {
        self.shared.asked.cancel();
    }

    /// Runs `work`. Once the interrupt is asked for, waits for whole parts under way, drops `work` and returns `None`.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let interrupted = async {
            self.shared.asked.cancelled().await;
            drop(self.shared.whole.write().await);
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = interrupted => None,
        }
    }

    /// Runs a part of the work that is not dropped before its end. The part must have a deadline of its own. Once the
    /// interrupt is asked for, no part begins, and this never returns: [`run`](Self::run) drops it.
    pub async fn whole<T>(&self, part: impl Future<Output = T>) -> T {
        let whole = self.shared.whole.read().await;
        if self.shared.asked.is_cancelled() {
            // `run` looks at the interrupt only once the work waits for something.
            drop(whole);
            return std::future::pending().await;
        }
        part.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Three whole parts of a second each, then a part that never ends. Says how many parts ended.
    async fn parts_done(interrupt_after: Duration) -> (Option<()>, u32) {
        let (interrupt, done) = (Interrupt::new(), AtomicU32::new(0));
        let work = async {
            for _ in 0..3 {
                interrupt.whole(sleep(SECOND)).await;
                done.fetch_add(1, Ordering::Relaxed);
            }
            std::future::pending().await
        };
        let asks = async {
            sleep(interrupt_after).await;
            interrupt.interrupt();
        };
        let (ended, ()) = tokio::join!(interrupt.run(work), asks);
        (ended, done.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_dropped_after_the_whole_part_under_way() {
        for (after, done) in [(SECOND / 2, 1), (SECOND * 3 / 2, 2), (SECOND * 5, 3)] {
            assert_eq!(parts_done(after).await, (None, done), "{after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_part_begins_after_the_interrupt() {
        let interrupt = Interrupt::new();
        let work = async {
            interrupt.interrupt();
            interrupt.whole(async { panic!("a part begins") }).await
        };
        assert_eq!(interrupt.run(work).await, None::<()>);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_nobody_interrupts_ends_by_itself() {
        let interrupt = Interrupt::new();
        let work = async {
            sleep(SECOND).await;
            interrupt.whole(sleep(SECOND)).await;
            7
        };
        assert_eq!(interrupt.run(work).await, Some(7));
    }
}
