//! The namespace controller: deletes everything in a namespace that is being deleted, and then lets the namespace go.
//!
//! ```text
//! changes of namespaces ─> queue "namespace", after five seconds ─> read the namespace ─> discover the API server's kinds
//!   ─> pods: delete, count, until none is left ─> all other kinds: delete, count ─> conditions ─> finalize
//! ```
//!
//! A sync of a namespace in which something is left comes again after the time in which that should be gone; a sync in which
//! a call failed, after its back-off. As upstream's controller, except that
//! - a kind of which a synced cache of this process shows nothing in the namespace is not deleted, but looked at once at the
//!   end. Pods are looked at first;
//! - some kinds are worked on at the same time;
//! - one more condition names the first objects that are left, with their finalizers.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use steersman_api::ObjectKey;
use steersman_client::Limits;
use steersman_controller::client::{Client, StatusWriter};
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, Loop, QueueLoop, TaskLoop};
use steersman_informer::work_queue::{
    ItemExponential, MaxOf, OncePerWindow, QueueConfig, TokenBucket, WorkQueue,
};
use steersman_informer::{AnyInformer, keep};
use steersman_kinds::namespace::{Namespace, NamespaceFinalizers, NamespaceStatus};
use tokio::time::sleep;

mod conditions;
mod contents;
mod controller;
mod deletion;
mod discovery;
mod plan;
mod report;
#[cfg(test)]
mod tests;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new("namespace-controller", &["namespace"], construct)
    .options::<NamespaceOptions>()
    .rules(&[
        Rule::new(&[""], &["namespaces"], &["get", "list", "watch"]),
        Rule::new(&[""], &["namespaces/finalize"], &["update"]),
        Rule::new(&[""], &["namespaces/status"], &["patch"]).because(
            "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
        ),
        Rule::new(&["*"], &["*"], &["list", "delete", "deletecollection"])
            .because("A namespace may hold objects of any kind."),
    ]);

options! {
    /// Settings of the namespace controller.
    pub struct NamespaceOptions("NamespaceController") {
        /// How often all namespaces that are being deleted are looked at again
        pub sync_period: Duration = Duration::from_secs(5 * 60), "namespace-sync-period", "NamespaceSyncPeriod";
        /// How many namespaces are synced at a time
        pub concurrent_syncs: Workers = Workers(10), "concurrent-namespace-syncs", "ConcurrentNamespaceSyncs";
    }
}

keep! {
    /// What the controller caches of a namespace: its metadata. It reads the rest from the API server.
    pub struct NamespaceKey: Namespace =>
}

keep! {
    /// What the controller reads of a namespace.
    pub struct DeletedNamespace: Namespace => NamespaceFinalizers, NamespaceStatus
}

/// The delay from a change of a namespace to its sync. In this time all API servers learn that the namespace is being
/// deleted, and let no more objects in. As upstream.
const FIRST_SIGHT: Duration = Duration::from_secs(5);
// The back-off, as upstream: the default one, but no namespace waits for longer than a minute.
const FIRST_BACK_OFF: Duration = Duration::from_millis(5);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);
const FAILURES_A_SECOND: NonZeroU32 = NonZeroU32::new(10).expect("ten must not be zero");
const FAILURES_AT_ONCE: NonZeroU32 = NonZeroU32::new(100).expect("a hundred must not be zero");

/// Makes the controller.
///
/// # Errors
/// The cache of namespaces runs already, without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let options = context.options::<NamespaceOptions>();
    let namespaces = context.informers.informer::<NamespaceKey>()?;
    let queue: WorkQueue<ObjectKey> =
        context.queue_with(QueueConfig::new("namespace").limiter(OncePerWindow::new(MaxOf::new(vec![
            Box::new(ItemExponential::new(FIRST_BACK_OFF, LONGEST_BACK_OFF)),
            Box::new(TokenBucket::new(FAILURES_A_SECOND, FAILURES_AT_ONCE)),
        ]))));
    let keys = queue.clone();
    namespaces.map(move |change| {
        if change.new().is_some_and(|namespace| namespace.meta().is_deleting()) {
            keys.add_after(change.key().clone(), FIRST_SIGHT);
        }
    });
    // As upstream: a namespace takes several calls for each kind.
    let limits = context.clients.limits();
    let limits = Limits::new(limits.qps * 20.0, limits.burst.saturating_mul(100));
    let sender = context.clients.sender_with("namespace-controller", limits);
    let client = Client::keeping::<DeletedNamespace>(sender.clone());
    let controller = controller::NamespaceController {
        namespaces: namespaces.lister(),
        status: StatusWriter::new(client.clone()),
        client,
        sender,
        rest_mapper: Arc::clone(&context.rest_mapper),
        informers: context.informers.clone(),
    };
    let syncs = QueueLoop::new(Arc::new(controller), queue.clone());
    let syncs = syncs.workers(options.concurrent_syncs.0).give_up(GiveUp::Never);
    let resync = resync(namespaces.any(), queue, options.sync_period);
    Ok(Construction::new([Some(syncs.into()), resync].into_iter().flatten(), [namespaces.any()]))
}

/// A loop that queues all namespaces that are being deleted, once a period. `None` if the period is zero, as upstream.
fn resync(namespaces: Arc<dyn AnyInformer>, queue: WorkQueue<ObjectKey>, period: Duration) -> Option<Loop> {
    let add = move || {
        namespaces.for_each_meta(&mut |namespace| {
            if namespace.is_deleting() {
                queue.add_after(namespace.key.clone(), FIRST_SIGHT);
            }
        });
    };
    let add = Arc::new(add);
    let task = TaskLoop::new("resync", move |stop| {
        let add = Arc::clone(&add);
        async move {
            while stop.run_until_cancelled(sleep(period)).await.is_some() {
                add();
            }
        }
    });
    (!period.is_zero()).then(|| task.into())
}
