//! Caches all pods of a cluster with the fields that the controllers read, and prints the time and the memory that takes.
//! `benches/informer.sh` runs it.
//!
//!     cargo run --release --package steersman-informers --bin pod_informer -- KUBECONFIG

use std::error::Error;
use std::path::PathBuf;

use steersman_client::clients::{Clients, Options as ClientOptions};
use steersman_client::config_from;
use steersman_informer::factory::Options;
use steersman_informer::index::{BY_NAMESPACE, by_namespace};
use steersman_informer::{SharedInformerFactory, keep};
use steersman_informers::report;
use steersman_kinds::pod::{
    Addresses, Completion, Containers, Disruption, DnsName, InitContainers, Offer, Phase, Placement, Pod,
    Readiness, Sidecars,
};
use steersman_kinds::shared::Shared;
use tokio::time::Instant;

keep! {
    /// Every group of fields that the job, endpoints and podgc controllers read.
    struct SteeredPod: Pod => Placement, Phase, Addresses, Readiness, Disruption, DnsName, Shared<Offer>, Containers,
        InitContainers, Sidecars, Completion
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let kubeconfig = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: pod_informer KUBECONFIG")?;
    let start = Instant::now();
    let clients = Clients::connect(config_from(Some(&kubeconfig), None)?, ClientOptions::default())?;
    let factory = SharedInformerFactory::new(clients.watch_client(), Options::default());
    let pods = factory.informer::<SteeredPod>()?;
    // client-go's shared informers have the same index.
    let _index = pods.add_index(BY_NAMESPACE, by_namespace);
    factory.start();
    pods.synced().await;
    let (took, count) = (start.elapsed(), pods.lister().len());
    report("steersman", count, took)?;
    factory.shutdown().await;
    clients.close().await;
    Ok(())
}
