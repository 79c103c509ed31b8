//! Whether an API server is linearizable: each call takes effect at one moment between its beginning and its end, whatever the
//! clients do at the same time, and however often the server dies.
//!
//! [`Client`]s write and read a few ConfigMaps at random, and [`Watcher`]s watch them. All of them report to a [`History`]. When the
//! test is over, [`History::verify`] checks that one order of the calls explains all answers.
//!
//! A call without an answer may have taken effect, or not. It can't take effect after the server's process has ended:
//! [`History::end_life`] marks that moment.
//!
//! [`linearize`] is the checker by itself, for any [`Model`].
#![allow(clippy::unwrap_used, reason = "it serves tests, which may fail in this way")]

mod checker;
mod client;
mod history;
mod register;
mod watcher;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

pub use checker::{Call, Model, Stuck, linearize};
pub use client::Client;
pub use history::{History, Summary};
pub use register::{Act, Outcome, Register};
pub use watcher::Watcher;

/// Lets some clients and two watchers use a server until `end`, which ends the server, and notes that its life has ended.
///
/// # Panics
/// A call is not answered within a minute, or with something else than an object.
pub async fn live(
    client: &kube::Client,
    history: &Arc<History>,
    clients: usize,
    seed: u64,
    end: impl Future<Output = ()>,
) {
    let is_over = Arc::new(AtomicBool::new(false));
    let (mut calling, mut watching) = (JoinSet::new(), JoinSet::new());
    for number in 0..clients {
        let mut client = Client::new(number, client, Arc::clone(history), seed);
        let is_over = Arc::clone(&is_over);
        calling.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                if !client.call().await {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
    }
    for number in clients..clients + 2 {
        watching.spawn(Watcher::new(number, client, Arc::clone(history)).watch());
    }
    end.await;
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = calling.join_next().await {
        ended.expect("a client must not panic");
    }
    watching.abort_all();
    while let Some(ended) = watching.join_next().await {
        assert!(ended.is_err_and(|error| error.is_cancelled()), "a watcher must not panic");
    }
    history.end_life();
}
