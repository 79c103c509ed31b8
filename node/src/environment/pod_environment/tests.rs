//! The parts together: what containers and sandboxes get, and what is told.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use k8s_openapi::api::core::v1::{
    ConfigMap, EnvVar, HostAlias, LocalObjectReference, Node, PodSecurityContext, PodSpec, Service,
    ServicePort, ServiceSpec, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use tempfile::TempDir;

use super::*;
use crate::cgroups::PodMemory;
use crate::events::testing::{Kept, Said};
use crate::objects::ObjectError;
use crate::volumes::MountedVolume;

/// All parts: one secret, one volume, one service; services may not have been read yet.
struct Fakes {
    synced: AtomicBool,
}

#[async_trait]
impl Objects for Fakes {
    async fn config_map(&self, _namespace: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError> {
        Err(ObjectError::NotFound(format!("configmap {name:?} not found")))
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        let mut secret = Secret::default();
        secret.metadata.name = Some(name.into());
        match (namespace, name) {
            ("shop", "there") => Ok(Arc::new(secret)),
            _ => Err(ObjectError::NotFound(format!("secret {name:?} not found"))),
        }
    }

    fn register(&self, _pod: &Pod) {}

    fn unregister(&self, _pod: &Pod) {}
}

impl Services for Fakes {
    fn synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }

    fn of_namespace(&self, namespace: &str) -> Vec<Arc<Service>> {
        let name = if namespace == "default" { "kubernetes" } else { "web" };
        let port = ServicePort { port: 443, ..Default::default() };
        let spec = ServiceSpec {
            cluster_ip: Some("10.0.0.1".into()),
            ports: Some(vec![port]),
            ..Default::default()
        };
        let mut service = Service { spec: Some(spec), ..Default::default() };
        service.metadata.name = Some(name.into());
        service.metadata.namespace = Some(namespace.into());
        vec![Arc::new(service)]
    }
}

impl MountedVolumes for Fakes {
    fn mounted(&self, _pod: &Uid) -> BTreeMap<String, MountedVolume> {
        let volume = MountedVolume { path: "/volumes/data".into(), read_only: false, relabel: false };
        BTreeMap::from([("data".to_owned(), volume)])
    }

    fn groups(&self, _pod: &Uid) -> BTreeSet<i64> {
        BTreeSet::from([77, 78])
    }

    fn prepare_sub_path(
        &self,
        pod: &Pod,
        container: &str,
        mount_index: usize,
        _mount: &VolumeMount,
        sub_path: &str,
    ) -> Result<PathBuf, String> {
        let pod = pod.metadata.name.as_deref().unwrap();
        Ok(format!("/sub/{pod}/{container}/{mount_index}/{sub_path}").into())
    }
}

impl PodCgroups for Fakes {
    fn parent_of(&self, pod: &Pod) -> String {
        format!("/kubepods/pod{}", pod.metadata.uid.as_deref().unwrap())
    }

    fn ensure(&self, _pod: &Pod) -> io::Result<()> {
        Ok(())
    }

    fn resize(&self, _pod: &Pod) -> io::Result<()> {
        Ok(())
    }

    fn memory(&self, _pod: &Pod) -> PodMemory {
        PodMemory::default()
    }

    fn exists(&self, _pod: &Pod) -> bool {
        true
    }

    fn given(&self, _pod: &Pod) -> crate::container::ContainerResources {
        crate::container::ContainerResources::default()
    }

    fn remove(&self, _pod: &Uid) -> io::Result<()> {
        Ok(())
    }

    fn pods(&self) -> io::Result<HashMap<Uid, String>> {
        Ok(HashMap::new())
    }
}

impl NodeInfo for Fakes {
    fn name(&self) -> &'static str {
        "node-1"
    }

    fn node(&self) -> Option<Arc<Node>> {
        None
    }

    fn host_ips(&self) -> Vec<String> {
        vec!["10.1.0.1".to_owned()]
    }

    fn allocatable(&self) -> BTreeMap<String, Quantity> {
        BTreeMap::new()
    }
}

struct World {
    folder: TempDir,
    fakes: Arc<Fakes>,
    events: Arc<Kept>,
    environment: PodEnvironment,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("hosts"), "127.0.0.1\tnode-1\n").unwrap();
        std::fs::write(at("resolv.conf"), "nameserver 8.8.8.8\nsearch corp.example\n").unwrap();
        let fakes = Arc::new(Fakes { synced: AtomicBool::new(true) });
        let events = Arc::new(Kept::default());
        let root = RootDir::new(at("root"));
        std::fs::create_dir_all(root.pod(&Uid::from("u-1"))).unwrap();
        let parts = Parts {
            objects: fakes.clone(),
            services: fakes.clone(),
            volumes: fakes.clone(),
            cgroups: fakes.clone(),
            node: fakes.clone(),
            events: events.clone(),
            root,
        };
        let dns = DnsSettings {
            cluster_domain: "cluster.local".into(),
            resolv_conf: Some(at("resolv.conf")),
            ..Default::default()
        };
        let environment =
            PodEnvironment::new(parts, Settings { dns, node_hosts: at("hosts"), ..Settings::default() });
        Self { folder, fakes, events, environment }
    }

    async fn options(
        &self,
        pod: &Pod,
        container: &Container,
        ips: &[&str],
    ) -> Result<ContainerOptions, String> {
        let ips: Vec<_> = ips.iter().map(|ip| (*ip).to_owned()).collect();
        self.environment.container_options(pod, container, &ips).await
    }

    fn hosts(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("root/pods/u-1/etc-hosts")).unwrap()
    }
}

fn pod(spec: PodSpec) -> Pod {
    let mut pod = Pod { spec: Some(spec), ..Default::default() };
    pod.metadata.name = Some("web".into());
    pod.metadata.namespace = Some("shop".into());
    pod.metadata.uid = Some("u-1".into());
    pod
}

fn container() -> Container {
    let mount = VolumeMount {
        name: "data".into(),
        mount_path: "/data".into(),
        sub_path_expr: Some("of/$(WHO)".into()),
        ..Default::default()
    };
    Container {
        name: "main".into(),
        env: Some(vec![EnvVar { name: "WHO".into(), value: Some("me".into()), ..Default::default() }]),
        volume_mounts: Some(vec![mount]),
        ..Default::default()
    }
}

fn targets(options: &ContainerOptions) -> Vec<(&str, &str)> {
    options.mounts.iter().map(|mount| (mount.container_path.as_str(), mount.host_path.as_str())).collect()
}

#[tokio::test]
async fn a_container_gets_environment_volumes_and_hosts_file() {
    let world = World::new();
    let aliases = vec![HostAlias { ip: "1.2.3.4".into(), hostnames: Some(vec!["db".into()]) }];
    let pod =
        pod(PodSpec { host_aliases: Some(aliases), subdomain: Some("farm".into()), ..Default::default() });
    let options = world.options(&pod, &container(), &["10.2.0.3"]).await.unwrap();
    let names: Vec<_> = options.env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[0], "WHO");
    assert!(names.contains(&"KUBERNETES_SERVICE_HOST") && names.contains(&"WEB_SERVICE_PORT"), "{names:?}");
    let hosts = world.folder.path().join("root/pods/u-1/etc-hosts");
    assert_eq!(
        targets(&options),
        [("/data", "/sub/web/main/0/of/me"), ("/etc/hosts", hosts.to_str().unwrap())]
    );
    assert!(options.mounts[1].selinux_relabel && !options.mounts[1].readonly);
    let text = world.hosts();
    let end =
        "10.2.0.3\tweb.farm.shop.svc.cluster.local\tweb\n\n# Entries added by HostAliases.\n1.2.3.4\tdb\n";
    assert!(text.starts_with("# Kubernetes-managed hosts file.\n") && text.ends_with(end), "{text}");
}

#[tokio::test]
async fn in_the_hosts_network_a_pod_has_the_nodes_hosts_and_addresses() {
    let world = World::new();
    let pod =
        pod(PodSpec { host_network: Some(true), enable_service_links: Some(false), ..Default::default() });
    let mut container = container();
    let field = serde_json::json!({"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}});
    container.env.as_mut().unwrap().push(serde_json::from_value(field).unwrap());
    let options = world.options(&pod, &container, &[]).await.unwrap();
    assert!(options.env.contains(&("IP".into(), "10.1.0.1".into())));
    assert!(options.env.iter().all(|(name, _)| !name.starts_with("WEB_")));
    assert_eq!(world.hosts(), "# Kubernetes-managed hosts file (host network).\n127.0.0.1\tnode-1\n");
}

#[tokio::test]
async fn a_hosts_file_of_the_containers_own_is_left_alone() {
    let world = World::new();
    let mut container = container();
    container.volume_mounts.as_mut().unwrap()[0].mount_path = "/etc/hosts".into();
    let options = world.options(&pod(PodSpec::default()), &container, &["10.2.0.3"]).await.unwrap();
    assert_eq!(targets(&options), [("/etc/hosts", "/sub/web/main/0/of/me")]);
    let none = world.options(&pod(PodSpec::default()), &self::container(), &[]).await.unwrap();
    assert_eq!(targets(&none).len(), 1, "a pod without addresses has no hosts file yet");
}

#[tokio::test]
async fn a_mount_is_read_only_with_all_in_it_where_the_runtimes_default_handler_can_do_that() {
    let world = World::new();
    let mut container = container();
    let mount = &mut container.volume_mounts.as_mut().unwrap()[0];
    (mount.read_only, mount.recursive_read_only) = (Some(true), Some("IfPossible".into()));
    let mut of_class = pod(PodSpec::default());
    of_class.spec.as_mut().unwrap().runtime_class_name = Some("vm".into());
    for (supported, pod, expected) in [
        (false, pod(PodSpec::default()), false),
        (true, pod(PodSpec::default()), true),
        (true, of_class, false),
    ] {
        world.environment.set_recursive_read_only(supported);
        let options = world.options(&pod, &container, &["10.2.0.3"]).await.unwrap();
        assert_eq!(options.mounts[0].recursive_read_only, expected);
    }
}

#[tokio::test]
async fn pods_of_the_api_server_wait_for_services_and_static_ones_do_not() {
    let world = World::new();
    world.fakes.synced.store(false, Ordering::Relaxed);
    let mut pod = pod(PodSpec::default());
    let error = world.options(&pod, &container(), &["10.2.0.3"]).await.unwrap_err();
    assert_eq!(error, "services have not yet been read at least once, cannot construct envvars");
    let source = BTreeMap::from([("kubernetes.io/config.source".to_owned(), "file".to_owned())]);
    pod.metadata.annotations = Some(source);
    world.options(&pod, &container(), &["10.2.0.3"]).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_had_is_said() {
    let world = World::new();
    let (mut missing, mut unknown) = (container(), container());
    let from = serde_json::json!([{"configMapRef": {"name": "settings"}}]);
    missing.env_from = serde_json::from_value(from).unwrap();
    unknown.volume_mounts.as_mut().unwrap()[0].name = "none".into();
    let pod = pod(PodSpec::default());
    let error = world.options(&pod, &missing, &["10.2.0.3"]).await.unwrap_err();
    assert_eq!(error, "configmap \"settings\" not found");
    // The volume is not there, after all.
    let from = serde_json::json!({ "fileKeyRef": { "volumeName": "data", "path": "env", "key": "A" } });
    let mut unread = container();
    unread.env.as_mut().unwrap()[0] =
        serde_json::from_value(serde_json::json!({ "name": "A", "valueFrom": from })).unwrap();
    let error = world.options(&pod, &unread, &["10.2.0.3"]).await.unwrap_err();
    assert_eq!(error, "couldn't parse env file");
    let error = world.options(&pod, &unknown, &["10.2.0.3"]).await.unwrap_err();
    assert_eq!(error, "cannot find volume \"none\" to mount into container \"main\"");
}

#[tokio::test]
async fn dns_comes_from_the_nodes_file_and_complaints_are_told_of_pod_and_node() {
    let world = World::new();
    let pod = pod(PodSpec { dns_policy: Some("ClusterFirst".into()), ..Default::default() });
    let dns = world.environment.pod_dns(&pod).await.unwrap();
    assert_eq!((dns.servers, dns.searches), (vec!["8.8.8.8".to_owned()], vec!["corp.example".to_owned()]));
    let told: Vec<_> =
        world.events.all().into_iter().map(|Said { name, reason, kind, .. }| (name, reason, kind)).collect();
    let missing = |name: &str| (name.to_owned(), "MissingClusterDNS", EventType::Warning);
    assert_eq!(told, [missing("node-1"), missing("web")]);
    std::fs::remove_file(world.folder.path().join("resolv.conf")).unwrap();
    assert!(world.environment.pod_dns(&pod).await.unwrap_err().starts_with("open /"));
}

#[tokio::test]
async fn a_bad_resolv_conf_is_told_of_the_node() {
    let world = World::new();
    world.environment.check_resolv_conf().await;
    assert!(world.events.all().is_empty());
    let searches: Vec<_> = (0..30).map(|number| format!("d{number}")).collect();
    let text = format!("search {}\n", searches.join(" "));
    std::fs::write(world.folder.path().join("resolv.conf"), text).unwrap();
    world.environment.check_resolv_conf().await;
    let said = world.events.all().remove(0);
    assert_eq!((said.name.as_str(), said.reason), ("node-1", "CheckLimitsForResolvConf"));
    assert!(
        said.message.ends_with("contains search line consisting of more than 29 domains!"),
        "{}",
        said.message
    );
}

#[tokio::test]
async fn pull_secrets_that_are_missing_are_told_and_left_out() {
    let world = World::new();
    let names = ["there", "", "gone", "lost"];
    let references = names.map(|name| LocalObjectReference { name: name.into() }).to_vec();
    let pod = pod(PodSpec { image_pull_secrets: Some(references), ..Default::default() });
    let secrets = world.environment.pull_secrets(&pod).await;
    assert_eq!(secrets.len(), 1);
    let said = world.events.all().remove(0);
    assert_eq!(said.reason, "FailedToRetrieveImagePullSecret");
    assert_eq!(
        said.message,
        "Unable to retrieve some image pull secrets (gone, lost); attempting to pull the image may not succeed."
    );
}

#[tokio::test]
async fn cgroup_and_names_are_those_of_the_parts() {
    let world = World::new();
    let pod = pod(PodSpec::default());
    assert_eq!(world.environment.cgroup_parent(&pod), "/kubepods/podu-1");
    assert_eq!(world.environment.hostname_and_domain(&pod), Ok(("web".into(), String::new())));
}

#[tokio::test]
async fn volumes_give_the_groups_that_the_pod_does_not_name() {
    let world = World::new();
    assert_eq!(world.environment.extra_supplemental_groups(&pod(PodSpec::default())), [77, 78]);
    let context = PodSecurityContext { supplemental_groups: Some(vec![77, 5]), ..Default::default() };
    let named = pod(PodSpec { security_context: Some(context), ..PodSpec::default() });
    assert_eq!(world.environment.extra_supplemental_groups(&named), [78]);
}
