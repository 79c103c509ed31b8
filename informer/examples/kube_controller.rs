//! A kube-runtime controller that reconciles ReplicaSets when their pods change, and reads the pods from a shared informer.
//! The informer decodes one field of each pod.
//!
//!     cargo run --package steersman-informer --features kube-runtime --example kube_controller

use std::convert::Infallible;
use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::{Api, Client, Config, ResourceExt};
use kube_runtime::controller::{Action, Controller};
use kube_runtime::watcher;
use steersman_informer::index::{BY_CONTROLLER, by_controller};
use steersman_informer::{
    Index, IndexValue, Interned, Lister, SharedInformerFactory, factory, keep, kind, projection,
};

projection! {
    /// How a pod is doing.
    pub struct Phase {
        /// Such as `Running`.
        pub phase: Interned = 1 "phase",
    }
}
kind! {
    /// A pod.
    pub struct Pod("", "v1", "pods") { phase: Phase = 3 "status" }
}
keep! {
    /// What this controller reads of a pod.
    pub struct CountedPod: Pod => Phase
}

struct Pods {
    lister: Lister<CountedPod>,
    by_controller: Index<CountedPod>,
}

/// Prints how many pods of the ReplicaSet run.
async fn reconcile(set: Arc<ReplicaSet>, pods: Arc<Pods>) -> Result<Action, Infallible> {
    let namespace = set.namespace().unwrap_or_default();
    let owner = IndexValue::Owner(namespace.into(), set.uid().unwrap_or_default().as_str().into());
    match pods.lister.by_index(&pods.by_controller, &owner) {
        Ok(owned) => {
            let running = owned.iter().filter(|pod| pod.get::<Phase>().phase == "Running").count();
            let _ = writeln!(std::io::stdout(), "{}: {running} of {} pods run", set.name_any(), owned.len());
        }
        // The pod exists, but its bytes are damaged. The next change of the pod triggers another reconcile.
        Err(unreadable) => _ = writeln!(std::io::stderr(), "{unreadable}"),
    }
    Ok(Action::await_change())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::infer().await?;
    // Reflectors back off by themselves.
    config.default_retry = false;
    let client = Client::try_from(config)?;
    let factory = SharedInformerFactory::new(client.clone(), factory::Options::default());
    let pods = factory.informer::<CountedPod>()?;
    let by_controller = pods.add_index(BY_CONTROLLER, by_controller);
    let context = Arc::new(Pods { lister: pods.lister(), by_controller });
    let controller = Controller::new(Api::<ReplicaSet>::all(client), watcher::Config::default())
        .reconcile_on(pods.owner_refs())
        .shutdown_on_signal()
        .run(reconcile, |_, _, _| Action::await_change(), context);
    factory.start();
    controller.for_each(|_| std::future::ready(())).await;
    factory.shutdown().await;
    Ok(())
}
