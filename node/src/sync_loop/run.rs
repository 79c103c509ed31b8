//! The loop itself.

use std::collections::{BTreeSet, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::{BoxStream, FuturesUnordered, StreamExt};
use jiff::Timestamp;
use parking_lot::Mutex;
use steersman_api::Uid;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use super::agent::{Agent, CleanUp, OnNode};
use super::container_deletor::Deletions;
use super::held::{Held, MakeRoom, Need};
use super::metrics::Metrics;
use super::runtime_state::RuntimeState;
use crate::admission::preemption;
use crate::allocation::{Resizes, Trigger};
use crate::events::{EventType, Events, pod_reference};
use crate::pleg::PodLifecycleEvent;
use crate::pod_config::{PodConfig, PodUpdate};
use crate::pod_manager::PodManager;
use crate::pod_workers::PodWorkers;
use crate::probes::ProbeUpdate;
use crate::startup_latency::StartupLatency;
use crate::status_manager::StatusManager;

/// How often pods are looked for that are due.
const SYNC_PERIOD: Duration = Duration::from_secs(1);
/// How often the node is tidied.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(2);
/// Decisions of a housekeeping that take longer than this hold up pods.
const HOUSEKEEPING_WARNING: Duration = Duration::from_secs(1);
/// The latest time, from its first round, at which pods no longer count as having been there before the agent (upstream: the
/// period of the eviction manager).
const SETTLES_AFTER: Duration = Duration::from_secs(10);
/// How long the loop rests while the runtime is not well: at first, and at most.
const REST: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long after the start the loop does not warn that the runtime or the PLEG is not healthy. The PLEG's first relist takes
/// some 100 ms on an idle machine, and longer on a busy one.
const STARTS_WITHIN: Duration = Duration::from_secs(3);
/// A loop that was not begun anew for so long is stuck (upstream: twice the resync interval, five minutes at least).
const STUCK_AFTER: Duration = Duration::from_secs(300);

/// Who the loop works with.
pub struct Parts {
    /// The pods that sources want. The loop is the one who writes.
    pub pods: PodManager,
    /// The workers. The loop sends them updates.
    pub workers: PodWorkers,
    /// The statuses of pods.
    pub status: StatusManager,
    /// The rest of the node.
    pub agent: Arc<dyn Agent>,
    /// What pods were allocated, and what they wait to be. The loop is the one who allocates.
    pub resizes: Resizes,
    /// Those that wait to be admitted; none at first.
    pub held: Held,
    /// Who removes ended containers.
    pub deletions: Deletions,
    /// Whether the runtime is well.
    pub runtime: RuntimeState,
    /// Where refusals are told.
    pub events: Events,
    /// What is measured.
    pub metrics: Metrics,
    /// Told of pods as the API server has them.
    pub startup: StartupLatency,
}

/// What the loop hears.
pub struct Inputs {
    /// The sources: whether all were heard.
    pub config: PodConfig,
    /// What they say. When it closes, the loop ends.
    pub updates: mpsc::Receiver<PodUpdate>,
    /// What the PLEG notices.
    pub pod_events: mpsc::Receiver<PodLifecycleEvent>,
    /// What probes find.
    pub probes: BoxStream<'static, ProbeUpdate>,
}

/// The sync loop, not yet running.
pub struct SyncLoop {
    parts: Parts,
    inputs: Inputs,
    health: LoopHealth,
}

/// Whether the loop goes round; a clone tells the same.
#[derive(Debug, Clone, Default)]
pub struct LoopHealth {
    entered: Arc<Mutex<Option<Instant>>>,
    heard_all: Arc<AtomicBool>,
}

/// The loop is stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sync Loop took longer than expected")]
pub struct Stuck;

impl LoopHealth {
    fn enter(&self) {
        *self.entered.lock() = Some(Instant::now());
    }

    /// Whether the loop has seen pods of all sources. Before, a pod that it does not know may still come.
    pub fn heard_all_sources(&self) -> bool {
        self.heard_all.load(Ordering::Acquire)
    }

    /// Whether it went round in the last five minutes; before its first round all is well.
    ///
    /// # Errors
    /// It did not.
    pub fn check(&self) -> Result<(), Stuck> {
        let entered = *self.entered.lock();
        if entered.is_some_and(|entered| entered.elapsed() > STUCK_AFTER) { Err(Stuck) } else { Ok(()) }
    }
}

/// Something that runs beside the loop has ended.
enum Beside {
    Observed { on_node: Option<OnNode>, known_before: HashSet<Uid> },
    Cleaned,
    MadeRoom,
    ReadNode,
}

/// What the loop keeps from round to round.
struct Round {
    sync: Interval,
    housekeeping: Interval,
    /// The sources of which an update came through.
    heard: BTreeSet<crate::pod_config::Source>,
    /// At most one look at the node, one removal and one need at a time.
    beside: FuturesUnordered<BoxFuture<'static, Beside>>,
    observing: bool,
    cleaning: bool,
    /// When the agent is told that it has settled, at the latest; `None` once it was.
    settles: Option<Instant>,
}

impl SyncLoop {
    /// Over these parts.
    pub fn new(parts: Parts, inputs: Inputs) -> Self {
        Self { parts, inputs, health: LoopHealth::default() }
    }

    /// Tells whether it goes round.
    pub fn health(&self) -> LoopHealth {
        self.health.clone()
    }

    /// Runs until `stop`, or until sources can say nothing any more. What runs beside it is dropped then; workers go on.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut round = Round {
            sync: every(SYNC_PERIOD),
            housekeeping: every(HOUSEKEEPING_PERIOD),
            heard: BTreeSet::new(),
            beside: FuturesUnordered::new(),
            observing: false,
            cleaning: false,
            settles: None,
        };
        let mut rest = REST.0;
        let (began, mut entered) = (Instant::now(), false);
        while !stop.is_cancelled() {
            if let Some(errors) = self.parts.runtime.errors() {
                // The PLEG is not healthy before its first relist.
                match entered || began.elapsed() >= STARTS_WITHIN {
                    true => tracing::warn!(errors, "Skipping pod synchronization"),
                    false => tracing::debug!(errors, "Skipping pod synchronization"),
                }
                stop.run_until_cancelled(tokio::time::sleep(rest)).await;
                rest = (rest * 2).min(REST.1);
                continue;
            }
            rest = REST.0;
            if !std::mem::replace(&mut entered, true) {
                round.settles = Some(Instant::now() + SETTLES_AFTER);
            }
            self.health.enter();
            tokio::select! {
                () = stop.cancelled() => return,
                update = self.inputs.updates.recv() => {
                    let Some(update) = update else {
                        tracing::error!("Update channel is closed, exiting the sync loop");
                        return;
                    };
                    let source = update.source;
                    let heard = self.inputs.config.seen_all_sources(&round.heard);
                    let need = self.parts.config_changed(update, heard);
                    round.beside.extend(need.map(|need| self.meet(need)));
                    round.heard.insert(source);
                    let heard = self.inputs.config.seen_all_sources(&round.heard);
                    self.health.heard_all.store(heard, Ordering::Release);
                    self.settle_once_admitted(&mut round);
                }
                () = until(round.settles) => self.settle(&mut round),
                Some(event) = self.inputs.pod_events.recv() => self.parts.pod_changed(&event),
                Some(update) = self.inputs.probes.next() => self.parts.probed(&update),
                _ = round.sync.tick() => self.parts.sync_due(Timestamp::now()),
                _ = round.housekeeping.tick() => self.observe(&mut round),
                () = until(self.parts.resizes.due()) => {
                    let heard = self.inputs.config.seen_all_sources(&round.heard);
                    let need = self.parts.retry_resizes(Trigger::Periodic, heard);
                    round.beside.extend(need.map(|need| self.meet(need)));
                }
                Some(done) = round.beside.next(), if !round.beside.is_empty() => self.follow(&mut round, done),
            }
        }
    }

    /// Those that were there before are admitted once all sources were heard, and nobody is held.
    fn settle_once_admitted(&self, round: &mut Round) {
        if self.inputs.config.seen_all_sources(&round.heard) && self.parts.held.is_empty() {
            self.settle(round);
        }
    }

    fn settle(&self, round: &mut Round) {
        if round.settles.take().is_some() {
            self.parts.agent.settled();
        }
    }

    /// Begins a housekeeping with a look at the node, unless one is under way, or a source may still tell of pods.
    fn observe(&self, round: &mut Round) {
        if round.observing
            || !self.parts.held.is_empty()
            || !self.inputs.config.seen_all_sources(&round.heard)
        {
            return;
        }
        round.observing = true;
        let (agent, known_before) = (self.parts.agent.clone(), self.parts.workers.states().known());
        round.beside.push(Box::pin(async move {
            let on_node = match AssertUnwindSafe(agent.observe()).catch_unwind().await {
                Ok(Ok(on_node)) => Some(on_node),
                Ok(Err(error)) => {
                    tracing::error!(error, "Failed cleaning pods");
                    None
                }
                Err(_) => {
                    tracing::error!("Looking at what is on the node panicked");
                    None
                }
            };
            Beside::Observed { on_node, known_before }
        }));
    }

    fn follow(&self, round: &mut Round, done: Beside) {
        match done {
            Beside::Cleaned => round.cleaning = false,
            Beside::MadeRoom | Beside::ReadNode => {
                let heard = self.inputs.config.seen_all_sources(&round.heard);
                let need = match done {
                    Beside::ReadNode => self.parts.node_read(heard),
                    _ => self.parts.room_made(heard),
                };
                round.beside.extend(need.map(|need| self.meet(need)));
                self.settle_once_admitted(round);
            }
            Beside::Observed { on_node, known_before } => {
                round.observing = false;
                let Some(on_node) = on_node.filter(|_| self.parts.held.is_empty()) else { return };
                let began = Instant::now();
                let work = self.parts.housekeep(on_node, &known_before);
                if began.elapsed() > HOUSEKEEPING_WARNING {
                    tracing::warn!(took = ?began.elapsed(), "Housekeeping took longer than expected");
                }
                if !work.is_empty() && !round.cleaning {
                    round.cleaning = true;
                    round.beside.push(self.clean_up(work));
                }
            }
        }
    }

    fn meet(&self, need: Need) -> BoxFuture<'static, Beside> {
        match need {
            Need::Room(room) => self.make_room(room),
            Need::Node => self.read_node(),
        }
    }

    fn read_node(&self) -> BoxFuture<'static, Beside> {
        let agent = self.parts.agent.clone();
        Box::pin(async move {
            if AssertUnwindSafe(agent.read_node()).catch_unwind().await.is_err() {
                tracing::error!("Reading the node panicked");
            }
            Beside::ReadNode
        })
    }

    /// Ends the pods that make room, all at once. What does not end in time goes on ending; nobody waits for it any longer.
    fn make_room(&self, room: MakeRoom) -> BoxFuture<'static, Beside> {
        let Parts { workers, events, metrics, .. } = &self.parts;
        let (workers, events, metrics) = (workers.clone(), Arc::clone(events), metrics.clone());
        Box::pin(async move {
            let MakeRoom { pod: critical, preemption } = room;
            let (critical, signal) = (&critical.metadata.name, &preemption.signal);
            let ends = preemption.victims.iter().map(|victim| {
                let name = &victim.metadata.name;
                tracing::info!(
                    pod = name,
                    requesting = critical,
                    signal,
                    "Preempting pod to free up resources"
                );
                events.event(
                    &pod_reference(victim),
                    EventType::Warning,
                    preemption::REASON,
                    preemption::MESSAGE,
                );
                let killed =
                    workers.kill_now(victim.clone(), true, None, Some(preemption::preempted(victim)));
                let metrics = &metrics;
                async move {
                    match killed.await {
                        Ok(()) => metrics.preempted(signal),
                        Err(error) => tracing::error!(pod = name, %error, "Failed to evict pod"),
                    }
                }
            });
            join_all(ends).await;
            Beside::MadeRoom
        })
    }

    fn clean_up(&self, work: CleanUp) -> BoxFuture<'static, Beside> {
        let agent = self.parts.agent.clone();
        Box::pin(async move {
            if AssertUnwindSafe(agent.clean_up(work)).catch_unwind().await.is_err() {
                tracing::error!("Cleaning up panicked");
            }
            Beside::Cleaned
        })
    }
}

/// For ever, if there is no such time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// From one period on; ticks that were missed do not come in a bunch.
fn every(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
