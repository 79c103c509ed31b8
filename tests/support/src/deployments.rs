//! Deployments and their ReplicaSets, and a kubelet's part in a rollout: making pods available.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::replicas::{image_of, is_active, is_ready, mark, name_of};
use super::{eventually, patience};

/// The image of pods that never become available.
pub const BROKEN: &str = "broken";

/// A Deployment as JSON. Its pods have the label `app` with the name as value, by which it selects them.
pub fn manifest(name: &str, replicas: i32, image: &str) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "main", "image": image }] },
            },
        },
    })
}

/// A Deployment at the API server.
#[derive(Clone)]
pub struct Rollout {
    pub name: String,
    pub uid: String,
    pub api: Api<Deployment>,
    pub sets: Api<ReplicaSet>,
    pub pods: Api<Pod>,
    client: kube::Client,
}

impl Rollout {
    /// Creates a Deployment from a [manifest](manifest()).
    pub async fn create(client: &kube::Client, manifest: Value) -> Self {
        let api = Api::<Deployment>::default_namespaced(client.clone());
        let object = serde_json::from_value(manifest).expect("it is a Deployment");
        let created = api.create(&PostParams::default(), &object).await.expect("a Deployment must be made");
        Self {
            name: created.metadata.name.expect("a created object has a name"),
            uid: created.metadata.uid.expect("a created object has a uid"),
            api,
            sets: Api::default_namespaced(client.clone()),
            pods: Api::default_namespaced(client.clone()),
            client: client.clone(),
        }
    }

    /// The Deployment's current state, as JSON.
    pub async fn get(&self) -> Value {
        let deployment = self.api.get(&self.name).await.expect("the Deployment must be there");
        serde_json::to_value(deployment).expect("an object is JSON")
    }

    /// Applies a merge patch to the Deployment.
    pub async fn patch(&self, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api.patch(&self.name, &PatchParams::default(), &patch).await.expect("it must be patched");
    }

    /// Gives the pods another image, and so begins a rollout.
    pub async fn roll_to(&self, image: &str) {
        let containers = json!([{ "name": "main", "image": image }]);
        self.patch(json!({ "spec": { "template": { "spec": { "containers": containers } } } })).await;
    }

    /// Sets the wanted number of pods.
    pub async fn scale(&self, replicas: i32) {
        self.patch(json!({ "spec": { "replicas": replicas } })).await;
    }

    /// The ReplicaSets that the Deployment owns, by the image of their pods.
    pub async fn sets(&self) -> BTreeMap<String, Value> {
        let sets = self.sets.list(&ListParams::default()).await.expect("ReplicaSets must be listed").items;
        let owned = sets.into_iter().map(|set| serde_json::to_value(set).expect("an object is JSON"));
        let owned = owned.filter(|set| set["metadata"]["ownerReferences"][0]["uid"] == self.uid.as_str());
        let image = |set: &Value| set["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        owned.map(|set| (image(&set).as_str().unwrap_or_default().to_owned(), set)).collect()
    }

    /// Waits until the ReplicaSets of these images, and no others with pods, want these numbers of pods.
    pub async fn has_sets(&self, expected: &[(&str, i64)]) -> BTreeMap<String, Value> {
        let mut last = BTreeMap::new();
        let wait = async {
            loop {
                let sets = self.sets().await;
                let size = |set: &Value| set["spec"]["replicas"].as_i64().unwrap_or(1);
                last = sets.iter().map(|(image, set)| (image.clone(), size(set))).collect();
                let found: BTreeMap<&str, i64> =
                    last.iter().map(|(image, size)| (image.as_str(), *size)).collect();
                if found == expected.iter().copied().collect() {
                    return sets;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(patience(), wait).await.unwrap_or_else(|_| {
            panic!("waited in vain: {} has ReplicaSets {expected:?}; it has {last:?}", self.name)
        })
    }

    /// All pods of the Deployment that are neither finished nor being deleted.
    pub async fn active(&self) -> Vec<Pod> {
        let params = ListParams::default().labels(&format!("app={}", self.name));
        let mut pods = self.pods.list(&params).await.expect("pods must be listed").items;
        pods.retain(is_active);
        pods
    }

    /// Waits until the status describes the current generation and has these fields. A field that is absent counts as zero.
    pub async fn reports(&self, fields: Value) -> Value {
        let expected = fields.as_object().expect("the fields of a status are an object");
        let mut last = Value::Null;
        let wait = async {
            loop {
                let deployment = self.get().await;
                last = deployment["status"].clone();
                let field = |name: &str| last.get(name).cloned().unwrap_or(json!(0));
                let observed = field("observedGeneration") == deployment["metadata"]["generation"];
                if observed && expected.iter().all(|(name, value)| field(name) == *value) {
                    return deployment;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let reported = timeout(patience(), wait).await.ok();
        reported.unwrap_or_else(|| {
            panic!("waited in vain: {} reports {fields}; it reports {last}", self.name);
        })
    }

    /// Waits until all of so many pods are updated and available, and no others are there.
    pub async fn complete(&self, replicas: i32) -> Value {
        self.reports(json!({
            "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
            "availableReplicas": replicas, "unavailableReplicas": 0,
        }))
        .await
    }

    /// Waits until a condition has this reason.
    pub async fn condition(&self, kind: &str, reason: &str) -> Value {
        let what = format!("{} has the condition {kind} for the reason {reason}", self.name);
        eventually(&what, || async {
            let deployment = self.get().await;
            condition(&deployment, kind).filter(|condition| condition["reason"] == reason)
        })
        .await
    }

    /// Waits for an event about the Deployment with this reason and message, and gives it.
    pub async fn event(&self, reason: &str, message: &str) -> Event {
        let events = Api::<Event>::default_namespaced(self.client.clone());
        eventually(&format!("{} has the event {reason}: {message}", self.name), || async {
            let events = events.list(&ListParams::default()).await.ok()?.items;
            events.into_iter().find(|event| {
                event.involved_object.uid.as_ref() == Some(&self.uid)
                    && event.reason.as_deref() == Some(reason)
                    && event.message.as_deref() == Some(message)
            })
        })
        .await
    }

    /// The names and versions of the Deployment, its ReplicaSets and their pods.
    pub async fn versions(&self) -> BTreeSet<(String, String)> {
        let version = |object: &Value| {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            (text("name"), text("resourceVersion"))
        };
        let mut versions = BTreeSet::from([version(&self.get().await)]);
        versions.extend(self.sets().await.values().map(version));
        for pod in self.active().await {
            versions.insert(version(&serde_json::to_value(pod).expect("an object is JSON")));
        }
        versions
    }
}

/// A condition of a Deployment in JSON.
pub fn condition(deployment: &Value, kind: &str) -> Option<Value> {
    let conditions = deployment["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind).cloned()
}

/// Makes pods available whose image is not [`BROKEN`], and counts them while they come and go. It stops when this is dropped.
pub struct Kubelet {
    seen: Arc<Mutex<Count>>,
    _tasks: JoinSet<()>,
}

/// The numbers of pods that a kubelet has seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The greatest number of active pods.
    pub most: usize,
    /// The least number of available pods.
    pub least_available: usize,
}

const NONE: Seen = Seen { most: 0, least_available: usize::MAX };

/// What was seen since a test last asked.
struct Count {
    /// How often the test has asked. A list that was begun before does not count any more.
    asked: u64,
    seen: Seen,
}

impl Kubelet {
    /// Looks after the pods of the client's namespace.
    pub fn start(client: &kube::Client) -> Self {
        let pods = Api::<Pod>::default_namespaced(client.clone());
        let seen = Arc::new(Mutex::new(Count { asked: 0, seen: NONE }));
        let (mut tasks, counted) = (JoinSet::new(), Arc::clone(&seen));
        tasks.spawn(async move {
            loop {
                let asked = counted.lock().asked;
                // A list that failed shows nothing, and above all not that there are no pods.
                let Ok(listed) = pods.list(&ListParams::default()).await else {
                    sleep(Duration::from_millis(10)).await;
                    continue;
                };
                let active: Vec<&Pod> = listed.items.iter().filter(|pod| is_active(pod)).collect();
                let (ready, waiting): (Vec<&Pod>, Vec<&Pod>) = active.iter().partition(|pod| is_ready(pod));
                {
                    let mut count = counted.lock();
                    if count.asked == asked {
                        count.seen.most = count.seen.most.max(active.len());
                        count.seen.least_available = count.seen.least_available.min(ready.len());
                    }
                }
                for pod in waiting.into_iter().filter(|pod| image_of(pod) != BROKEN) {
                    let condition = json!({
                        "type": "Ready", "status": "True", "lastTransitionTime": steersman_api::Time::now(),
                    });
                    let status = json!({ "status": { "phase": "Running", "conditions": [condition] } });
                    // The pod may be gone.
                    let patch = Patch::Merge(status);
                    let _ = pods.patch_status(&name_of(pod), &PatchParams::default(), &patch).await;
                }
                sleep(Duration::from_millis(10)).await;
            }
        });
        Self { seen, _tasks: tasks }
    }

    /// What was seen since the last call.
    pub fn seen(&self) -> Seen {
        let mut count = self.seen.lock();
        count.asked += 1;
        std::mem::replace(&mut count.seen, NONE)
    }
}

/// Ends a pod that is being deleted, as its kubelet does.
pub async fn end(pods: &Api<Pod>, pod: &str) {
    pods.delete(pod, &DeleteParams::default().grace_period(0)).await.expect("a pod must be deleted");
}

/// Marks a pod as running and ready.
pub async fn make_ready(pods: &Api<Pod>, pod: &str) {
    mark(pods, pod, "Running", "True", &steersman_api::Time::now()).await;
}
