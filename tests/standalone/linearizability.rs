//! What clients are told by a server that is killed while they use it.

use std::sync::Arc;

use histories::{History, live};
use rustix::process::{Pid, Signal, kill_process};
use support::until;

use super::{Standalone, config};

/// How often it is killed, and after how many calls each time, at least.
const LIVES: usize = 5;
const CALLS: usize = 150;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_order_explains_what_clients_are_told_by_one_that_is_killed_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let history = Arc::new(History::default());
    for life in 0..LIVES {
        let mut all = Standalone::start(&data).await;
        let mut config = config(&data).await;
        // A call that is made again would take effect twice.
        config.default_retry = false;
        let client = kube::Client::try_from(config).unwrap();
        let kill = async {
            let calls = history.calls() + CALLS + 17 * life;
            until("clients have called", || history.calls() >= calls).await;
            kill_process(Pid::from_child(&all.child), Signal::KILL).unwrap();
            all.child.wait().unwrap();
        };
        live(&client, &history, 4, life as u64, kill).await;
    }
    let all = history.verify().unwrap_or_else(|why| panic!("{why}"));
    println!("{all:?}");
    assert!(all.events > 0, "watches must tell of something: {all:?}");
}
