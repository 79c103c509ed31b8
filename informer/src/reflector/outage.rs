//! Lets the reflectors of one API server recover together.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::list_watch::Error;
use crate::throttle::{Pass, Throttle};
use crate::wire::frames::FrameError;

/// What the reflectors of one API server know of its absence. Clones are the same.
///
/// The back-off of a reflector tells nothing about the server's return: after two minutes of absence it is up to a minute
/// long, so that caches would stay behind for that time. Therefore:
///
/// - one of the reflectors that can't reach the server, the scout, tries again every few seconds, while all others keep to
///   their back-off;
/// - the first answer that any reflector gets wakes those that could not reach the server or were told that it is too busy
///   (429). They come within a second, not all at once, and not before the time that the server asked for;
/// - they log their broken connections together: a few lines a minute, however many caches there are.
///
/// Under overload, answers and refusals alternate. So reflectors are woken no more often than every five seconds, and
/// the back-off of one that was refused with 429 goes on.
#[derive(Clone, Debug)]
pub struct Outage {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Incremented to wake the reflectors that wait.
    back: watch::Sender<u64>,
    lines: Throttle,
}

#[derive(Debug, Default)]
struct State {
    /// Since when no reflector has reached the server.
    unreachable_since: Option<Instant>,
    /// Whether a scout waits.
    has_scout: bool,
    /// When reflectors were last woken.
    woken: Option<Instant>,
}

/// What a failure says about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symptom {
    /// No connection could be made, or one broke.
    Unreachable,
    /// The server has too many requests.
    Busy,
    /// Nothing: the failure may concern this kind only.
    Unknown,
}

/// The wait of one reflector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) symptom: Symptom,
    /// When the back-off ends.
    pub(super) until: Instant,
    /// Not before this time: the server asked for it.
    pub(super) earliest: Instant,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Its time was over.
    Over,
    /// The server, which could not be reached, answered another reflector.
    Back,
}

/// The longest wait of a scout. It waits at least half as long, so that many processes do not come together.
const SCOUT_WAIT: Duration = Duration::from_secs(6);
/// Those who are woken come within this time.
const SPREAD: Duration = Duration::from_secs(1);
/// Shortest time between two wakes.
const WAKE_PERIOD: Duration = Duration::from_secs(5);
/// Lines about broken connections: so many in this time.
const LINES: (u32, Duration) = (5, Duration::from_secs(30));
/// The shortest absence whose end is logged.
const WORTH_A_LINE: Duration = Duration::from_secs(3);

impl Symptom {
    pub(super) fn of(error: &Error) -> Self {
        match error {
            Error::Call(_) | Error::Body(_) | Error::Frame(FrameError::Truncated) => Self::Unreachable,
            Error::Status(status) if status.code == 429 => Self::Busy,
            _ => Self::Unknown,
        }
    }
}

impl Default for Outage {
    fn default() -> Self {
        let (state, back) = (Mutex::default(), watch::Sender::new(0));
        Self { shared: Arc::new(Shared { state, back, lines: Throttle::new(LINES.0, LINES.1) }) }
    }
}

impl Outage {
    /// Records a failure. Returns whether it may be logged as a warning.
    pub(super) fn failed(&self, symptom: Symptom) -> Option<Pass> {
        if symptom != Symptom::Unreachable {
            return Some(Pass { kept_back: None });
        }
        self.shared.state.lock().unreachable_since.get_or_insert_with(Instant::now);
        self.shared.lines.pass()
    }

    /// Records that the server answered a list or a watch, and wakes those who wait for that.
    pub(super) fn answered(&self) {
        let mut state = self.shared.state.lock();
        let since = state.unreachable_since.take();
        let now = Instant::now();
        let due = state.woken.is_none_or(|woken| now - woken >= WAKE_PERIOD);
        if due && self.shared.back.receiver_count() > 0 {
            state.woken = Some(now);
            self.shared.back.send_modify(|times| *times = times.wrapping_add(1));
        }
        drop(state);
        if let Some(absence) = since.map(|since| now - since).filter(|absence| *absence >= WORTH_A_LINE) {
            tracing::info!(?absence, "API server can be reached again");
        }
    }

    /// Waits, and not longer than until the server is back.
    pub(super) async fn wait(&self, pause: Pause) -> Ended {
        if pause.symptom == Symptom::Unknown {
            sleep_until(pause.until).await;
            return Ended::Over;
        }
        let mut back = self.shared.back.subscribe();
        let scout = (pause.symptom == Symptom::Unreachable).then(|| Scout::of(self)).flatten();
        let until = match &scout {
            Some(_) => {
                let wait = SCOUT_WAIT.mul_f64(0.5 + rand::rng().random::<f64>() / 2.0);
                pause.until.min(Instant::now() + wait).max(pause.earliest)
            }
            None => pause.until,
        };
        tokio::select! {
            () = sleep_until(until) => Ended::Over,
            // This is the only sender, and it lives as long as `self`.
            _ = back.changed() => {
                let late = SPREAD.mul_f64(rand::rng().random());
                sleep(late).await;
                sleep_until(pause.earliest).await;
                match pause.symptom {
                    Symptom::Unreachable => Ended::Back,
                    Symptom::Busy | Symptom::Unknown => Ended::Over,
                }
            }
        }
    }
}

/// The role of the scout, held while it waits.
struct Scout<'a>(&'a Outage);

impl<'a> Scout<'a> {
    /// Takes the role, if nobody has it.
    fn of(outage: &'a Outage) -> Option<Self> {
        let had = std::mem::replace(&mut outage.shared.state.lock().has_scout, true);
        (!had).then_some(Self(outage))
    }
}

impl Drop for Scout<'_> {
    fn drop(&mut self) {
        self.0.shared.state.lock().has_scout = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a wait took that would end after a minute by itself.
    async fn waited(outage: &Outage, symptom: Symptom, at_least: Duration) -> (Duration, Ended) {
        let begun = Instant::now();
        let pause = Pause { symptom, until: begun + Duration::from_secs(60), earliest: begun + at_least };
        outage.failed(symptom);
        let ended = outage.wait(pause).await;
        (begun.elapsed(), ended)
    }

    fn seconds(of: u64) -> Duration {
        Duration::from_secs(of)
    }

    #[tokio::test(start_paused = true)]
    async fn one_reflector_scouts_and_its_answer_wakes_the_others() {
        let outage = Outage::default();
        let scout = async {
            let (waited, ended) = waited(&outage, Symptom::Unreachable, Duration::ZERO).await;
            assert!((seconds(3)..seconds(7)).contains(&waited), "{waited:?}");
            assert_eq!(ended, Ended::Over);
            outage.answered();
        };
        let other = |symptom, expected| {
            let outage = &outage;
            async move {
                let (waited, ended) = waited(outage, symptom, Duration::ZERO).await;
                assert!(waited < seconds(8), "{waited:?}");
                assert_eq!(ended, expected);
            }
        };
        let unknown = async {
            assert_eq!(waited(&outage, Symptom::Unknown, Duration::ZERO).await, (seconds(60), Ended::Over));
        };
        tokio::join!(
            biased;
            scout,
            other(Symptom::Unreachable, Ended::Back),
            other(Symptom::Busy, Ended::Over),
            unknown
        );
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_comes_before_the_time_that_the_server_asked_for() {
        let outage = Outage::default();
        let answers = async {
            sleep(seconds(2)).await;
            outage.answered();
        };
        let ((waited, _), ()) = tokio::join!(waited(&outage, Symptom::Busy, seconds(20)), answers);
        assert_eq!(waited, seconds(20));
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_that_alternate_with_answers_wake_only_every_few_seconds() {
        let outage = Outage::default();
        let answers = async {
            loop {
                outage.answered();
                sleep(Duration::from_millis(10)).await;
            }
        };
        let refused = async {
            let mut times = 0;
            let begun = Instant::now();
            while begun.elapsed() < seconds(60) {
                waited(&outage, Symptom::Busy, Duration::ZERO).await;
                times += 1;
            }
            times
        };
        tokio::select! {
            () = answers => {}
            times = refused => assert!((10..=13).contains(&times), "{times}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_hundred_broken_connections_are_a_few_lines() {
        let outage = Outage::default();
        let logged = |symptom| (0..100).filter(|_| outage.failed(symptom).is_some()).count();
        assert_eq!(logged(Symptom::Unreachable), 5);
        assert_eq!(logged(Symptom::Busy), 100, "they are rare, and each kind may have a cause of its own");
    }
}
