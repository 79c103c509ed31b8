//! A toy controller whose observations and plans each test chooses.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{Status, Time};
use steersman_informer::work_queue::{QueueConfig, WorkQueue};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::context::Clock;
use crate::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use crate::plan::{Batch, OnFailure, Pace, Plan};

mod batches;
mod status;
mod stopping;
mod syncs;

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Succeeds,
    Fails,
    /// Fails since the API server is too busy.
    Throttled,
    Panics,
    Takes(Duration),
    Hangs,
    /// Succeeds, and makes the rest of its batch pointless.
    EndsBatch,
}

/// What the controller observes.
#[derive(Clone, Debug)]
enum Sight {
    Nothing,
    Behind(Duration),
    /// These plans, one after the other, and then done.
    Plans(Vec<Plan<Step>>),
    Unreadable,
    Endless,
}

/// What happened, with the seconds since the start of the test.
#[derive(Clone, Debug, PartialEq)]
enum Happened {
    Observed(String),
    Absorbed(&'static str),
    Finished(Result<(), String>),
}

struct Toy {
    sights: Mutex<Vec<Sight>>,
    log: Mutex<Vec<(f64, Happened)>>,
    looks: watch::Sender<usize>,
    begun: Instant,
    /// The number of running steps, and its maximum so far.
    at_once: Mutex<(usize, usize)>,
}

struct Observed {
    plans: Vec<Plan<Step>>,
    endless: bool,
}

impl Toy {
    /// Observes these in turn, and repeats the last one.
    fn new(sights: impl IntoIterator<Item = Sight>) -> Arc<Self> {
        let mut sights: Vec<_> = sights.into_iter().collect();
        sights.reverse();
        Arc::new(Self {
            sights: Mutex::new(sights),
            log: Mutex::default(),
            looks: watch::Sender::new(0),
            begun: Instant::now(),
            at_once: Mutex::default(),
        })
    }

    fn note(&self, happened: Happened) {
        self.log.lock().push((self.begun.elapsed().as_secs_f64(), happened));
    }

    fn happened(&self) -> Vec<Happened> {
        self.log.lock().iter().map(|(_, happened)| happened.clone()).collect()
    }

    fn absorbed(&self) -> Vec<&'static str> {
        let what = |happened| if let Happened::Absorbed(what) = happened { Some(what) } else { None };
        self.happened().into_iter().filter_map(what).collect()
    }

    /// When the toy observed its cache.
    fn observed_at(&self) -> Vec<f64> {
        let log = self.log.lock();
        let observed = log.iter().filter(|(_, happened)| matches!(happened, Happened::Observed(_)));
        observed.map(|(at, _)| *at).collect()
    }
}

impl Controller for Toy {
    type Key = String;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Step;

    async fn observe(&self, key: &String) -> Result<Observation<Observed>, SyncError> {
        self.note(Happened::Observed(key.clone()));
        self.looks.send_modify(|looks| *looks += 1);
        let mut sights = self.sights.lock();
        let sight = if sights.len() > 1 { sights.pop() } else { sights.last().cloned() };
        match sight.expect("a toy must have an observation") {
            Sight::Nothing => Ok(Observation::Nothing),
            Sight::Behind(at_most) => Ok(Observation::Behind(at_most)),
            Sight::Unreadable => Err(SyncError::Unreadable(key.clone())),
            Sight::Plans(mut plans) => {
                plans.reverse();
                Ok(Observation::Ready(Observed { plans, endless: false }))
            }
            Sight::Endless => Ok(Observation::Ready(Observed { plans: Vec::new(), endless: true })),
        }
    }

    fn plan(&self, observed: &Observed, _now: Time) -> Plan<Step> {
        match observed.plans.last() {
            _ if observed.endless => Plan::step(Step::Succeeds),
            Some(plan) => plan.clone(),
            None => Plan::done(),
        }
    }

    async fn act(&self, _key: &String, _observed: &Observed, step: &Step) -> Result<Step, SyncError> {
        {
            let mut at_once = self.at_once.lock();
            at_once.0 += 1;
            at_once.1 = at_once.1.max(at_once.0);
        }
        match step {
            Step::Succeeds | Step::Fails | Step::Throttled | Step::EndsBatch => {
                tokio::task::yield_now().await
            }
            Step::Panics => panic!("the step panicked"),
            Step::Takes(time) => sleep(*time).await,
            Step::Hangs => pending().await,
        }
        self.at_once.lock().0 -= 1;
        match step {
            Step::Fails => Err(SyncError::Failed("the step failed".to_owned())),
            Step::Throttled => {
                let status = Box::new(Status::failure(429, "TooManyRequests", "later"));
                Err(SyncError::Refused { what: "the step".to_owned(), status })
            }
            step => Ok(*step),
        }
    }

    fn ends_batch(&self, outcome: &Step) -> bool {
        *outcome == Step::EndsBatch
    }

    fn absorb(&self, observed: &mut Observed, _step: Step, result: StepResult<Step>) {
        self.note(Happened::Absorbed(match result {
            StepResult::Done(_) => "done",
            StepResult::Failed(_) => "failed",
            StepResult::Skipped => "skipped",
        }));
        let absorbed = self.absorbed().len();
        let planned: usize = observed.plans.last().map_or(usize::MAX, |plan| match plan {
            Plan::Act(batch) => batch.steps.len(),
            Plan::Done { .. } => 0,
        });
        if absorbed.is_multiple_of(planned) {
            observed.plans.pop();
        }
    }

    fn finished(&self, key: &String, sync: FinishedSync<'_, Observed>) {
        self.note(Happened::Finished(sync.result.map_err(ToString::to_string)));
        assert_ne!(key, "trap", "as a test wants");
    }
}

fn batch(steps: impl IntoIterator<Item = Step>, pace: Pace, on_failure: OnFailure) -> Plan<Step> {
    Plan::Act(Batch { steps: steps.into_iter().collect(), pace, on_failure })
}

fn step(step: Step) -> Sight {
    Sight::Plans(vec![Plan::step(step)])
}

/// A toy that runs on a queue until it is stopped.
struct Rig {
    toy: Arc<Toy>,
    queue: WorkQueue<String>,
    controllers: Controllers,
    stop: CancellationToken,
    registry: prometheus::Registry,
    tasks: JoinSet<Result<(), ShutdownTimeout>>,
}

const TIMING: Timing = Timing { start_interval: Duration::ZERO, shutdown_timeout: Duration::from_secs(10) };

impl Rig {
    fn new(sights: impl IntoIterator<Item = Sight>) -> Self {
        Self::with(sights, |queue| queue)
    }

    fn with(
        sights: impl IntoIterator<Item = Sight>,
        set: impl FnOnce(QueueLoop<Toy>) -> QueueLoop<Toy>,
    ) -> Self {
        let toy = Toy::new(sights);
        let queue = WorkQueue::new(QueueConfig::new("toys"));
        let loops = vec![set(QueueLoop::new(Arc::clone(&toy), queue.clone())).into()];
        Self::of(toy, queue, loops)
    }

    fn of(toy: Arc<Toy>, queue: WorkQueue<String>, loops: Vec<Loop>) -> Self {
        let metrics = Metrics::new();
        let registry = prometheus::Registry::new();
        metrics.register(&registry).unwrap();
        let built = BuiltController { name: "toy-controller", loops, caches: Vec::new() };
        let controllers = Controllers::new(
            vec![built],
            Clock::of(|| Time::from_seconds(0)),
            metrics,
            crate::children::FirstLooks::default(),
        );
        let (stop, tasks) = (CancellationToken::new(), JoinSet::new());
        Self { toy, queue, controllers, stop, registry, tasks }
    }

    fn run(&mut self) {
        let (controllers, stop) = (self.controllers.clone(), self.stop.clone());
        self.tasks.spawn(async move { controllers.run(&stop, TIMING).await });
    }

    async fn stop(&mut self) -> Result<(), ShutdownTimeout> {
        self.stop.cancel();
        self.tasks.join_next().await.unwrap().unwrap()
    }

    /// Waits until the toy has observed its cache this many times.
    async fn observed(&self, times: usize) {
        let mut looks = self.toy.looks.subscribe();
        let enough = looks.wait_for(|looks| *looks >= times);
        timeout(Duration::from_secs(100_000), enough).await.expect("the key must be synced again").unwrap();
        // A sync whose steps take no time comes to its end meanwhile.
        sleep(Duration::from_millis(1)).await;
    }

    /// The sum of a family's series, whose labels contain `label`. A histogram counts by its observations.
    fn metric(&self, name: &str, label: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let series = family.map(|family| family.get_metric()).unwrap_or_default();
        let labelled = series.iter().filter(|series| series.get_label().iter().any(|l| l.value() == label));
        let value = |series: &prometheus::proto::Metric| {
            let observations = series.get_histogram().get_sample_count();
            series.get_counter().get_value() + series.get_gauge().get_value() + observations as f64
        };
        labelled.map(value).sum()
    }
}
