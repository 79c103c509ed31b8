//! What an agent does now and then.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::caretaker::Caretaker;
use super::parts::Parts;
use crate::aggregate::aggregate;
use crate::environment::PodEnvironment;
use crate::events::EventType;
use crate::images::RuntimeImages;
use crate::kuberuntime::manager::garbage::Scope;
use crate::node_info::NodeInfo;
use crate::node_status::Inventory;
use crate::node_status::events::node_reference;

/// How often dead containers, sandboxes and logs are collected (upstream: `ContainerGCPeriod`).
const GARBAGE_PERIOD: Duration = Duration::from_secs(60);
/// How long after a pod's end it is done as well, so that one collection serves many ends. The pod is gone from the API server
/// by then.
const AFTER_AN_END: Duration = Duration::from_secs(5);
/// How often it is looked for records of images that are gone (upstream: `ImageGCPeriod`).
const IMAGES_PERIOD: Duration = Duration::from_secs(5 * 60);
/// How often the node's own DNS settings are looked at.
const RESOLV_CONF_PERIOD: Duration = Duration::from_secs(30);

/// Collects what is left over, each minute and soon after pods' ends, until `stop`. `sources_ready` says whether all sources of pods were heard.
pub(super) async fn collect_garbage(
    parts: Arc<Parts>,
    caretaker: Arc<Caretaker>,
    sources_ready: impl Fn() -> bool + Send,
    stop: CancellationToken,
) {
    let mut ticks = interval(GARBAGE_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    let collecting = async {
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = parts.ended.notified() => sleep(AFTER_AN_END).await,
            }
            let scope = Scope { all_sources_ready: sources_ready(), ended_pods_too: false };
            if let Err(errors) = parts.runtime.collect_garbage(&*caretaker, scope).await {
                for error in &errors {
                    tracing::error!(%error, "Container garbage collection failed");
                }
                let node = node_reference(parts.node.name());
                let message = aggregate(errors.iter().map(ToString::to_string)).unwrap_or_default();
                parts.events.event(&node, EventType::Warning, "ContainerGCFailed", &message);
            }
        }
    };
    stop.run_until_cancelled(collecting).await;
}

/// Tells of DNS settings of the node that containers can't have, until `stop`.
pub(super) async fn check_resolv_conf(environment: PodEnvironment, stop: CancellationToken) {
    let mut ticks = interval(RESOLV_CONF_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let checking = async {
        loop {
            ticks.tick().await;
            environment.check_resolv_conf().await;
        }
    };
    stop.run_until_cancelled(checking).await;
}

/// Forgets who pulled images that are gone, every five minutes until `stop`.
pub(super) async fn forget_pulls(images: Arc<RuntimeImages>, stop: CancellationToken) {
    let mut ticks = interval(IMAGES_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    let forgetting = async {
        loop {
            ticks.tick().await;
            if let Err(error) = images.forget_pulls().await {
                tracing::warn!(%error, "The runtime's images can't be listed");
            }
        }
    };
    stop.run_until_cancelled(forgetting).await;
}

/// Has pods mounted as the runtime's default handler can, as it tells, until `stop`.
pub(super) async fn follow_handlers(
    inventory: Inventory,
    environment: PodEnvironment,
    stop: CancellationToken,
) {
    let following = inventory.follow(|known| {
        let default = known.handlers.iter().find(|handler| handler.name.is_empty());
        let features = default.and_then(|handler| handler.features.as_ref());
        environment
            .set_recursive_read_only(features.is_some_and(|features| features.recursive_read_only_mounts));
    });
    stop.run_until_cancelled(following).await;
}
