//! Jobs, and a kubelet's part in them: who marks their pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube_runtime::wait::await_condition;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::patience;

/// A Job of one container.
pub fn job(name: &str, spec: Value) -> Job {
    let mut job = json!({
        "metadata": { "name": name },
        "spec": { "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "main", "image": "busybox" }],
        } } },
    });
    for (field, value) in spec.as_object().expect("a spec is an object") {
        job["spec"][field] = value.clone();
    }
    serde_json::from_value(job).expect("it is a job")
}

/// Creates it.
pub async fn create(client: &kube::Client, job: &Job) -> Job {
    let jobs = Api::<Job>::default_namespaced(client.clone());
    jobs.create(&PostParams::default(), job).await.expect("a job must be made")
}

/// Waits until a Job has that condition.
///
/// # Panics
/// If it does not within [`patience`].
pub async fn wait_for(client: &kube::Client, name: &str, condition: &str) -> Job {
    let jobs = Api::<Job>::default_namespaced(client.clone());
    let holds = |job: Option<&Job>| job.is_some_and(|job| has_condition(job, condition));
    match timeout(patience(), await_condition(jobs, name, holds)).await {
        Ok(Ok(Some(job))) => job,
        Ok(ended) => panic!("job {name} is not {condition}: {ended:?}"),
        Err(_) => panic!("waited for {:?} in vain: job {name} is {condition}", patience()),
    }
}

/// Whether it has that condition.
pub fn has_condition(job: &Job, condition: &str) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == condition && c.status == "True")
}

/// The pods of a namespace.
pub async fn pods(client: &kube::Client) -> Vec<Pod> {
    let pods = Api::<Pod>::default_namespaced(client.clone());
    pods.list(&ListParams::default()).await.expect("pods must be listed").items
}

/// Marks a pod's phase as a kubelet does, with its container's end.
///
/// # Errors
/// The API server refuses the change, or the pod is gone.
pub async fn mark(client: &kube::Client, name: &str, phase: &str) -> Result<Pod, kube::Error> {
    mark_end(client, name, phase, i32::from(phase == "Failed")).await
}

/// Lets a pod's container fail with that exit code, as a kubelet reports it.
pub async fn end(client: &kube::Client, name: &str, code: i32) -> Pod {
    mark_end(client, name, "Failed", code).await.expect("a pod must fail")
}

async fn mark_end(client: &kube::Client, name: &str, phase: &str, code: i32) -> Result<Pod, kube::Error> {
    let now = steersman_api::Time::now();
    let ended = json!({ "exitCode": code, "startedAt": now, "finishedAt": now, "containerID": "test://1" });
    let status = json!({ "status": {
        "phase": phase, "startTime": now,
        "containerStatuses": [{
            "name": "main", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": ended },
        }],
    } });
    let pods = Api::<Pod>::default_namespaced(client.clone());
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await
}

/// Ends every pod of a namespace soon after it appears, and remembers how often each was ended.
pub struct Kubelet {
    ended: Arc<Mutex<BTreeMap<String, String>>>,
    _tasks: JoinSet<()>,
}

impl Kubelet {
    /// One that ends each pod with the phase that `outcome` says.
    pub fn start(client: kube::Client, outcome: impl Fn(&Pod) -> &'static str + Send + 'static) -> Self {
        let ended = Arc::<Mutex<BTreeMap<String, String>>>::default();
        let mut tasks = JoinSet::new();
        let record = Arc::clone(&ended);
        tasks.spawn(async move {
            loop {
                let pods = Api::<Pod>::default_namespaced(client.clone());
                let Ok(events) = pods.watch(&WatchParams::default(), "0").await else {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    continue;
                };
                let mut events = std::pin::pin!(events);
                while let Some(Ok(event)) = events.next().await {
                    let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
                    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                    if matches!(phase, Some("Succeeded" | "Failed"))
                        || pod.metadata.deletion_timestamp.is_some()
                    {
                        continue;
                    }
                    let name = pod.metadata.name.clone().expect("a pod has a name");
                    let outcome = outcome(&pod);
                    if mark(&client, &name, outcome).await.is_ok() {
                        let index = index(&pod).unwrap_or_default();
                        record.lock().insert(name, format!("{index} {outcome}"));
                    }
                }
            }
        });
        Self { ended, _tasks: tasks }
    }

    /// For each pod that was ended: its completion index and its end.
    pub fn ended(&self) -> Vec<String> {
        self.ended.lock().values().cloned().collect()
    }
}

/// A pod's completion index.
pub fn index(pod: &Pod) -> Option<String> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get("batch.kubernetes.io/job-completion-index").cloned()
}
