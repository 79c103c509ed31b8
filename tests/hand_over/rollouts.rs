//! Rollouts that are held in the middle by pods that never become ready, while one manager hands over to another.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_api::Time;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use support::manager::Manager;
use support::replicas::{is_active, name_of};
use support::{Cluster, eventually, patience};

/// A kind whose controller rolls its pods out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
}

impl Kind {
    /// The flag that makes a manager run the controllers of this kind.
    fn controllers(self) -> &'static str {
        match self {
            Self::Deployment => "--controllers=deployment-controller,replicaset-controller",
            Self::StatefulSet => "--controllers=statefulset-controller",
            Self::DaemonSet => "--controllers=daemonset-controller",
        }
    }

    /// The spec beside selector and template. At most one pod may be unavailable.
    fn spec(self) -> Value {
        match self {
            Self::Deployment => json!({ "replicas": 4 }),
            Self::StatefulSet => json!({ "replicas": 3, "serviceName": "web" }),
            Self::DaemonSet => json!({}),
        }
    }

    /// The status of a workload all of whose pods have its template and are ready.
    fn done(self) -> Value {
        match self {
            Self::Deployment => json!({ "replicas": 4, "updatedReplicas": 4, "availableReplicas": 4 }),
            Self::StatefulSet => json!({ "replicas": 3, "currentReplicas": 3, "availableReplicas": 3 }),
            Self::DaemonSet => json!({
                "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 3,
            }),
        }
    }

    /// The status of a workload whose new pods do not become ready, so that its rollout can't go on.
    fn held(self) -> Value {
        match self {
            Self::Deployment => json!({ "replicas": 5, "updatedReplicas": 2, "availableReplicas": 3 }),
            Self::StatefulSet => json!({
                "replicas": 3, "updatedReplicas": 1, "currentReplicas": 2, "availableReplicas": 2,
            }),
            Self::DaemonSet => json!({
                "desiredNumberScheduled": 3, "updatedNumberScheduled": 1, "numberAvailable": 2,
            }),
        }
    }

    /// The kind of the objects that record the workload's templates.
    fn records(self) -> ApiResource {
        match self {
            Self::Deployment => resource("ReplicaSet"),
            Self::StatefulSet | Self::DaemonSet => resource("ControllerRevision"),
        }
    }
}

fn resource(kind: &str) -> ApiResource {
    ApiResource {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}

/// A pod template with values that Go writes in its own way, into names and into the data of revisions.
fn template(image: &str) -> Value {
    json!({
        "metadata": {
            "labels": { "app": "web" },
            "annotations": { "note": "<b> & \"quoted\" \u{2028} ü 😀", "empty": "" },
        },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "tolerations": [
                { "operator": "Exists" },
                { "key": "slow", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9_007_199_254_740_993_i64 },
            ],
            "nodeSelector": {},
            "securityContext": { "fsGroup": 0, "runAsUser": 0 },
            "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 1,
                "podAffinityTerm": { "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "web" } } },
            }] } },
            "volumes": [
                { "name": "scratch", "emptyDir": { "sizeLimit": "1024Mi" } },
                { "name": "claim", "ephemeral": { "volumeClaimTemplate": { "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "100Ti" } },
                } } } },
            ],
            "containers": [{
                "name": "main", "image": image,
                "args": ["<&>", "a\\b"],
                "env": [{ "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
                "resources": { "limits": { "cpu": "1.500", "memory": "70Mi" }, "requests": { "cpu": "0.1" } },
                "livenessProbe": { "httpGet": { "port": "http", "path": "/" }, "initialDelaySeconds": 3 },
                "readinessProbe": { "tcpSocket": { "port": 80 } },
                "ports": [{ "containerPort": 80, "name": "http" }],
            }],
        },
    })
}

/// A workload with the name `web`, alone in its namespace.
struct Workload {
    kind: Kind,
    api: Api<DynamicObject>,
    records: Api<DynamicObject>,
    pods: Api<Pod>,
}

impl Workload {
    async fn create(client: &kube::Client, namespace: &str, kind: Kind, image: &str) -> Self {
        let name = format!("{kind:?}");
        let api = Api::namespaced_with(client.clone(), namespace, &resource(&name));
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": name,
            "metadata": { "name": "web", "annotations": { "team": "a<b" } },
            "spec": kind.spec(),
        });
        object["spec"]["selector"] = json!({ "matchLabels": { "app": "web" } });
        object["spec"]["template"] = template(image);
        let object = serde_json::from_value(object).expect("a manifest is an object");
        api.create(&PostParams::default(), &object).await.expect("a workload must be made");
        let records = Api::namespaced_with(client.clone(), namespace, &kind.records());
        Self { kind, api, records, pods: Api::namespaced(client.clone(), namespace) }
    }

    async fn patch(&self, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api.patch("web", &PatchParams::default(), &patch).await.expect("a workload must be patched");
    }

    async fn set_image(&self, image: &str) {
        let patch = json!({ "spec": { "template": template(image) } });
        self.patch(patch).await;
    }

    /// Waits until the status describes the current generation and has these fields.
    async fn reports(&self, fields: &Value) {
        let expected = fields.as_object().expect("the fields of a status are an object");
        let mut last = Value::Null;
        let wait = async {
            loop {
                let object = self.api.get("web").await.expect("the workload must be there");
                last = object.data["status"].clone();
                let field = |name: &str| last.get(name).cloned().unwrap_or(json!(0));
                let observed = field("observedGeneration") == json!(object.metadata.generation);
                if observed && expected.iter().all(|(name, value)| field(name) == *value) {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(patience(), wait).await.is_err() {
            panic!("waited in vain: the {:?} reports {fields}; it reports {last}", self.kind);
        }
    }

    /// Makes the running manager sync the workload twice, by changes of its spec that ask for nothing.
    async fn is_looked_at(&self, limits: [i32; 2]) {
        for limit in limits {
            self.patch(json!({ "spec": { "revisionHistoryLimit": limit } })).await;
            self.reports(&json!({})).await;
        }
    }

    /// The uids and versions of the workload's pods and of the records of its templates, by name.
    async fn versions(&self) -> BTreeMap<String, (Option<String>, Option<String>)> {
        let pods = self.pods.list(&ListParams::default()).await.expect("pods must be listed").items;
        let records = self.records.list(&ListParams::default()).await.expect("records must be listed").items;
        let metadata =
            pods.into_iter().map(|pod| pod.metadata).chain(records.into_iter().map(|record| record.metadata));
        metadata.map(|meta| (meta.name.unwrap_or_default(), (meta.uid, meta.resource_version))).collect()
    }

    /// The parts of ReplicaSets and revisions that both managers must make alike: names, labels and data.
    async fn names(&self) -> BTreeMap<String, (Value, Value)> {
        let records = self.records.list(&ListParams::default()).await.expect("records must be listed").items;
        let named = |record: DynamicObject| {
            let labels = json!(record.metadata.labels);
            let annotations = json!(record.metadata.annotations);
            let data = record.data.get("data").cloned().unwrap_or_default();
            let shown = json!({ "labels": labels, "annotations": annotations });
            (record.metadata.name.unwrap_or_default(), (shown, data))
        };
        records.into_iter().map(named).collect()
    }

    /// The labels of the pods that tell their templates.
    async fn pod_hashes(&self) -> BTreeSet<String> {
        let pods = self.pods.list(&ListParams::default()).await.expect("pods must be listed").items;
        let labels =
            pods.into_iter().filter(is_active).flat_map(|pod| pod.metadata.labels.unwrap_or_default());
        let hash = |(key, value): (String, String)| key.ends_with("-hash").then_some(value);
        labels.filter_map(hash).collect()
    }
}

/// Plays the kubelet of all pods with some images: they become ready.
struct Kubelet {
    ready: Arc<Mutex<BTreeSet<String>>>,
    _tasks: JoinSet<()>,
}

impl Kubelet {
    fn start(client: &kube::Client) -> Self {
        let ready = Arc::<Mutex<BTreeSet<String>>>::default();
        let (images, client) = (Arc::clone(&ready), client.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await;
                let starts = |pod: &Pod| {
                    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                    let image = pod.spec.as_ref().and_then(|spec| spec.containers[0].image.as_deref());
                    is_active(pod)
                        && phase != Some("Running")
                        && image.is_some_and(|image| images.lock().contains(image))
                };
                for pod in pods.into_iter().flatten().filter(starts) {
                    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
                    let condition =
                        json!({ "type": "Ready", "status": "True", "lastTransitionTime": Time::now() });
                    let status = json!({ "status": { "phase": "Running", "conditions": [condition] } });
                    // The pod may be gone by now.
                    let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
                    let patch = Patch::Merge(status);
                    let _ = pods.patch_status(&name_of(&pod), &PatchParams::default(), &patch).await;
                }
                sleep(Duration::from_millis(50)).await;
            }
        });
        Self { ready, _tasks: tasks }
    }

    /// Pods with this image become ready from now on.
    fn starts(&self, image: &str) {
        self.ready.lock().insert(image.to_owned());
    }
}

/// Starts one of the two managers between which a workload is handed over.
pub(super) type Start<'a> = &'a dyn Fn(&Path, &[&str]) -> Manager;

/// Holds a rollout that `first` has begun, hands it to `second` and back, and lets `second` end it. Neither may change a pod, a
/// ReplicaSet or a revision that it finds, and both must give the same names to what they make.
pub(super) async fn hand_over(cluster: &Cluster, kind: Kind, first: Start<'_>, second: Start<'_>) {
    let (client, kubeconfig) = (cluster.client(), cluster.kubeconfig());
    if kind == Kind::DaemonSet {
        for name in ["node-1", "node-2", "node-3"] {
            let node = serde_json::from_value(json!({ "metadata": { "name": name } })).expect("it is a node");
            let nodes = Api::<Node>::all(client.clone());
            nodes.create(&PostParams::default(), &node).await.expect("a node must be made");
        }
    }
    let kubelet = Kubelet::start(&client);
    kubelet.starts("one");
    let flags = [kind.controllers()];

    let mut manager = first(&kubeconfig, &flags);
    let workload = Workload::create(&client, &cluster.namespace, kind, "one").await;
    workload.reports(&kind.done()).await;
    let original = workload.names().await;
    workload.set_image("two").await;
    workload.reports(&kind.held()).await;
    let (held, names) = (workload.versions().await, workload.names().await);
    assert_eq!((original.len(), names.len()), (1, 2), "{names:?}");
    manager.stop().await;

    manager = second(&kubeconfig, &flags);
    workload.is_looked_at([9, 8]).await;
    assert_eq!(workload.versions().await, held, "the second manager changed what the first left");
    let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "generateName": "twin-" } }))
        .expect("it is a namespace");
    let namespaces = Api::<Namespace>::all(client.clone());
    let made = namespaces.create(&PostParams::default(), &namespace).await.expect("a namespace must be made");
    let twin = Workload::create(&client, &made.metadata.name.expect("it has a name"), kind, "one").await;
    twin.reports(&kind.done()).await;
    assert_eq!(same(&twin.names().await), same(&original), "both managers make the same of a template");
    manager.stop().await;

    manager = first(&kubeconfig, &flags);
    workload.is_looked_at([7, 6]).await;
    assert_eq!(workload.versions().await, held, "the first manager changed what the second left");
    manager.stop().await;

    manager = second(&kubeconfig, &flags);
    kubelet.starts("two");
    workload.reports(&kind.done()).await;
    ended(&workload, &names, 1).await;

    // A template that was there before has its ReplicaSet or revision still, whoever made it.
    manager.stop().await;
    let _manager = first(&kubeconfig, &flags);
    workload.set_image("one").await;
    workload.reports(&kind.done()).await;
    ended(&workload, &names, 1).await;
}

/// Waits until the pods have `templates` different templates, and checks that these have the records of `names` and no others.
async fn ended(workload: &Workload, names: &BTreeMap<String, (Value, Value)>, templates: usize) {
    eventually("all pods have one template", || async {
        (workload.pod_hashes().await.len() == templates).then_some(())
    })
    .await;
    let now = workload.names().await;
    assert_eq!(
        now.keys().collect::<Vec<_>>(),
        names.keys().collect::<Vec<_>>(),
        "no record was made or lost"
    );
    for (name, (_, data)) in &now {
        assert_eq!(*data, names[name].1, "{name}");
    }
}

/// What of the records of templates does not depend on the moment.
fn same(names: &BTreeMap<String, (Value, Value)>) -> Vec<(&String, &Value, &Value)> {
    names.iter().map(|(name, (shown, data))| (name, &shown["labels"], data)).collect()
}
