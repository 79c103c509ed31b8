//! The garbage collector: deletes objects whose owners are all gone, and carries out foreground and orphaning deletions.
//!
//! ```text
//! discovery ─> monitors: one cache of metadata for each kind, shared with other controllers
//!                 │ changes
//!                 ▼
//!              graph of owners and dependents ─┬─> queue garbage_collector_attempt_to_delete ─> attempt_to_delete
//!                 ▲                            └─> queue garbage_collector_attempt_to_orphan ─> attempt_to_orphan
//!                 └── the deletions come back as changes
//! ```
//!
//! An owner that no cache shows may exist all the same, so its absence is concluded from nothing but the API server's own
//! answer, or from its deletion as a watch told it. A kind that can't be listed holds up nothing but what depends on that kind.

use std::sync::Arc;

use steersman_api::Uid;
use steersman_client::Limits;
use steersman_controller::context::ControllerContext;
use steersman_controller::debug::Page;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop, TaskLoop};

use self::attempt_to_delete::AttemptToDelete;
use self::attempt_to_orphan::AttemptToOrphan;
use self::collector::Collector;
use self::metrics::Metrics;
use self::monitors::Watcher;
use self::owners::Owners;

mod attempt_to_delete;
mod attempt_to_orphan;
mod collector;
mod coordinates;
mod dump;
mod graph;
mod kinds;
mod metrics;
mod missing_kinds;
mod monitors;
mod owners;
#[cfg(test)]
mod testing;
mod writes;

/// Upstream's name of the controller.
const NAME: &str = "garbage-collector-controller";

/// The registry's entry of the garbage collector.
pub const DESCRIPTOR: Descriptor = Descriptor::new(NAME, &["garbagecollector"], construct)
    .options::<GarbageCollectorOptions>()
    .rules(&[Rule::new(&["*"], &["*"], &["get", "list", "watch", "patch", "delete"])
        .because("Any kind may have owners. Only metadata is read.")]);

options! {
    /// Settings of the garbage collector.
    pub struct GarbageCollectorOptions("GarbageCollectorController") {
        /// Run the garbage collector. Must be the same as the flag of kube-apiserver
        pub enabled: bool = true, "enable-garbage-collector", "EnableGarbageCollector";
        /// How many objects are collected at a time
        pub concurrent_syncs: Workers = Workers(20), "concurrent-gc-syncs", "ConcurrentGCSyncs";
    }
}

/// The finalizer of an owner whose dependents are released before it goes.
const ORPHAN: &str = "orphan";
/// The finalizer of an owner whose dependents are deleted before it goes.
const FOREGROUND: &str = "foregroundDeletion";

/// Makes the controller.
///
/// # Errors
/// Its metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let options = context.options::<GarbageCollectorOptions>();
    if !options.enabled {
        return Ok(Construction::declined("--enable-garbage-collector is false"));
    }
    // As upstream: a deletion may need a read as well, so the collector gets twice the requests of other controllers.
    let Limits { qps, burst } = context.clients.limits();
    let sender = context.clients.sender_with("generic-garbage-collector", Limits::new(2.0 * qps, burst));
    let collector = Arc::new(Collector {
        graph: Default::default(),
        kinds: Default::default(),
        absent: Default::default(),
        missing: Default::default(),
        attempt_to_delete: context.queue("garbage_collector_attempt_to_delete"),
        attempt_to_orphan: context.queue("garbage_collector_attempt_to_orphan"),
        recorder: context.recorder(NAME),
    });
    let metrics = Metrics::new();
    metrics.register(&context.metrics, &collector)?;
    let shown = Arc::downgrade(&collector);
    context.debug.add(NAME, "graph", move |query| {
        let uids: Vec<_> = query.get("uid").map(Uid::from).collect();
        let text = shown.upgrade().map(|collector| dump::dot(&collector, &uids)).unwrap_or_default();
        Page { media_type: "text/vnd.graphviz", text }
    });

    let watcher = Watcher {
        collector: Arc::clone(&collector),
        informers: context.informers.clone(),
        mapper: Arc::clone(&context.rest_mapper),
        metrics,
        lists: Default::default(),
    };
    let owners = Owners {
        collector: Arc::clone(&collector),
        mapper: Arc::clone(&context.rest_mapper),
        sender: sender.clone(),
    };
    let workers = options.concurrent_syncs.0;
    let (delete, orphan) = (collector.attempt_to_delete.clone(), collector.attempt_to_orphan.clone());
    let deletes = AttemptToDelete { collector: Arc::clone(&collector), owners };
    let orphans = AttemptToOrphan { collector, sender };
    let watch = TaskLoop::new("monitors", move |stop| watcher.clone().run(stop));
    let deletes = QueueLoop::new(Arc::new(deletes), delete).workers(workers).give_up(GiveUp::Never);
    let orphans = QueueLoop::new(Arc::new(orphans), orphan).workers(workers).give_up(GiveUp::Never);
    Ok(Construction::new([watch.into(), deletes.into(), orphans.into()], []))
}
