//! All parts of a node, put together.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use prometheus::Registry;
use steersman_client::events::{self, Recorder, Writers};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::caretaker::Caretaker;
use super::error::Error;
use super::host::AgentHost;
use super::node_agent::Agent;
use super::options::limits;
use super::parts::Parts;
use super::settings::{check_reserved, dns, for_all_pods, image_settings, rotation};
use super::start_failures::StartFailures;
use super::syncer::Syncer;
use crate::admission::sysctl::Allowlist;
use crate::admission::{self, Policy};
use crate::allocation::checkpoint::{ACTUATED_PODS_STATE, ALLOCATED_PODS_STATE};
use crate::allocation::{self, Resizes, Store};
use crate::cgroups::{self, CgroupSettings, CgroupTree, Disabled, PodCgroups, PodLimitSettings};
use crate::configuration;
use crate::environment::{self, PodEnvironment};
use crate::events::{Events, LogOnly};
use crate::images::{self, RuntimeImages};
use crate::kuberuntime::container_config::NodeFacts;
use crate::kuberuntime::manager::{self, Kuberuntime, machine_clock};
use crate::logs::LogRotator;
use crate::machine::Family;
use crate::node_info::NodeInfo;
use crate::node_status::capacity::capacity;
use crate::node_status::{self, Inventory, LiveNode, NodeStatus};
use crate::objects::{NoApi, Objects, ServiceLister, Services, WatchedObjects};
use crate::pleg::{self, Pleg, PlegHandle};
use crate::pod_config::{MirrorClient, PodConfig, PodUpdate};
use crate::pod_manager::PodManager;
use crate::pod_workers::{self, PodWorkers, States};
use crate::probes::{self, ProbeManager, ProbeUpdates};
use crate::resources::ResourceList;
use crate::server;
use crate::startup_latency::StartupLatency;
use crate::status_manager::{self, StatusManager};
use crate::sync_loop::{self, ContainerDeletor, Inputs, LoopHealth, RuntimeState, SyncLoop};
use crate::volumes::claims::{ApiClaims, Claims, NoClaims};
use crate::volumes::tokens::{ApiTokens, NoTokens, TokenManager};
use crate::volumes::{self, VolumeManager};

/// Whose name is on events, and in user agents.
const COMPONENT: &str = "kubelet";

/// All parts, connected; none of them runs.
pub(super) struct Assembled {
    pub(super) parts: Arc<Parts>,
    pub(super) workers: PodWorkers,
    pub(super) sync_loop: SyncLoop,
    pub(super) health: LoopHealth,
    pub(super) caretaker: Arc<Caretaker>,
    pub(super) deletor: ContainerDeletor,
    pub(super) pleg: Pleg,
    pub(super) relists: PlegHandle,
    pub(super) config: PodConfig,
    pub(super) probes: ProbeManager,
    pub(super) images: Arc<RuntimeImages>,
    pub(super) node_status: NodeStatus,
    pub(super) inventory: Inventory,
    pub(super) live_node: LiveNode,
    pub(super) tree: Option<(Arc<CgroupTree>, ResourceList)>,
    pub(super) rotator: LogRotator,
    pub(super) services: Option<Arc<ServiceLister>>,
    pub(super) objects: Option<Arc<WatchedObjects>>,
    /// Ends the watches of `objects`.
    pub(super) stop_objects: CancellationToken,
    pub(super) writers: Option<Writers>,
    pub(super) server_metrics: server::Metrics,
    pub(super) probe_registry: Registry,
}

impl Agent {
    pub(super) fn assemble(&self, runtime_name: &str) -> Result<Assembled, Error> {
        let Self { options, connections, registry, .. } = self;
        let configuration = &options.configuration;
        let client = connections.clients.as_ref().map(|clients| {
            clients
                .component_with(COMPONENT, limits(configuration.kube_api_qps, configuration.kube_api_burst))
        });
        let (recorder, writers) = self.recorder();
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
        let claims: Arc<dyn Claims> = match &client {
            Some(client) => Arc::new(ApiClaims::new(client.clone())),
            None => Arc::new(NoClaims),
        };
        let volumes = VolumeManager::new(volumes::Parts {
            root: self.root.clone(),
            objects: Arc::clone(&objects),
            claims,
            tokens: Arc::new(tokens),
            node: Arc::clone(&node),
            events: Arc::clone(&events),
            now: machine_clock(),
            metrics: volumes::Metrics::new(),
            rights: options.volume_rights,
        });
        volumes.register(registry)?;

        let node_facts = self.node_facts();
        check_reserved(&self.facts, &self.settings()?)?;
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
            environment::Settings {
                dns: dns(configuration),
                ip_family: Family::preferred(&options.node_ips),
                ..environment::Settings::default()
            },
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
        let inspect_timeout = configuration.runtime_request_timeout.0;
        let pleg_config = pleg::Config { inspect_timeout, ..pleg::Config::default() };
        let lister: Arc<dyn pleg::PodLister> = Arc::<Kuberuntime>::clone(&runtime);
        let (pleg, relists, pod_events) = Pleg::new(lister, pleg_config, pleg_metrics);
        let runtime_state = RuntimeState::new();
        let health = relists.clone();
        runtime_state.add_health_check(
            "PLEG",
            Box::new(move || health.healthy().map_err(|unhealthy| unhealthy.to_string())),
        );
        let inventory = Inventory::new();

        let probe_metrics = probes::Metrics::new()?;
        // Upstream serves them by themselves, since they tell of each container.
        let probe_registry = Registry::new();
        probe_metrics.register(&probe_registry)?;
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
            inspect_timeout,
            relists: relists.clone(),
            runtime_state: runtime_state.clone(),
            node: live_node.clone(),
            ip_family: Family::preferred(&options.node_ips),
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
        let caretaker = Arc::new(Caretaker::new(Arc::clone(&parts), policy, node_status.clone(), client));
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
            rotator: LogRotator::new(
                Arc::clone(&connections.runtime),
                &configuration.pod_logs_dir,
                rotation(configuration),
            )?,
            services,
            objects: watched,
            stop_objects,
            writers,
            server_metrics,
            probe_registry,
        })
    }

    /// Records events as the kubelet of this node, if there is an API server, and writes them.
    fn recorder(&self) -> (Option<Recorder>, Option<Writers>) {
        let Some(clients) = &self.connections.clients else { return (None, None) };
        let metrics = self.connections.event_metrics.clone();
        let configuration = &self.options.configuration;
        let limits = limits(configuration.event_record_qps, configuration.event_burst);
        let (broadcaster, writers) = events::broadcaster_with(clients, limits, metrics);
        (Some(broadcaster.recorder_on(COMPONENT, &self.options.node_name)), Some(writers))
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
        let tasks = self.machine.task_limit();
        let there = for_all_pods(configuration, capacity(&self.facts, &self.settings()?), tasks);
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

    pub(super) fn host(&self, assembled: &Assembled) -> AgentHost {
        AgentHost {
            parts: Arc::clone(&assembled.parts),
            health: assembled.health.clone(),
            configuration: self.options.configuration.to_configz(),
            machine: self.machine.clone(),
        }
    }
}
