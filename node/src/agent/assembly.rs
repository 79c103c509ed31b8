//! All parts of a node: put together, started, stopped.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use prometheus::Registry;
use steersman_client::events::{self, Recorder, Writer};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use super::caretaker::Caretaker;
use super::error::Error;
use super::host::AgentHost;
use super::maintenance;
use super::options::{Connections, Options, limits};
use super::parts::Parts;
use super::serving::Serving;
use super::sources::Sources;
use super::start_failures::StartFailures;
use super::syncer::Syncer;
use crate::admission::sysctl::Allowlist;
use crate::admission::{self, Policy};
use crate::allocation::checkpoint::{ACTUATED_PODS_STATE, ALLOCATED_PODS_STATE};
use crate::allocation::{self, Resizes, Store};
use crate::cgroups::{
    self, CgroupSettings, CgroupTree, Disabled, Extent, PodCgroups, PodLimitSettings, Reserved, Upkeep, Whose,
};
use crate::configuration::{self, Enforcement, KubeletConfiguration};
use crate::environment::{self, DnsSettings, PodEnvironment};
use crate::events::{Events, LogOnly};
use crate::images::{self, Parallelism, Rate, RuntimeImages, VerificationPolicy};
use crate::kuberuntime::container_config::NodeFacts;
use crate::kuberuntime::manager::{self, Kuberuntime, machine_clock};
use crate::lease::Heartbeat;
use crate::logs::{LogRotator, RotatePolicy};
use crate::machine::{CgroupVersion, Facts, Machine};
use crate::node_info::NodeInfo;
use crate::node_status::capacity::capacity;
use crate::node_status::events::node_reference;
use crate::node_status::{self, Inventory, LiveNode, NodeStatus, Settings, watch_runtime};
use crate::objects::{NoApi, Objects, ServiceLister, Services, WatchedObjects};
use crate::pleg::{self, Pleg, PlegHandle, hints};
use crate::pod_config::{MirrorClient, PodConfig, PodUpdate};
use crate::pod_manager::PodManager;
use crate::pod_workers::{self, PodWorkers, States};
use crate::probes::{self, ProbeManager, ProbeUpdates};
use crate::resources::ResourceList;
use crate::root_dir::RootDir;
use crate::server;
use crate::startup_latency::StartupLatency;
use crate::status_manager::conditions::is_terminal;
use crate::status_manager::{self, StatusManager};
use crate::sync_loop::{self, ContainerDeletor, Inputs, LoopHealth, RuntimeState, SyncLoop};
use crate::volumes::tokens::{ApiTokens, NoTokens, TokenManager};
use crate::volumes::{self, VolumeManager};

/// Whose name is on events, and in user agents.
const COMPONENT: &str = "kubelet";
/// How long the parts may take to end once they are told to.
const LAST_WORDS: Duration = Duration::from_secs(8);
/// Between two tries to reach a runtime that does not answer at the start.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);

/// The node agent: registers its node, and runs the pods that its sources tell of.
///
/// It keeps nothing of pods but what the runtime, the API server and folders on disk have: one that is started again goes
/// on where the last one ended, and containers run on in between.
pub struct Agent {
    options: Options,
    connections: Connections,
    registry: Registry,
    machine: Machine,
    facts: Facts,
    root: RootDir,
}

/// All parts, connected; none of them runs.
struct Assembled {
    parts: Arc<Parts>,
    workers: PodWorkers,
    sync_loop: SyncLoop,
    health: LoopHealth,
    caretaker: Arc<Caretaker>,
    deletor: ContainerDeletor,
    pleg: Pleg,
    relists: PlegHandle,
    config: PodConfig,
    probes: ProbeManager,
    images: Arc<RuntimeImages>,
    node_status: NodeStatus,
    inventory: Inventory,
    live_node: LiveNode,
    tree: Option<(Arc<CgroupTree>, ResourceList)>,
    rotator: LogRotator,
    services: Option<Arc<ServiceLister>>,
    objects: Option<Arc<WatchedObjects>>,
    /// Ends the watches of `objects`.
    stop_objects: CancellationToken,
    writer: Option<Writer>,
    server_metrics: server::Metrics,
}

impl Agent {
    /// Measures the machine and makes the node's folders. All metrics will be in `registry`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(options: Options, connections: Connections, registry: Registry) -> Result<Self, Error> {
        for path in [&options.root_dir, &options.configuration.pod_logs_dir, &options.container_log_links] {
            folder(path)?;
        }
        let machine = Machine::this();
        let facts = machine.facts(&options.root_dir)?;
        check_machine(&options.configuration, &facts)?;
        let root = RootDir::new(options.root_dir.clone());
        folder(&root.pods())?;
        Ok(Self { options, connections, registry, machine, facts, root })
    }

    /// Runs until `stop`. Waits for the runtime first, if that does not answer yet. Containers run on afterwards.
    ///
    /// # Errors
    /// A part can't be set up as the configuration asks; see [`Error`].
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let Some(runtime_name) = stop.run_until_cancelled(self.runtime_name()).await else { return Ok(()) };
        let assembled = self.assemble(&runtime_name)?;
        let (host, metrics) = (self.host(&assembled), assembled.server_metrics.clone());
        let serving = Serving::bind(&self.options, &self.connections, host, metrics, &self.registry).await?;
        let settled = settle(Arc::clone(&assembled.images), assembled.node_status.clone());
        if stop.run_until_cancelled(settled).await.is_none() {
            return Ok(());
        }
        self.start(assembled, serving, stop).await
    }

    /// The name that ids of containers begin with.
    async fn runtime_name(&self) -> String {
        loop {
            match self.connections.runtime.version("0.1.0").await {
                Ok(version) => {
                    let (name, version) = (version.runtime_name, version.runtime_version);
                    tracing::info!(name, version, "Container runtime initialized");
                    return name;
                }
                Err(error) => tracing::error!(%error, "The container runtime does not answer yet"),
            }
            tokio::time::sleep(RUNTIME_RETRY).await;
        }
    }

    fn assemble(&self, runtime_name: &str) -> Result<Assembled, Error> {
        let Self { options, connections, registry, .. } = self;
        let configuration = &options.configuration;
        let client = connections.clients.as_ref().map(|clients| {
            clients
                .component_with(COMPONENT, limits(configuration.kube_api_qps, configuration.kube_api_burst))
        });
        let (recorder, writer) = self.recorder()?;
        let events: Events = match &recorder {
            Some(recorder) => Arc::new(recorder.clone()),
            None => Arc::new(LogOnly),
        };
        let live_node = LiveNode::new(&options.node_name);
        let node: Arc<dyn NodeInfo> = Arc::new(live_node.clone());

        let (pods, states) = (PodManager::new(), States::new());
        let status_metrics = status_manager::Metrics::new();
        status_metrics.register(registry)?;
        let statuses = StatusManager::new(Arc::new(pods.clone()), Arc::new(states.clone()), status_metrics);

        let stop_objects = CancellationToken::new();
        let watched = connections
            .clients
            .as_ref()
            .map(|clients| Arc::new(WatchedObjects::new(clients.watch_client(), stop_objects.clone())));
        let services = connections.clients.as_ref().map(|_| ServiceLister::new());
        let objects: Arc<dyn Objects> = match &watched {
            Some(watched) => Arc::<WatchedObjects>::clone(watched),
            None => Arc::new(NoApi),
        };
        let of_services: Arc<dyn Services> = match &services {
            Some(services) => Arc::<ServiceLister>::clone(services),
            None => Arc::new(NoApi),
        };
        let tokens = match &client {
            Some(client) => TokenManager::new(Arc::new(ApiTokens::new(client.clone())), machine_clock()),
            None => TokenManager::new(Arc::new(NoTokens), machine_clock()),
        };
        let volumes = VolumeManager::new(volumes::Parts {
            root: self.root.clone(),
            objects: Arc::clone(&objects),
            tokens: Arc::new(tokens),
            node: Arc::clone(&node),
            events: Arc::clone(&events),
            now: machine_clock(),
            metrics: volumes::Metrics::new(),
            rights: options.volume_rights,
        });
        volumes.register(registry)?;

        let node_facts = self.node_facts();
        let tree = self.cgroup_tree(&node_facts)?;
        let cgroups: Arc<dyn PodCgroups> = match &tree {
            Some((tree, _)) => Arc::<CgroupTree>::clone(tree),
            None => Arc::new(Disabled),
        };
        let environment = PodEnvironment::new(
            environment::Parts {
                objects: Arc::clone(&objects),
                services: of_services,
                volumes: Arc::new(volumes.clone()),
                cgroups: Arc::clone(&cgroups),
                node: Arc::clone(&node),
                events: Arc::clone(&events),
                root: self.root.clone(),
            },
            environment::Settings { dns: dns(configuration), ..environment::Settings::default() },
        );
        let image_metrics = images::Metrics::new();
        image_metrics.register(registry)?;
        let startup = StartupLatency::new();
        startup.register(registry)?;
        let images = RuntimeImages::new(
            Arc::clone(&connections.images),
            Arc::clone(&events),
            &self.root,
            image_settings(options)?,
            image_metrics,
        )?;
        let images = Arc::new(images.telling(startup.clone()));
        let resize_metrics = allocation::Metrics::new();
        resize_metrics.register(registry)?;
        let allocated = Store::open(self.root.path().join(ALLOCATED_PODS_STATE))?;
        let resizes = Resizes::new(allocated, Arc::clone(&events), resize_metrics);
        let runtime_metrics = manager::Metrics::new()?;
        runtime_metrics.register(registry)?;
        let runtime = Arc::new(Kuberuntime::new(manager::Parts {
            runtime: Arc::clone(&connections.runtime),
            image_service: Arc::clone(&connections.images),
            images: Arc::<RuntimeImages>::clone(&images),
            helper: Arc::new(environment.clone()),
            cgroups: Arc::clone(&cgroups),
            sandbox_ready: {
                let statuses = statuses.clone();
                Arc::new(move |pod| statuses.set_sandbox_ready(pod))
            },
            events: Arc::clone(&events),
            actuated: Store::open(self.root.path().join(ACTUATED_PODS_STATE))?,
            metrics: runtime_metrics,
            clock: machine_clock(),
            options: manager::Options {
                pod_logs: configuration.pod_logs_dir.clone(),
                container_log_links: options.container_log_links.clone(),
                max_container_restart_period: configuration
                    .crash_loop_back_off
                    .max_container_restart_period
                    .0,
                garbage: options.garbage,
                ..manager::Options::new(runtime_name, self.root.clone(), node_facts)
            },
        }));

        let pleg_metrics = pleg::Metrics::new()?;
        pleg_metrics.register(registry)?;
        let lister: Arc<dyn pleg::PodLister> = Arc::<Kuberuntime>::clone(&runtime);
        let (pleg, relists, pod_events) = Pleg::new(lister, pleg::Config::default(), pleg_metrics);
        let runtime_state = RuntimeState::new();
        let health = relists.clone();
        runtime_state.add_health_check(
            "PLEG",
            Box::new(move || health.healthy().map_err(|unhealthy| unhealthy.to_string())),
        );
        let inventory = Inventory::new();

        let probe_metrics = probes::Metrics::new()?;
        probe_metrics.register(registry)?;
        let (probes, probe_updates) = ProbeManager::new(
            Arc::new(statuses.clone()),
            Arc::clone(&connections.runtime),
            Arc::clone(&events),
            probe_metrics,
        );
        let worker_metrics = pod_workers::Metrics::new();
        worker_metrics.register(registry)?;
        let (config, updates) = PodConfig::new(recorder);
        let parts = Arc::new(Parts {
            pods: pods.clone(),
            states: states.clone(),
            worker_metrics: worker_metrics.clone(),
            resizes: resizes.clone(),
            statuses: statuses.clone(),
            failures: StartFailures::default(),
            probes: probes.clone(),
            volumes,
            cgroups,
            environment,
            objects,
            runtime,
            relists: relists.clone(),
            runtime_state: runtime_state.clone(),
            node: live_node.clone(),
            events: Arc::clone(&events),
            mirrors: client.clone().map(|client| MirrorClient::new(client, &options.node_name)),
            root: self.root.clone(),
            ended: Notify::new(),
            on_api_server: client.is_some(),
        });
        let workers = PodWorkers::new(
            states,
            Arc::new(Syncer::new(Arc::clone(&parts))),
            Arc::new(relists.clone()),
            Arc::clone(&events),
            pod_workers::Config { resync: configuration.sync_frequency.0, ..pod_workers::Config::default() },
            worker_metrics,
        );
        let node_status = self.node_status(&live_node, &parts.runtime_state, &inventory, events.clone())?;
        let policy = Policy {
            sysctls: Allowlist::new(&self.facts.kernel_version, &configuration.allowed_unsafe_sysctls)?,
            app_armor: admission::app_armor_enabled(),
        };
        let caretaker = Arc::new(Caretaker::new(Arc::clone(&parts), policy, node_status.clone()));
        let remover: Arc<dyn sync_loop::ContainerRemover> = Arc::<Caretaker>::clone(&caretaker);
        let (deletor, deletions) = ContainerDeletor::new(
            relists.statuses().clone(),
            remover,
            self.options.garbage.left_at_a_death(),
        );
        let sync_loop = self.sync_loop(
            sync_loop::Parts {
                pods,
                workers: workers.clone(),
                status: statuses,
                agent: Arc::<Caretaker>::clone(&caretaker),
                resizes,
                held: sync_loop::Held::default(),
                deletions,
                runtime: runtime_state,
                events: Arc::clone(&events),
                metrics: sync_loop::Metrics::new(),
                startup,
            },
            &config,
            updates,
            pod_events,
            probe_updates,
        )?;
        let server_metrics = server::Metrics::new();
        server_metrics.register(registry)?;
        connections.runtime_metrics.register(registry)?;
        Ok(Assembled {
            parts,
            workers,
            health: sync_loop.health(),
            sync_loop,
            caretaker,
            deletor,
            pleg,
            relists,
            config,
            probes,
            images,
            node_status,
            inventory,
            live_node,
            tree,
            rotator: LogRotator::new(Arc::clone(&connections.runtime), rotation(configuration))?,
            services,
            objects: watched,
            stop_objects,
            writer,
            server_metrics,
        })
    }

    /// Who tells events to the API server, if there is one, as a kubelet on this node.
    fn recorder(&self) -> Result<(Option<Recorder>, Option<Writer>), Error> {
        let Some(clients) = &self.connections.clients else { return Ok((None, None)) };
        let metrics = self.connections.event_metrics.clone();
        let configuration = &self.options.configuration;
        let limits = limits(configuration.event_record_qps, configuration.event_burst);
        let (broadcaster, writer) =
            events::broadcaster(clients.component_with("kubelet-events", limits), metrics);
        Ok((Some(broadcaster.recorder_on(COMPONENT, &self.options.node_name)), Some(writer)))
    }

    /// What the Node is to say.
    fn settings(&self) -> Result<Settings, Error> {
        let options = &self.options;
        let mut settings =
            Settings::new(&options.node_name, &options.kubelet_version, &options.configuration)?;
        settings.node_ips.clone_from(&options.node_ips);
        settings.node_labels.clone_from(&options.node_labels);
        settings.external_cloud_provider = options.external_cloud_provider;
        Ok(settings)
    }

    fn node_facts(&self) -> NodeFacts {
        let configuration = &self.options.configuration;
        let mut facts = NodeFacts::of_this_machine(self.root.path());
        facts.cpu_cfs_quota = configuration.cpu_cfs_quota;
        facts.cpu_cfs_quota_period = configuration.cpu_cfs_quota_period.0;
        facts.seccomp_default = configuration.seccomp_default;
        if let Some(single) = configuration.single_process_oom_kill {
            facts.single_process_oom_kill = single;
        }
        facts
    }

    /// The control groups, with what pods may have of the machine; none where the node keeps none.
    fn cgroup_tree(&self, facts: &NodeFacts) -> Result<Option<(Arc<CgroupTree>, ResourceList)>, Error> {
        let configuration = &self.options.configuration;
        if !configuration.cgroups_per_qos {
            return Ok(None);
        }
        let tree = CgroupTree::find(CgroupSettings {
            driver: match configuration.cgroup_driver {
                configuration::CgroupDriver::Cgroupfs => cgroups::CgroupDriver::Cgroupfs,
                configuration::CgroupDriver::Systemd => cgroups::CgroupDriver::Systemd,
            },
            root: configuration.cgroup_root.clone().unwrap_or_else(|| "/".to_owned()),
            pods: PodLimitSettings {
                cpu_cfs_quota: configuration.cpu_cfs_quota,
                cpu_cfs_quota_period: u64::try_from(facts.quota_period()).unwrap_or_default(),
                pod_pids_limit: u64::try_from(configuration.pod_pids_limit).ok().filter(|limit| *limit > 0),
                huge_page_sizes: facts.huge_page_sizes.clone(),
            },
        })?;
        let capacity = capacity(&self.facts, &self.settings()?);
        let there = if configuration.enforce_node_allocatable.contains(&Enforcement::Pods) {
            cgroups::left_for_pods(&capacity, &[&configuration.system_reserved, &configuration.kube_reserved])
        } else {
            capacity
        };
        tree.prepare(&there)?;
        tree.metrics().register(&self.registry)?;
        Ok(Some((Arc::new(tree), there)))
    }

    fn sync_loop(
        &self,
        parts: sync_loop::Parts,
        config: &PodConfig,
        updates: mpsc::Receiver<PodUpdate>,
        pod_events: mpsc::Receiver<pleg::PodLifecycleEvent>,
        probes: ProbeUpdates,
    ) -> Result<SyncLoop, Error> {
        parts.metrics.register(&self.registry)?;
        let probes = stream::unfold(probes, |mut probes| async move { Some((probes.recv().await, probes)) });
        let inputs = Inputs { config: config.clone(), updates, pod_events, probes: probes.boxed() };
        Ok(SyncLoop::new(parts, inputs))
    }

    fn node_status(
        &self,
        live_node: &LiveNode,
        runtime_state: &RuntimeState,
        inventory: &Inventory,
        events: Events,
    ) -> Result<NodeStatus, Error> {
        let metrics = node_status::Metrics::new(Timestamp::now());
        metrics.register(&self.registry)?;
        Ok(NodeStatus::new(node_status::Parts {
            settings: self.settings()?,
            machine: self.machine.clone(),
            facts: self.facts.clone(),
            root_dir: self.options.root_dir.clone(),
            runtime: Arc::clone(&self.connections.runtime),
            runtime_state: runtime_state.clone(),
            inventory: inventory.clone(),
            live_node: live_node.clone(),
            events,
            metrics,
        }))
    }

    fn host(&self, assembled: &Assembled) -> AgentHost {
        AgentHost {
            parts: Arc::clone(&assembled.parts),
            health: assembled.health.clone(),
            configuration: self.options.configuration.to_configz(),
            machine: self.machine.clone(),
        }
    }

    /// Starts everything, and ends it in order once `stop` is cancelled.
    async fn start(
        self,
        assembled: Assembled,
        serving: Serving,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let Assembled { parts, workers, sync_loop, caretaker, deletor, pleg, relists, .. } = assembled;
        let clients = self.connections.clients.clone();
        let sources = Sources::new(assembled.config.clone(), &self.options)?;
        // Those that pods need to the end stop after the workers.
        let last = CancellationToken::new();
        let (mut tasks, mut background) = (JoinSet::new(), JoinSet::new());

        serving.start(&mut background, &last);
        background.spawn(pleg.run(last.clone()).instrument(info_span!("pleg")));
        let hints = hints::follow(Arc::clone(&self.connections.runtime), relists, last.clone());
        background.spawn(hints.instrument(info_span!("container_events")));
        background.spawn(deletor.run(last.clone()).instrument(info_span!("container_deletor")));
        if let Some(writer) = assembled.writer {
            background.spawn(writer.run(last.clone()).instrument(info_span!("events")));
        }
        if let Some(clients) = &clients {
            // Three statuses of two calls each bring a pod to Running.
            let configuration = &self.options.configuration;
            let limits = limits(configuration.kube_api_qps, configuration.kube_api_burst);
            let client = clients.component_with("kubelet-status", limits);
            let (statuses, stop) = (parts.statuses.clone(), last.clone());
            let run = async move { statuses.run(client, stop).await };
            background.spawn(run.instrument(info_span!("status_manager")));
        }
        self.start_node(&assembled.node_status, &assembled.live_node, &mut background, &last);
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
                reserved: reserved(&self.options.configuration),
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

/// What must be so before the first pod comes: what is known of pulled images, and of this node.
async fn settle(images: Arc<RuntimeImages>, node_status: NodeStatus) {
    while let Err(error) = images.settle().await {
        tracing::error!(%error, "The runtime's images can't be listed yet");
        tokio::time::sleep(RUNTIME_RETRY).await;
    }
    node_status.observe_initial().await;
}

/// The groups of the host's daemons that are to be held to what is reserved for them. Those are named: the configuration was
/// checked.
fn reserved(configuration: &KubeletConfiguration) -> Vec<Reserved> {
    let system = (Whose::System, &configuration.system_reserved_cgroup, &configuration.system_reserved);
    let kubernetes = (Whose::Kubernetes, &configuration.kube_reserved_cgroup, &configuration.kube_reserved);
    let of = |enforcement: &Enforcement| {
        let ((whose, group, amounts), extent) = match enforcement {
            Enforcement::None | Enforcement::Pods => return None,
            Enforcement::SystemReserved => (system, Extent::All),
            Enforcement::SystemReservedCompressible => (system, Extent::Compressible),
            Enforcement::KubeReserved => (kubernetes, Extent::All),
            Enforcement::KubeReservedCompressible => (kubernetes, Extent::Compressible),
        };
        Some(Reserved { whose, group: group.clone()?, amounts: amounts.clone(), extent })
    };
    configuration.enforce_node_allocatable.iter().filter_map(of).collect()
}

/// The pods that have not ended.
fn active(pods: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
    let ended = |pod: &Pod| is_terminal(pod.status.as_ref().and_then(|status| status.phase.as_deref()));
    pods.into_iter().filter(|pod| !ended(pod)).collect()
}

fn dns(configuration: &KubeletConfiguration) -> DnsSettings {
    DnsSettings {
        cluster_dns: configuration.cluster_dns.clone(),
        cluster_domain: configuration.cluster_domain.clone().unwrap_or_default(),
        resolv_conf: Some(configuration.resolv_conf.clone()).filter(|path| !path.as_os_str().is_empty()),
    }
}

fn image_settings(options: &Options) -> Result<images::Settings, Error> {
    let configuration = &options.configuration;
    let parallelism = match (configuration.serialize_image_pulls, configuration.max_parallel_image_pulls) {
        (true, _) => Parallelism::One,
        (false, Some(limit)) => Parallelism::UpTo(usize::try_from(limit).unwrap_or(usize::MAX)),
        (false, None) => Parallelism::Unlimited,
    };
    #[expect(clippy::cast_precision_loss, reason = "nobody pulls millions of images a second")]
    let rate = Rate { qps: configuration.registry_pull_qps as f32, burst: configuration.registry_burst };
    let verification = VerificationPolicy::new(
        &configuration.image_pull_credentials_verification_policy,
        &configuration.preloaded_images_verification_allowlist,
    )?;
    Ok(images::Settings {
        parallelism,
        rate,
        verification,
        credential_provider_config: options.credential_provider_config.clone(),
    })
}

fn rotation(configuration: &KubeletConfiguration) -> RotatePolicy {
    RotatePolicy {
        max_size: configuration.container_log_max_size.value(),
        max_files: configuration.container_log_max_files,
        max_workers: configuration.container_log_max_workers,
        interval: configuration.container_log_monitor_interval.0,
    }
}

/// Whether the configuration lets a node run on a machine like this.
fn check_machine(configuration: &KubeletConfiguration, facts: &Facts) -> Result<(), Error> {
    if configuration.fail_swap_on && facts.swap > 0 {
        let why = "running with swap on is not supported: turn it off, or set failSwapOn to false";
        return Err(Error::Setting(why.to_owned()));
    }
    if facts.cgroup_version == CgroupVersion::V1 {
        configuration.allows_cgroup_v1()?;
    }
    Ok(())
}

/// Makes a folder, where it is missing.
fn folder(path: &Path) -> Result<(), Error> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o750).create(path);
    made.map_err(|source| Error::Folder { path: path.to_owned(), source })
}
