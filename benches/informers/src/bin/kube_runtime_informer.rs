//! Caches all pods of a cluster with kube-runtime's watcher and reflector, and prints the time and the memory that takes.
//! `benches/informer.sh` runs it beside `pod_informer`.
//!
//!     cargo run --release --package steersman-informers --bin kube_runtime_informer -- KUBECONFIG

use std::error::Error;
use std::path::PathBuf;
use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use kube_runtime::{WatchStreamExt, reflector, watcher};
use steersman_informers::report;
use tokio::time::Instant;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: kube_runtime_informer KUBECONFIG";
    let kubeconfig = std::env::args_os().nth(1).map(PathBuf::from).ok_or(usage)?;
    let start = Instant::now();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let client =
        Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)?;
    let (reader, writer) = reflector::store::<Pod>();
    let events = watcher(Api::<Pod>::all(client), watcher::Config::default()).default_backoff();
    let mut events = pin!(events.reflect(writer));
    // The store has synced once it has applied the event that ends the first list.
    while !matches!(events.next().await.ok_or("the watch must not end")??, watcher::Event::InitDone) {}
    let (took, count) = (start.elapsed(), reader.len());
    report("kube-runtime", count, took)?;
    Ok(())
}
