//! What users of the cluster want, and whether they get it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::invariants::Invariants;
use crate::nodes::address;

/// Where they work.
pub(crate) const NAMESPACE: &str = "work";

/// Users with a Deployment behind a service, a StatefulSet, a DaemonSet and Indexed Jobs.
pub(crate) struct Users {
    client: kube::Client,
    random: StdRng,
    invariants: Arc<Invariants>,
    /// What they want now.
    web: (usize, String),
    db: (usize, String),
    agent: String,
    /// How many completions each Job has.
    jobs: BTreeMap<String, usize>,
}

/// A path in the users' namespace: `group/version/resource`.
fn path(resource: &str) -> String {
    match resource.rsplit_once('/') {
        Some((version, resource)) => format!("/apis/{version}/namespaces/{NAMESPACE}/{resource}"),
        None => format!("/api/v1/namespaces/{NAMESPACE}/{resource}"),
    }
}

const DEPLOYMENTS: &str = "apps/v1/deployments";
const REPLICA_SETS: &str = "apps/v1/replicasets";
const STATEFUL_SETS: &str = "apps/v1/statefulsets";
const DAEMON_SETS: &str = "apps/v1/daemonsets";
const JOBS: &str = "batch/v1/jobs";
const SLICES: &str = "discovery.k8s.io/v1/endpointslices";

impl Users {
    pub(crate) fn new(client: kube::Client, seed: u64, invariants: Arc<Invariants>) -> Self {
        Self {
            client,
            random: StdRng::seed_from_u64(seed),
            invariants,
            web: (6, "one".to_owned()),
            db: (3, "one".to_owned()),
            agent: "one".to_owned(),
            jobs: BTreeMap::new(),
        }
    }

    /// Sends a request until it is answered, which it is not while the server is away. 404 and 409 count as answers.
    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        for _ in 0..600 {
            let content =
                if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
            let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
            let request = Request::builder()
                .method(method.clone())
                .uri(path)
                .header("content-type", content)
                .body(bytes);
            match self.client.request::<Value>(request.expect("it is a request")).await {
                Ok(answer) => {
                    self.invariants.see(&answer);
                    return answer;
                }
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Value::Null,
                Err(kube::Error::Api(status)) if status.code < 500 && status.code != 429 => {
                    panic!("{method} {path}: {status:?}")
                }
                Err(_) => sleep(Duration::from_millis(500)).await,
            }
        }
        panic!("{method} {path}: there is no answer");
    }

    async fn create(&self, resource: &str, object: Value) {
        self.send(Method::POST, &path(resource), Some(&object)).await;
    }

    async fn patch(&self, resource: &str, name: &str, patch: Value) {
        self.send(Method::PATCH, &format!("{}/{name}", path(resource)), Some(&patch)).await;
    }

    async fn get(&self, resource: &str, name: &str) -> Value {
        self.send(Method::GET, &format!("{}/{name}", path(resource)), None).await
    }

    async fn list(&self, resource: &str, app: &str) -> Vec<Value> {
        let path = format!("{}?labelSelector=app%3D{app}", path(resource));
        self.send(Method::GET, &path, None).await["items"].as_array().cloned().unwrap_or_default()
    }

    /// Makes the first objects.
    pub(crate) async fn begin(&mut self) {
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        self.send(Method::POST, "/api/v1/namespaces", Some(&namespace)).await;
        let spec = |app: &str, more: Value| {
            let mut spec = json!({"selector": {"matchLabels": {"app": app}}, "template": template(app, "one", json!({}))});
            spec.as_object_mut()
                .expect("it is an object")
                .extend(more.as_object().expect("it is one").clone());
            json!({"metadata": {"name": app}, "spec": spec})
        };
        self.create(DEPLOYMENTS, spec("web", json!({"replicas": self.web.0}))).await;
        self.create(STATEFUL_SETS, spec("db", json!({"replicas": self.db.0, "serviceName": "db"}))).await;
        self.create(DAEMON_SETS, spec("agent", json!({}))).await;
        let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
        self.create("services", service).await;
        self.job().await;
    }

    async fn job(&mut self) {
        let name = format!("job-{}", self.jobs.len());
        let completions = self.random.random_range(3..10);
        let parallelism = self.random.random_range(1..5);
        let job = json!({
            "metadata": {"name": name},
            "spec": {
                "completions": completions, "parallelism": parallelism, "completionMode": "Indexed", "backoffLimit": 1000,
                "template": template(&name, "one", json!({"ends": ""})),
            },
        });
        self.create(JOBS, job).await;
        self.invariants
            .tell(format_args!("a user makes {name} of {completions} completions, {parallelism} at once"));
        self.jobs.insert(name, completions);
    }

    /// Waits for a while, and then does something.
    pub(crate) async fn act(&mut self) {
        sleep(Duration::from_secs_f64(self.random.random_range(0.1..30.0))).await;
        let image = format!("image-{}", self.random.random_range(0..1000));
        let template =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
        let what = match self.random.random_range(0..8) {
            0 => {
                self.web.1.clone_from(&image);
                self.patch(DEPLOYMENTS, "web", template).await;
                format!("rolls web to {image}")
            }
            1 => {
                self.web.0 = self.random.random_range(1..12);
                self.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": self.web.0}})).await;
                format!("scales web to {}", self.web.0)
            }
            2 => {
                self.db.1.clone_from(&image);
                self.patch(STATEFUL_SETS, "db", template).await;
                format!("rolls db to {image}")
            }
            3 => {
                self.db.0 = self.random.random_range(1..5);
                self.patch(STATEFUL_SETS, "db", json!({"spec": {"replicas": self.db.0}})).await;
                format!("scales db to {}", self.db.0)
            }
            4 => {
                self.agent.clone_from(&image);
                self.patch(DAEMON_SETS, "agent", template).await;
                format!("rolls agent to {image}")
            }
            5 => return self.job().await,
            _ => {
                let app = ["web", "db", "agent", "job-0"][self.random.random_range(0..4)];
                let pods = self.list("pods", app).await;
                if pods.is_empty() {
                    return;
                }
                let pod = &pods[self.random.random_range(0..pods.len())]["metadata"]["name"];
                let name = pod.as_str().expect("a pod has a name");
                self.send(Method::DELETE, &format!("{}/{name}", path("pods")), None).await;
                format!("deletes {name}")
            }
        };
        self.invariants.tell(format_args!("a user {what}"));
    }

    /// What is not yet as they want it.
    pub(crate) async fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut expect = |what: String, holds: bool| {
            if !holds {
                missing.push(what);
            }
        };
        for (resource, app, count, image, fields) in [
            (
                DEPLOYMENTS,
                "web",
                self.web.0,
                &self.web.1,
                &["replicas", "updatedReplicas", "availableReplicas"][..],
            ),
            (
                STATEFUL_SETS,
                "db",
                self.db.0,
                &self.db.1,
                &["replicas", "updatedReplicas", "availableReplicas"],
            ),
            (
                DAEMON_SETS,
                "agent",
                3,
                &self.agent,
                &["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"],
            ),
        ] {
            let object = self.get(resource, app).await;
            let is_seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let status: Vec<_> = fields.iter().map(|field| object["status"][field].as_u64()).collect();
            let is_complete = is_seen && status.iter().all(|found| *found == Some(count as u64));
            expect(format!("{app} is to have {count} pods: {}", object["status"]), is_complete);
            let pods = self.list("pods", app).await;
            let images: Vec<_> =
                pods.iter().map(|pod| pod["spec"]["containers"][0]["image"].as_str()).collect();
            let are_updated = images.len() == count && images.iter().all(|found| *found == Some(image));
            expect(format!("{app} is to have {count} pods of {image}: {images:?}"), are_updated);
        }
        let wanting: Vec<_> = self.list(REPLICA_SETS, "web").await;
        let wanting = wanting.iter().filter(|set| set["spec"]["replicas"] != 0).count();
        expect(format!("one ReplicaSet of web has pods, and not {wanting}"), wanting == 1);
        for (name, completions) in &self.jobs {
            let status = self.get(JOBS, name).await["status"].clone();
            let indexes = if *completions == 1 { "0".to_owned() } else { format!("0-{}", completions - 1) };
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let is_complete =
                conditions.iter().any(|found| found["type"] == "Complete" && found["status"] == "True");
            let is_counted =
                status["succeeded"] == *completions && status["completedIndexes"] == indexes.as_str();
            expect(format!("{name} is to be complete: {status}"), is_complete && is_counted);
        }
        let addresses: BTreeSet<String> = self
            .list("pods", "web")
            .await
            .iter()
            .filter_map(|pod| pod["metadata"]["uid"].as_str().map(address))
            .collect();
        let path = format!("{}?labelSelector=kubernetes.io%2Fservice-name%3Dweb", path(SLICES));
        let slices = self.send(Method::GET, &path, None).await;
        let endpoints = slices["items"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
        let ready: Vec<String> = endpoints
            .filter(|endpoint| endpoint["conditions"]["ready"] == true)
            .filter_map(|endpoint| Some(endpoint["addresses"][0].as_str()?.to_owned()))
            .collect();
        let are_all = ready.len() == addresses.len() && ready.iter().all(|ready| addresses.contains(ready));
        expect(format!("the service is to have {addresses:?}: {ready:?}"), are_all);
        missing
    }

    /// Deletes all that they have, with the namespace.
    pub(crate) async fn leave(&self) {
        self.send(Method::DELETE, &format!("/api/v1/namespaces/{NAMESPACE}"), None).await;
    }

    /// Whether the namespace is gone.
    pub(crate) async fn have_left(&self) -> bool {
        self.send(Method::GET, &format!("/api/v1/namespaces/{NAMESPACE}"), None).await.is_null()
    }

    /// The versions of all objects of a resource, by namespace and name.
    pub(crate) async fn versions(&self, path: &str) -> BTreeMap<(String, String), String> {
        let listed = self.send(Method::GET, path, None).await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = |object: &Value| {
            let meta = &object["metadata"];
            ((text(&meta["namespace"]), text(&meta["name"])), text(&meta["resourceVersion"]))
        };
        listed["items"].as_array().into_iter().flatten().map(version).collect()
    }
}

fn template(app: &str, image: &str, more: Value) -> Value {
    let mut labels = json!({"app": app});
    labels.as_object_mut().expect("it is an object").extend(more.as_object().expect("it is one").clone());
    json!({
        "metadata": {"labels": labels},
        "spec": {
            "restartPolicy": if labels["ends"].is_string() { "Never" } else { "Always" },
            "containers": [{"name": "main", "image": image}],
        },
    })
}
