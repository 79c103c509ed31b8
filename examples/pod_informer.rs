//! Caches all pods of a cluster, as the controllers keep them, and tells what that took. `benches/informer.sh` measures
//! with it.
//!
//!     cargo run --release --example pod_informer -- KUBECONFIG

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use steersman_client::clients::{Clients, Options as ClientOptions};
use steersman_client::config_from;
use steersman_informer::factory::Options;
use steersman_informer::index::{BY_NAMESPACE, by_namespace};
use steersman_informer::{SharedInformerFactory, keep};
use steersman_kinds::pod::{
    Addresses, Completion, Containers, Disruption, Offer, Phase, Placement, Pod, Readiness, Sidecars,
};
use tokio::time::Instant;

// The allocator of the binary is part of what is measured.
#[path = "../src/alloc.rs"]
mod alloc;

keep! {
    /// Every group of fields that the job, endpoints and podgc controllers read.
    struct SteeredPod: Pod => Placement, Phase, Addresses, Readiness, Disruption, Offer, Containers,
        Sidecars, Completion
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let kubeconfig = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: pod_informer KUBECONFIG")?;
    let start = Instant::now();
    let clients = Clients::connect(config_from(Some(&kubeconfig), None)?, ClientOptions::default())?;
    let factory = SharedInformerFactory::new(clients.watch_client(), Options::default());
    let pods = factory.informer::<SteeredPod>()?;
    // As client-go's shared informers have it.
    let _index = pods.add_index(BY_NAMESPACE, by_namespace);
    factory.start();
    pods.synced().await;
    let (took, count) = (start.elapsed(), pods.lister().len());
    let (peak, resident) = memory()?;
    writeln!(
        std::io::stdout(),
        "steersman informer: {count} pods synced in {}ms, {peak}, {resident}",
        took.as_millis()
    )?;
    factory.shutdown().await;
    clients.close().await;
    Ok(())
}

/// The highest resident memory since the start, and that of now, as the kernel prints them.
fn memory() -> Result<(String, String), Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = |name: &str| {
        let found = status.lines().find(|line| line.starts_with(name));
        found.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).ok_or("the kernel must tell")
    };
    Ok((line("VmHWM")?, line("VmRSS")?))
}
