//! What an agent does now and then.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::caretaker::Caretaker;
use super::parts::Parts;
use crate::environment::PodEnvironment;
use crate::kuberuntime::manager::garbage::Scope;

/// How often dead containers, sandboxes and logs are collected (upstream: `ContainerGCPeriod`).
const GARBAGE_PERIOD: Duration = Duration::from_secs(60);
/// How often the node's own DNS settings are looked at.
const RESOLV_CONF_PERIOD: Duration = Duration::from_secs(30);

/// Collects what is left over, each minute, until `stop`. `sources_ready` says whether all sources of pods were heard.
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
            ticks.tick().await;
            let scope = Scope { all_sources_ready: sources_ready(), ended_pods_too: false };
            if let Err(errors) = parts.runtime.collect_garbage(&*caretaker, scope).await {
                for error in errors {
                    tracing::error!(%error, "Container garbage collection failed");
                }
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
