//! The parts at work, and their end in order.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use super::assembly::Assembled;
use super::error::Error;
use super::maintenance;
use super::node_agent::Agent;
use super::options::limits;
use super::serving::Serving;
use super::sources::Sources;
use crate::cgroups::Upkeep;
use crate::kernel::keep_chains;
use crate::lease::Heartbeat;
use crate::node_status::events::node_reference;
use crate::node_status::{LiveNode, NodeStatus, watch_runtime};
use crate::pleg::hints;
use crate::status_manager::conditions::is_terminal;

/// How long the parts may take to end once they are told to.
const LAST_WORDS: Duration = Duration::from_secs(8);

impl Agent {
    /// Starts everything, and ends it in order once `stop` is cancelled: what is in `background`, which `last` stops, at last.
    pub(super) async fn start(
        self,
        assembled: Assembled,
        serving: Serving,
        background: &mut JoinSet<()>,
        last: &CancellationToken,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let Assembled { parts, workers, sync_loop, caretaker, deletor, pleg, relists, .. } = assembled;
        let clients = self.connections.clients.clone();
        let sources = Sources::new(assembled.config.clone(), &self.options)?;
        let mut tasks = JoinSet::new();

        serving.start(background, last);
        background.spawn(pleg.run(last.clone()).instrument(info_span!("pleg")));
        let hints = hints::follow(Arc::clone(&self.connections.runtime), relists, last.clone());
        background.spawn(hints.instrument(info_span!("container_events")));
        background.spawn(deletor.run(last.clone()).instrument(info_span!("container_deletor")));
        if let Some(clients) = &clients {
            // Three statuses of two calls each bring a pod to Running.
            let configuration = &self.options.configuration;
            let limits = limits(configuration.kube_api_qps, configuration.kube_api_burst);
            let client = clients.component_with("kubelet-status", limits);
            let (statuses, stop) = (parts.statuses.clone(), last.clone());
            let run = async move { statuses.run(client, stop).await };
            background.spawn(run.instrument(info_span!("status_manager")));
        }
        self.start_node(&assembled.node_status, &assembled.live_node, background, last);
        {
            let (runtime, images) =
                (Arc::clone(&self.connections.runtime), Arc::clone(&self.connections.images));
            let (state, inventory, stop) = (parts.runtime_state.clone(), assembled.inventory, last.clone());
            let environment = parts.environment.clone();
            let follow = maintenance::follow_handlers(inventory.clone(), environment, last.clone());
            background.spawn(follow.instrument(info_span!("handlers")));
            let run = async move { watch_runtime(&*runtime, &*images, &state, &inventory, stop).await };
            background.spawn(run.instrument(info_span!("runtime")));
        }
        if let Some(kernel) = &self.options.kernel
            && self.options.configuration.make_iptables_util_chains
        {
            let keeping = keep_chains(kernel.iptables(), last.clone());
            background.spawn(keeping.instrument(info_span!("iptables")));
        }
        if let Some(certificate) = self.connections.client_certificate.clone() {
            let (node, events) = (node_reference(&self.options.node_name), Arc::clone(&parts.events));
            let watching = certificate.watch(node, events, Timestamp::now, last.clone());
            background.spawn(watching.instrument(info_span!("client_certificate")));
        }
        let images = maintenance::forget_pulls(assembled.images, last.clone());
        background.spawn(images.instrument(info_span!("images")));
        let environment = parts.environment.clone();
        background.spawn(
            maintenance::check_resolv_conf(environment, last.clone()).instrument(info_span!("resolv_conf")),
        );
        let rotator = assembled.rotator;
        let rotating = last.clone();
        background.spawn(async move { rotator.run(rotating).await }.instrument(info_span!("log_rotation")));
        if let (Some(services), Some(clients)) = (assembled.services, &clients) {
            let run = services.run(clients.watch_client(), last.clone());
            background.spawn(run.instrument(info_span!("services")));
        }
        let health = assembled.health.clone();
        let collect = maintenance::collect_garbage(
            Arc::clone(&parts),
            caretaker,
            move || health.heard_all_sources(),
            last.clone(),
        );
        background.spawn(collect.instrument(info_span!("garbage")));
        if let Some((tree, there)) = assembled.tree {
            let pods = parts.pods.clone();
            let upkeep = Upkeep {
                tree,
                there,
                pods: Arc::new(move || active(pods.pods())),
                events: Arc::clone(&parts.events),
                node: node_reference(&self.options.node_name),
            };
            let stop = last.clone();
            background.spawn(async move { upkeep.run(stop).await }.instrument(info_span!("cgroups")));
        }
        // Before the loop: what it does not know to be a source it does not wait for.
        let api_server =
            clients.as_ref().map(|clients| (clients.watch_client(), assembled.live_node.clone()));
        sources.start(&self.options, api_server, &mut tasks, &stop);
        tasks.spawn(sync_loop.run(stop.clone()).instrument(info_span!("sync_loop")));

        stop.cancelled().await;
        let ended = timeout(LAST_WORDS, async {
            while tasks.join_next().await.is_some() {}
            workers.stop().await;
            assembled.probes.shut_down().await;
            last.cancel();
            while background.join_next().await.is_some() {}
            assembled.stop_objects.cancel();
            if let Some(objects) = &assembled.objects {
                objects.stopped().await;
            }
        });
        if ended.await.is_err() {
            tracing::warn!("Some parts did not end in time");
        }
        Ok(())
    }

    /// Starts what keeps the Node and its Lease.
    fn start_node(
        &self,
        status: &NodeStatus,
        live_node: &LiveNode,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) {
        let status = status.clone();
        let Some(clients) = &self.connections.clients else {
            let stop = stop.clone();
            tasks.spawn(async move { status.run_alone(stop).await }.instrument(info_span!("node_status")));
            return;
        };
        let (client, token) = (clients.lease_client("kubelet-node-status"), stop.clone());
        tasks.spawn(async move { status.run(client, token).await }.instrument(info_span!("node_status")));
        let (node, client, token) = (live_node.clone(), clients.watch_client(), stop.clone());
        tasks.spawn(async move { node.run(client, token).await }.instrument(info_span!("node")));
        let seconds = self.options.configuration.node_lease_duration_seconds;
        let heartbeat = Heartbeat::new(&self.options.node_name, seconds);
        let (client, token) = (clients.lease_client("kubelet-lease"), stop.clone());
        tasks.spawn(async move { heartbeat.run(client, token).await }.instrument(info_span!("lease")));
    }
}

/// The pods that have not ended.
fn active(pods: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
    let ended = |pod: &Pod| is_terminal(pod.status.as_ref().and_then(|status| status.phase.as_deref()));
    pods.into_iter().filter(|pod| !ended(pod)).collect()
}
