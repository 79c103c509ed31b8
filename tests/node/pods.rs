//! Pods of one test: made on the node, waited for, looked into.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::world::World;
use support::{eventually, patience};

/// The image that the runtime holds.
pub const IMAGE: &str = "docker.io/library/busybox:1.36";

/// Runs until it is asked to end, and then ends at once.
pub const STAY: &str = "trap 'exit 0' TERM; while true; do sleep 0.1; done";

/// The pods of a namespace that no other test uses.
#[derive(Clone)]
pub struct Pods {
    pub world: Arc<World>,
    pub namespace: String,
    client: kube::Client,
}

impl Pods {
    pub async fn new(world: &Arc<World>) -> Self {
        let namespaces = Api::<Namespace>::all(world.client("default"));
        let namespace = json!({ "metadata": { "generateName": format!("{}-", world.prefix) } });
        let namespace = serde_json::from_value(namespace).expect("it is a namespace");
        let made =
            namespaces.create(&PostParams::default(), &namespace).await.expect("a namespace must be made");
        let namespace = made.metadata.name.expect("a created object has a name");
        Self { client: world.client(&namespace), world: Arc::clone(world), namespace }
    }

    /// The objects of a kind in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::default_namespaced(self.client.clone())
    }

    /// Makes an object.
    pub async fn make<K>(&self, object: Value) -> K
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
    {
        let object: K = serde_json::from_value(object).expect("it is an object of that kind");
        self.api::<K>().create(&PostParams::default(), &object).await.expect("an object must be made")
    }

    /// Makes a pod of the node; what `spec` does not say is: never restarted, a second of grace, no token. Containers have the
    /// image that is there.
    pub async fn run(&self, name: &str, spec: Value) -> Pod {
        self.run_with(json!({ "name": name }), spec).await
    }

    /// The same with further metadata.
    pub async fn run_with(&self, metadata: Value, spec: Value) -> Pod {
        self.make(json!({ "metadata": metadata, "spec": self.spec(spec) })).await
    }

    /// The spec of a pod of the node.
    pub fn spec(&self, spec: Value) -> Value {
        let mut whole = json!({
            "nodeName": self.world.agent.node, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false, "tolerations": [{ "operator": "Exists" }],
        });
        for (field, value) in spec.as_object().expect("a spec is an object") {
            whole[field] = value.clone();
        }
        for list in ["containers", "initContainers"] {
            for container in whole[list].as_array_mut().into_iter().flatten() {
                let container = container.as_object_mut().expect("a container is an object");
                container.entry("name").or_insert_with(|| json!("main"));
                container.entry("image").or_insert_with(|| json!(IMAGE));
                container.entry("imagePullPolicy").or_insert_with(|| json!("Never"));
            }
        }
        whole
    }

    /// Runs a script in a pod whose container and pod have further fields, and returns what it printed when it has
    /// succeeded.
    pub async fn output(&self, script: &str, container: Value, mut spec: Value) -> String {
        let mut main = container;
        main["command"] = shell(script);
        spec["containers"] = json!([main]);
        let pod = self.run_with(json!({ "generateName": "says-" }), spec).await;
        let name = pod.metadata.name.expect("a created object has a name");
        let ended = self.phase(&name, &["Succeeded", "Failed"]).await;
        let log = self.log(&name).await;
        assert_eq!(phase_of(&ended), "Succeeded", "{log}\n{:?}", ended.status);
        log
    }

    pub async fn get(&self, name: &str) -> Option<Pod> {
        self.api::<Pod>().get_opt(name).await.expect("the API server must answer")
    }

    /// Waits until something is so of a pod that must be there.
    pub async fn wait<T>(&self, name: &str, what: &str, look: impl FnMut(&Pod) -> Option<T> + Send) -> T {
        let look = Mutex::new(look);
        eventually(&format!("pod {name}: {what}"), || async {
            let pod = self.get(name).await?;
            (*look.lock())(&pod)
        })
        .await
    }

    /// Waits until a pod has one of those phases.
    pub async fn phase(&self, name: &str, phases: &[&str]) -> Pod {
        let what = format!("it is {}", phases.join(" or "));
        self.wait(name, &what, |pod| phases.contains(&phase_of(pod)).then(|| pod.clone())).await
    }

    /// Waits until a pod is ready.
    pub async fn ready(&self, name: &str) -> Pod {
        self.wait(name, "it is ready", |pod| condition(pod, "Ready", "True").then(|| pod.clone())).await
    }

    /// Waits until a pod is gone from the API server.
    pub async fn gone(&self, name: &str) {
        eventually(&format!("pod {name} is gone"), || async { self.get(name).await.is_none().then_some(()) })
            .await;
    }

    /// Asks for a pod's end, with the grace it asks for itself.
    pub async fn delete(&self, name: &str) {
        let _ = self.api::<Pod>().delete(name, &DeleteParams::default()).await;
    }

    /// Asks for the end of all.
    pub async fn delete_all(&self) {
        let all = self.api::<Pod>().delete_collection(&DeleteParams::default(), &ListParams::default()).await;
        all.expect("pods must be deleted");
    }

    /// What a pod's only container printed.
    pub async fn log(&self, name: &str) -> String {
        self.api::<Pod>().logs(name, &LogParams::default()).await.expect("the log must be there")
    }

    /// Waits for an event of that reason, and returns its message.
    pub async fn event(&self, name: &str, reason: &str) -> String {
        let events = self.api::<Event>();
        eventually(&format!("pod {name} has an event {reason}"), || async {
            let all = events.list(&ListParams::default()).await.ok()?;
            let mut all = all.items.into_iter();
            let found = all.find(|event| {
                event.involved_object.name.as_deref() == Some(name) && event.reason.as_deref() == Some(reason)
            });
            found?.message
        })
        .await
    }

    /// kubectl with an administrator's rights in this namespace, to be run to its end.
    pub fn kubectl_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.world.kubectl);
        command.arg("--kubeconfig").arg(&self.world.kubeconfig).args(["--namespace", &self.namespace]);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs kubectl with that input, to its end, if that comes in time.
    pub async fn kubectl(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = self.kubectl_command(arguments);
        let (input, shown) = (input.to_owned(), arguments.join(" "));
        let whole = tokio::task::spawn_blocking(move || {
            let mut child = command.stdin(Stdio::piped()).spawn().expect("kubectl must start");
            let mut stdin = child.stdin.take().expect("it was asked for");
            // It may end without reading all.
            let _ = stdin.write_all(input.as_bytes());
            drop(stdin);
            child.wait_with_output().expect("its end can be waited for")
        });
        let whole = tokio::time::timeout(patience(), whole).await;
        whole.unwrap_or_else(|_| panic!("kubectl {shown} takes too long")).unwrap()
    }

    /// Runs kubectl, which must succeed, and returns what it printed.
    pub async fn kubectl_ok(&self, arguments: &[&str]) -> String {
        let output = self.kubectl(arguments, "").await;
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {}: {complaint}", arguments.join(" "));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a script in a pod's container.
    pub async fn exec(&self, name: &str, script: &str) -> String {
        self.kubectl_ok(&["exec", name, "--", "sh", "-c", script]).await
    }

    /// Prints what is known of the pods, for somebody who looks into a failure.
    pub async fn show(&self) {
        for pod in self.api::<Pod>().list(&ListParams::default()).await.into_iter().flatten() {
            let status = serde_json::to_string(&pod.status).unwrap_or_default();
            println!("pod {}: {status}", pod.metadata.name.unwrap_or_default());
        }
        for event in self.api::<Event>().list(&ListParams::default()).await.into_iter().flatten() {
            let name = event.involved_object.name.unwrap_or_default();
            let message = event.message.unwrap_or_default();
            println!("event of {name}: {}: {message}", event.reason.unwrap_or_default());
        }
    }
}

/// A command that is a script.
pub fn shell(script: &str) -> Value {
    json!(["sh", "-c", script])
}

/// A container that stays until it is asked to end.
pub fn staying() -> Value {
    json!({ "command": shell(STAY) })
}

pub fn phase_of(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub fn condition(pod: &Pod, kind: &str, status: &str) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == kind && condition.status == status)
}

/// The status of a container, of whatever kind.
pub fn container(pod: &Pod, name: &str) -> Option<ContainerStatus> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.into_iter().find(|container| container.name == name).cloned()
}

/// Why a container waits, and what it says of it.
pub fn waiting(pod: &Pod, name: &str) -> Option<(String, String)> {
    let waiting = container(pod, name)?.state?.waiting?;
    Some((waiting.reason?, waiting.message.unwrap_or_default()))
}
