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
/// A server that refuses the credentials (401) refuses every kind, so that counts as absence. Any refusal by a server that was
/// absent until a moment ago is treated alike: while it starts, it forbids what it will allow once it has read its roles.
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
    /// Since when the server has been absent.
    absent_since: Option<Instant>,
    /// When its last absence ended.
    back_since: Option<Instant>,
    /// How often it has come back.
    returns: u64,
    /// Whether a scout waits.
    has_scout: bool,
    /// When reflectors were last woken.
    woken: Option<Instant>,
}

/// What a failure says about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symptom {
    /// It is absent for all kinds: no connection could be made, or one broke, or the credentials were refused.
    Absent,
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

/// The longest wait of a scout. It waits at least half as long, so that many processes do not come together.
const SCOUT_WAIT: Duration = Duration::from_secs(6);
/// Those who are woken come within this time.
const SPREAD: Duration = Duration::from_secs(1);
/// Shortest time between two wakes.
const WAKE_PERIOD: Duration = Duration::from_secs(5);
/// Lines about the absence: so many in this time.
const LINES: (u32, Duration) = (5, Duration::from_secs(30));
/// The shortest absence whose end is logged.
const WORTH_A_LINE: Duration = Duration::from_secs(3);
/// So long after its absence, a server may still be starting. kube-apiserver forbids requests for a few seconds, until it has read
/// all roles; on a busy machine, for longer.
const START: Duration = Duration::from_secs(30);

impl State {
    fn may_be_starting(&self) -> bool {
        self.absent_since.is_some() || self.back_since.is_some_and(|back| back.elapsed() < START)
    }
}

impl Default for Outage {
    fn default() -> Self {
        let (state, back) = (Mutex::default(), watch::Sender::new(0));
        Self { shared: Arc::new(Shared { state, back, lines: Throttle::new(LINES.0, LINES.1) }) }
    }
}

impl Outage {
    /// Records a failure. Returns what it says about the server, and whether it may be logged as a warning.
    pub(super) fn failed(&self, error: &Error) -> (Symptom, Option<Pass>) {
        let mut state = self.shared.state.lock();
        let symptom = match error {
            Error::Call(_) | Error::Body(_) | Error::Frame(FrameError::Truncated) => Symptom::Absent,
            Error::Status(status) => match status.code {
                401 => Symptom::Absent,
                429 => Symptom::Busy,
                _ if state.may_be_starting() => Symptom::Absent,
                _ => Symptom::Unknown,
            },
            _ => Symptom::Unknown,
        };
        if symptom != Symptom::Absent {
            return (symptom, Some(Pass { kept_back: None }));
        }
        // A refusal by a server that starts does not prolong its absence: if it is no matter of the start, it would go on for ever.
        if !matches!(error, Error::Status(status) if status.code != 401) {
            state.absent_since.get_or_insert_with(Instant::now);
        }
        drop(state);
        (symptom, self.shared.lines.pass())
    }

    /// Records that the server answered a list or a watch, and wakes those who wait for that.
    pub(super) fn answered(&self) {
        let mut state = self.shared.state.lock();
        let since = state.absent_since.take();
        let now = Instant::now();
        let due = state.woken.is_none_or(|woken| now - woken >= WAKE_PERIOD);
        if since.is_some() {
            state.back_since = Some(now);
            state.returns += u64::from(due);
        }
        if due && self.shared.back.receiver_count() > 0 {
            state.woken = Some(now);
            self.shared.back.send_modify(|times| *times = times.wrapping_add(1));
        }
        drop(state);
        if let Some(absence) = since.map(|since| now - since).filter(|absence| *absence >= WORTH_A_LINE) {
            tracing::info!(?absence, "API server answers again");
        }
    }

    /// How often the server has come back. What failed before its last return says nothing about it any more.
    pub(super) fn returns(&self) -> u64 {
        self.shared.state.lock().returns
    }

    /// Waits, and not longer than until the server is back.
    pub(super) async fn wait(&self, pause: Pause) {
        if pause.symptom == Symptom::Unknown {
            return sleep_until(pause.until).await;
        }
        let mut back = self.shared.back.subscribe();
        // One that must wait for long is no scout.
        let may_scout = pause.symptom == Symptom::Absent && pause.earliest <= Instant::now() + SCOUT_WAIT;
        let scout = may_scout.then(|| Scout::of(self)).flatten();
        let until = match &scout {
            Some(_) => {
                let wait = SCOUT_WAIT.mul_f64(0.5 + rand::rng().random::<f64>() / 2.0);
                pause.until.min(Instant::now() + wait).max(pause.earliest)
            }
            None => pause.until,
        };
        tokio::select! {
            () = sleep_until(until) => {}
            // This is the only sender, and it lives as long as `self`.
            _ = back.changed() => {
                let late = SPREAD.mul_f64(rand::rng().random());
                sleep(late).await;
                sleep_until(pause.earliest).await;
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
    use steersman_api::Status;

    /// How long a wait took that would end after a minute by itself.
    async fn waited(outage: &Outage, error: &Error, at_least: Duration) -> Duration {
        let begun = Instant::now();
        let (symptom, _) = outage.failed(error);
        outage.wait(Pause { symptom, until: begun + seconds(60), earliest: begun + at_least }).await;
        begun.elapsed()
    }

    fn seconds(of: u64) -> Duration {
        Duration::from_secs(of)
    }

    fn broken() -> Error {
        FrameError::Truncated.into()
    }

    fn refused(code: i32) -> Error {
        Error::Status(Box::new(Status { code, ..Status::default() }))
    }

    #[tokio::test(start_paused = true)]
    async fn one_reflector_scouts_and_its_answer_wakes_the_others() {
        for absent in [broken(), refused(401)] {
            let outage = Outage::default();
            let unknown = async {
                assert_eq!(waited(&outage, &refused(403), Duration::ZERO).await, seconds(60));
            };
            let scout = async {
                let waited = waited(&outage, &absent, Duration::ZERO).await;
                assert!((seconds(3)..seconds(7)).contains(&waited), "{waited:?}");
                assert_eq!(outage.returns(), 0);
                outage.answered();
                assert_eq!(outage.returns(), 1);
            };
            let other = async |error: &Error| {
                let waited = waited(&outage, error, Duration::ZERO).await;
                assert!(waited < seconds(8), "{waited:?}");
            };
            let busy = refused(429);
            tokio::join!(biased; unknown, scout, other(&absent), other(&busy));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_was_absent_may_refuse_until_it_has_started() {
        let outage = Outage::default();
        assert_eq!(outage.failed(&refused(403)).0, Symptom::Unknown);
        assert_eq!(outage.failed(&broken()).0, Symptom::Absent);
        assert_eq!(
            outage.failed(&refused(403)).0,
            Symptom::Absent,
            "it starts, and nobody has got an answer"
        );
        outage.answered();
        sleep(seconds(29)).await;
        assert_eq!(outage.failed(&refused(403)).0, Symptom::Absent);
        assert_eq!(outage.failed(&refused(429)).0, Symptom::Busy);
        assert_eq!(outage.failed(&Error::ShortWatch).0, Symptom::Unknown, "this is no refusal");
        outage.answered();
        sleep(seconds(2)).await;
        assert_eq!(outage.failed(&refused(403)).0, Symptom::Unknown, "refusals do not prolong the absence");
        assert_eq!(outage.returns(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_comes_before_the_time_that_the_server_asked_for() {
        let outage = Outage::default();
        let answers = async {
            sleep(seconds(2)).await;
            outage.answered();
        };
        let busy = refused(429);
        let (waited, ()) = tokio::join!(waited(&outage, &busy, seconds(20)), answers);
        assert_eq!(waited, seconds(20));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_that_alternate_with_answers_wake_only_every_few_seconds() {
        for error in [refused(429), broken()] {
            let outage = Outage::default();
            let answers = async {
                loop {
                    outage.answered();
                    sleep(Duration::from_millis(10)).await;
                }
            };
            let failing = async {
                let mut times = 0;
                let begun = Instant::now();
                while begun.elapsed() < seconds(60) {
                    waited(&outage, &error, Duration::ZERO).await;
                    times += 1;
                }
                times
            };
            tokio::select! {
                () = answers => {}
                // One that is woken every five seconds, and comes once more between two wakes when it is the scout.
                times = failing => assert!((10..=25).contains(&times), "{times}"),
            }
            assert!(outage.returns() <= 13, "{}", outage.returns());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_hundred_broken_connections_are_a_few_lines() {
        for (error, lines) in [(broken(), 5), (refused(401), 5), (refused(429), 100), (refused(403), 100)] {
            let outage = Outage::default();
            let logged = (0..100).filter(|_| outage.failed(&error).1.is_some()).count();
            assert_eq!(logged, lines, "{error}");
        }
    }
}
