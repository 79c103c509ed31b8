//! CronJobs, finished Jobs and mirrored Endpoints while managers are killed, and while all of their watches lag: no run has two
//! Jobs, a finished Job is deleted once its TTL is over and not before, and no slice is made twice.
//!
//! Upstream's manager can't pass these tests. It looks for the Job of a run without its namespace, and so does not find the one whose
//! status it could not write, or of which its cache does not know yet: then its syncs of that CronJob fail until the next run.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

#[path = "disturbed_batch/finished.rs"]
mod finished;
#[path = "disturbed_batch/mirrors.rs"]
mod mirrors;
#[path = "disturbed_batch/record.rs"]
mod record;
#[path = "disturbed_batch/runs.rs"]
mod runs;

use std::time::Duration;

use finished::Finished;
use mirrors::Mirrors;
use runs::Runs;
use steersman_apiserver::{Calls, Verb};
use support::managed::{Candidates, Managed};
use support::manager::Manager;
use support::{Cluster, patience};
use tokio::time::{sleep, timeout};

const CONTROLLERS: &str =
    "--controllers=cronjob-controller,ttl-after-finished-controller,endpointslice-mirroring-controller";
const QUICK: &[&str] = &[CONTROLLERS, "--kube-api-qps=1000", "--kube-api-burst=1000"];
/// So few calls a second of each controller that a manager can be killed in the middle of its work.
const SLOW: &[&str] = &[CONTROLLERS, "--kube-api-qps=5", "--kube-api-burst=2"];
/// The beginning of the managers' user agents.
const AGENT: &str = "steersman/";
/// How late managers hear of changes.
const LAG: Duration = Duration::from_secs(5);

/// What there is to do for the three controllers.
struct Work {
    runs: Runs,
    finished: Finished,
    mirrors: Mirrors,
}

impl Work {
    /// Prepares it. There is nothing to do yet.
    async fn prepare(client: &kube::Client) -> Self {
        Self {
            runs: Runs::create(client).await,
            finished: Finished::of(client),
            mirrors: Mirrors::of(client).await,
        }
    }

    /// Gives each controller its first work.
    async fn begin(&mut self) {
        self.runs.begin().await;
        self.finished.begin().await;
        self.mirrors.begin().await;
    }

    /// Gives each controller more work. The first must be done.
    async fn go_on(&mut self) {
        self.runs.go_on().await;
        self.finished.go_on().await;
        self.mirrors.go_on().await;
    }

    /// The names of what is not as it must be.
    async fn left(&self) -> Vec<String> {
        [self.runs.left().await, self.finished.left().await, self.mirrors.left().await].concat()
    }

    /// Waits until at most so many things are left.
    async fn has_left(&self, most: usize) {
        let mut left = Vec::new();
        let wait = async {
            loop {
                left = self.left().await;
                if left.len() <= most {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(patience(), wait).await.is_err() {
            panic!("waited in vain: at most {most} things are left; these are: {left:?}");
        }
    }

    /// Lets managers with few calls a second begin, and kills each of them in the middle of the work.
    async fn kill_managers(&self, cluster: &Cluster, rounds: usize) {
        for round in 0..rounds {
            let before = self.left().await.len();
            let mut manager = Manager::start(&cluster.kubeconfig(), SLOW);
            self.has_left(before - 2 - round % 3).await;
            manager.kill();
            assert!(self.left().await.len() > 10, "the manager was in the middle");
        }
    }

    /// Checks that nothing was done twice, or that must not be done. A manager must still run.
    async fn is_right(&mut self) {
        self.finished.went_in_time().await;
        self.runs.had_one_job_each().await;
        self.mirrors.were_made_once().await;
        assert_eq!(self.left().await, [""; 0]);
    }
}

#[tokio::test]
async fn managers_that_are_killed_again_and_again_do_nothing_twice_and_leave_nothing_out() {
    if is_upstream() {
        return;
    }
    let cluster = Cluster::start_alone().await;
    let mut work = Work::prepare(&cluster.client()).await;
    work.begin().await;
    work.kill_managers(&cluster, 6).await;
    let mut manager = Manager::start(&cluster.kubeconfig(), QUICK);
    work.has_left(0).await;
    manager.kill();

    work.go_on().await;
    work.kill_managers(&cluster, 6).await;
    let _manager = Manager::start(&cluster.kubeconfig(), QUICK);
    work.has_left(0).await;
    work.is_right().await;
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_does_the_rest() {
    if is_upstream() {
        return;
    }
    let cluster = Cluster::start_alone().await;
    let mut work = Work::prepare(&cluster.client()).await;
    let mut managers = Candidates::start(&cluster, SLOW).await;
    inherit(&mut work, &mut managers).await;
}

/// The new leader's caches do not show what the killed one did last.
#[tokio::test]
async fn a_new_leader_whose_caches_lag_does_nothing_twice() {
    if is_upstream() {
        return;
    }
    let cluster = Cluster::start_embedded().await;
    let mut work = Work::prepare(&cluster.client()).await;
    let mut managers = Candidates::start(&cluster, SLOW).await;
    for resource in ["cronjobs", "jobs", "services", "endpoints", "endpointslices"] {
        cluster.embedded().faults().delay_watches(Calls::to(resource).user_agent(AGENT), LAG);
    }
    inherit(&mut work, &mut managers).await;
}

/// Kills the leader in the middle of the work. The other manager must do the rest, and what comes then.
async fn inherit(work: &mut Work, managers: &mut Candidates) {
    work.begin().await;
    work.has_left(50).await;
    managers.kill_leader();
    assert!(work.left().await.len() > 10, "the leader was in the middle");
    work.has_left(0).await;
    assert!(managers.has_changed().await);
    work.go_on().await;
    work.has_left(0).await;
    work.is_right().await;
}

#[tokio::test]
async fn watches_that_lag_five_seconds_lead_to_nothing_twice_and_to_nothing_stuck() {
    if is_upstream() {
        return;
    }
    let Managed { client, cluster, .. } = &Managed::on(Cluster::start_embedded().await, QUICK);
    let server = cluster.embedded();
    server.faults().delay_watches(Calls::all().user_agent(AGENT), LAG);
    let mut work = Work::prepare(client).await;
    let recording = server.record();
    work.begin().await;
    work.has_left(0).await;
    // The caches do not show yet that the first work is done.
    work.go_on().await;
    work.finished.change_before_the_cache_shows().await;
    work.has_left(0).await;
    work.is_right().await;

    let calls =
        |resource: &str, verb: Verb| recording.count(&Calls::to(resource).verb(verb).user_agent(AGENT));
    let (runs, replaced) = work.runs.counts();
    assert_eq!(calls("jobs", Verb::Create), runs);
    assert_eq!(calls("jobs", Verb::Delete), replaced + work.finished.count());
    assert_eq!(calls("endpointslices", Verb::Create), work.mirrors.count());
}

fn is_upstream() -> bool {
    let is_upstream = Manager::is_upstream();
    if is_upstream {
        println!("kube-controller-manager does not find the Job of a run whose status was lost: not run");
    }
    is_upstream
}
