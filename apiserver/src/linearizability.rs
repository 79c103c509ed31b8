//! Concurrent clients of a server whose disk fails, fills up and loses what was not synced, and whose connections break: one order
//! must explain all that they are told, over all lives of the server.
//!
//! `LINEARIZABILITY_SEEDS` is how many programs of faults are run (12), `LINEARIZABILITY_SEED` the first one (1). A seed decides on
//! the faults, and mostly on what clients do; in which order the threads do it, and so what they see, is up to the machine.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "it says how much was tried, and a test takes its effort from the environment"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use histories::{History, Summary, live};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rcgen::KeyPair;
use serde_json::json;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};

use crate::access::{Access, Identity, Signer};
use crate::calls::Calls;
use crate::faults::Failure;
use crate::in_memory::InMemory;
use crate::monitoring::Monitoring;
use crate::rest::{ApiServer, Outbound, Settings};
use crate::store::TestDisk;

/// How many clients call at the same time.
const CLIENTS: usize = 4;
/// How many lives a server has, without the last one, in which its disk does not fail.
const LIVES: u64 = 3;

/// What becomes of the disk in one life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskFault {
    /// The power is cut after so many operations.
    Cut(usize),
    /// One operation fails, after so many others.
    Io(usize),
    /// Somebody else takes all that is left, and gives it back later.
    Full,
    /// Nothing, until the power is cut at the end.
    None,
}

struct Life {
    random: StdRng,
    fault: DiskFault,
    disk: Arc<TestDisk>,
    server: ApiServer,
}

impl Life {
    /// Starts a server on what the disk held. If the disk fails at once, returns what it holds then.
    fn start(
        mut random: StdRng,
        image: Vec<u8>,
        fault: DiskFault,
        signer: &KeyPair,
    ) -> Result<Self, Vec<u8>> {
        let power = if let DiskFault::Cut(operations) = fault { operations } else { usize::MAX };
        let disk = TestDisk::new(image, power);
        if let DiskFault::Io(operations) = fault {
            disk.fail_after(operations);
        }
        let started = disk.open().and_then(|opened| {
            ApiServer::open(
                Settings::default(),
                Path::new("/data"),
                opened,
                Access::Open,
                Signer::new(&signer.serialize_der()).expect("a key that was just made is good"),
                Outbound::new(None, None).expect("nothing is wrong with defaults"),
                Monitoring::without_audit(),
            )
        });
        match started {
            Ok(server) => Ok(Self { random, fault, disk, server }),
            Err(error) => {
                let may_fail = matches!(fault, DiskFault::Cut(_) | DiskFault::Io(_));
                assert!(may_fail, "a sound disk must be readable: {error}");
                disk.cut();
                Err(disk.after_the_crash(random.random()))
            }
        }
    }

    fn client(&self) -> kube::Client {
        let who = Identity::master("system:unsecured");
        kube::Client::new(InMemory { server: self.server.clone(), who, is_component: false }, "default")
    }

    /// Fills the disk while large objects are on their way to it, and takes all that the server gives back of its reserve. So there
    /// is no space for them, and they are undone, with all that was written after them.
    async fn fill_up(&mut self) {
        let maps = Api::<ConfigMap>::default_namespaced(self.client());
        let mut large = JoinSet::new();
        for _ in 0..20 {
            let maps = maps.clone();
            let map = json!({"metadata": {"generateName": "large-"}, "data": {"text": "x".repeat(100_000)}});
            let map = serde_json::from_value(map).expect("it is a ConfigMap");
            large.spawn(async move { maps.create(&PostParams::default(), &map).await });
        }
        let end = Instant::now() + Duration::from_millis(self.random.random_range(5..50));
        while Instant::now() < end {
            self.disk.fill();
            yield_now().await;
        }
        large.shutdown().await;
    }

    /// Breaks connections now and then until the server fails, or clients have made enough calls for this life. Then it cuts the
    /// power.
    async fn go_on(&mut self, history: &History) {
        let (began, first) = (Instant::now(), history.calls());
        // It takes a second until the server looks for space again.
        let least = if self.fault == DiskFault::Full { Duration::from_millis(1600) } else { Duration::ZERO };
        let enough = first + self.random.random_range(40..400);
        while began.elapsed() < least || history.calls() < enough {
            assert!(began.elapsed() < Duration::from_secs(60), "clients make too few calls");
            let pause = sleep(Duration::from_millis(self.random.random_range(1..20)));
            tokio::select! {
                () = pause => {}
                _ = self.server.store().failed() => break,
            }
            self.break_connections();
            match self.fault {
                DiskFault::Full if began.elapsed() < least / 4 => self.fill_up().await,
                DiskFault::Full => self.disk.empty(),
                _ => {}
            }
        }
        self.disk.cut();
    }

    /// Breaks some connections by chance, unless there were no calls yet since it did so.
    fn break_connections(&mut self) {
        let faults = self.server.faults();
        if faults.pending() > 0 {
            return;
        }
        match self.random.random_range(0..6) {
            0 => faults.fail(2, Calls::all(), Failure::Reset),
            1 => faults.fail(2, Calls::all(), Failure::ResetAfterwards),
            2 => faults.fail(1, Calls::all(), Failure::TimeoutAfterwards),
            3 => faults.cut_watches(Calls::all()),
            _ => {}
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("it must be a number"))
}

/// Runs one program of faults.
async fn run(seed: u64, signer: &KeyPair) -> Arc<History> {
    let history = Arc::new(History::default());
    let mut random = StdRng::seed_from_u64(seed);
    let mut image = TestDisk::new_file();
    for life in 0..=LIVES {
        let fault = match random.random_range(0..8) {
            _ if life == LIVES => DiskFault::None,
            0..=2 => DiskFault::Cut(random.random_range(0..3000)),
            3 | 4 => DiskFault::Io(random.random_range(0..3000)),
            5 => DiskFault::Full,
            _ => DiskFault::None,
        };
        let started = Life::start(StdRng::seed_from_u64(random.random()), image, fault, signer);
        let mut started = match started {
            Ok(started) => started,
            Err(left) => {
                image = left;
                continue;
            }
        };
        let client = started.client();
        let (disk, server) = (Arc::clone(&started.disk), started.server.clone());
        live(&client, &history, CLIENTS, random.random(), started.go_on(&history)).await;
        server.stop();
        image = disk.after_the_crash(random.random());
    }
    history
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_order_explains_what_clients_are_told_whatever_becomes_of_disk_and_connections() {
    let signer = KeyPair::generate().expect("the system has randomness");
    let (first, seeds) = (number("LINEARIZABILITY_SEED", 1), number("LINEARIZABILITY_SEEDS", 12));
    let mut all = Summary::default();
    for seed in first..first + seeds {
        let history = timeout(Duration::from_secs(300), run(seed, &signer)).await;
        let history = history.unwrap_or_else(|_| panic!("LINEARIZABILITY_SEED={seed}: it does not end"));
        all += history.verify().unwrap_or_else(|why| panic!("LINEARIZABILITY_SEED={seed}: {why}"));
    }
    println!("{all:?}");
    // Some servers fail at once.
    assert!(all.calls as u64 > 100 * seeds && all.events > 0, "clients did too little: {all:?}");
}
