//! PodDisruptionBudgets and evictions.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{eventually, patience};

/// A PodDisruptionBudget at the API server.
#[derive(Clone)]
pub struct Budget {
    pub name: String,
    pub uid: String,
    pub api: Api<DynamicObject>,
    client: kube::Client,
}

/// A refused eviction.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status code.
    pub code: u16,
    /// The message of the cause, or of the whole answer if it has no cause.
    pub why: String,
}

impl Budget {
    /// Creates one with this bound, such as `{"minAvailable": 2}`, of the pods with the value `app` of the label `app`.
    pub async fn create(client: &kube::Client, name: &str, app: &str, bound: Value) -> Self {
        let mut spec = bound;
        spec["selector"] = json!({ "matchLabels": { "app": app } });
        Self::create_from(client, name, spec).await
    }

    /// Creates one with this spec.
    pub async fn create_from(client: &kube::Client, name: &str, spec: Value) -> Self {
        let resource = ApiResource {
            group: "policy".to_owned(),
            version: "v1".to_owned(),
            api_version: "policy/v1".to_owned(),
            kind: "PodDisruptionBudget".to_owned(),
            plural: "poddisruptionbudgets".to_owned(),
        };
        let api = Api::<DynamicObject>::default_namespaced_with(client.clone(), &resource);
        let manifest = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": name }, "spec": spec,
        });
        let manifest = serde_json::from_value(manifest).expect("it is an object");
        let created = api.create(&PostParams::default(), &manifest).await.expect("a budget must be made");
        let uid = created.metadata.uid.expect("a created object has a uid");
        Self { name: name.to_owned(), uid, api, client: client.clone() }
    }

    /// The budget's current state.
    pub async fn get(&self) -> DynamicObject {
        self.api.get(&self.name).await.expect("the budget must be there")
    }

    /// Applies a merge patch to the budget.
    pub async fn patch(&self, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api.patch(&self.name, &PatchParams::default(), &patch).await.expect("a budget must be patched");
    }

    /// Applies a merge patch to the budget's status.
    pub async fn patch_status(&self, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let patched = self.api.patch_status(&self.name, &PatchParams::default(), &patch).await;
        patched.expect("a budget's status must be patched");
    }

    /// Deletes the budget.
    pub async fn delete(&self) {
        self.api.delete(&self.name, &DeleteParams::default()).await.expect("a budget must be deleted");
    }

    /// Waits until the status describes the current generation, allows `allowed` disruptions, and counts that many healthy,
    /// desired and expected pods.
    pub async fn reports(&self, numbers: [i64; 4]) -> DynamicObject {
        let [allowed, healthy, desired, expected] = numbers;
        let fields = json!({
            "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
            "expectedPods": expected,
        });
        self.shows(&fields.to_string(), |budget| {
            let status = &budget.data["status"];
            let is_said = |(name, value): (&String, &Value)| status[name] == *value;
            status["observedGeneration"] == json!(budget.metadata.generation)
                && fields.as_object().expect("it is one").iter().all(is_said)
        })
        .await
    }

    /// Waits until the budget is as `condition` wants it.
    pub async fn shows(&self, what: &str, condition: impl Fn(&DynamicObject) -> bool) -> DynamicObject {
        let mut last = Value::Null;
        let wait = async {
            loop {
                let budget = self.get().await;
                if condition(&budget) {
                    return budget;
                }
                last = budget.data["status"].clone();
                sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        let shown = timeout(patience(), wait).await.ok();
        shown.unwrap_or_else(|| panic!("waited in vain: budget {} shows {what}; it shows {last}", self.name))
    }

    /// Waits until the condition `DisruptionAllowed` has this status and reason, and gives its message.
    pub async fn says(&self, status: &str, reason: &str) -> String {
        let said = |budget: &DynamicObject| {
            let found = condition(budget);
            found["status"] == status && found["reason"] == reason
        };
        let budget = self.shows(&format!("{status} {reason}"), said).await;
        condition(&budget)["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits for an event about the budget with this reason, and gives it.
    pub async fn event(&self, reason: &str) -> Event {
        event(&self.client, &self.uid, reason).await
    }
}

/// The condition `DisruptionAllowed`; null if the budget has none.
pub fn condition(budget: &DynamicObject) -> Value {
    let conditions = budget.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == "DisruptionAllowed");
    found.unwrap_or_default()
}

/// Waits for an event about the object of that uid with this reason, and gives it.
pub async fn event(client: &kube::Client, uid: &str, reason: &str) -> Event {
    let events = Api::<Event>::default_namespaced(client.clone());
    eventually(&format!("an event {reason} about {uid}"), || async {
        let events = events.list(&ListParams::default()).await.ok()?.items;
        events.into_iter().find(|event| {
            event.involved_object.uid.as_deref() == Some(uid) && event.reason.as_deref() == Some(reason)
        })
    })
    .await
}

/// Asks for a pod's eviction, once.
pub async fn evict(pods: &Api<Pod>, pod: &str) -> Result<(), Refusal> {
    match pods.evict(pod, &EvictParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => {
            let cause = status.details.as_ref().and_then(|details| details.causes.first());
            let why = cause.map_or(&status.message, |cause| &cause.message).clone();
            Err(Refusal { code: status.code, why })
        }
        Err(error) => panic!("the API server must answer an eviction: {error}"),
    }
}
