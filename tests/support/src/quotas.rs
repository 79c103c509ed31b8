//! ResourceQuotas, and objects of any kind that they count.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use steersman_api::Quantity;
use steersman_testing::pod;

use super::eventually;

/// A ResourceQuota at the API server.
#[derive(Clone)]
pub struct Quota {
    pub name: String,
    pub api: Api<ResourceQuota>,
}

/// Amounts by name, which compare by value.
pub type Amounts = BTreeMap<String, Quantity>;

/// The amounts of an object such as `{"cpu": "1"}`.
pub fn amounts(list: &Value) -> Amounts {
    let all = list.as_object().into_iter().flatten();
    let parsed =
        |amount: &Value| amount.as_str().and_then(|text| text.parse().ok()).expect("it is a quantity");
    all.map(|(name, amount)| (name.clone(), parsed(amount))).collect()
}

impl Quota {
    /// Creates one with these limits.
    pub async fn create(client: &kube::Client, name: &str, hard: Value) -> Self {
        Self::create_from(client, name, json!({ "hard": hard })).await
    }

    /// Creates one with this spec.
    pub async fn create_from(client: &kube::Client, name: &str, spec: Value) -> Self {
        let api = Api::<ResourceQuota>::default_namespaced(client.clone());
        let quota = json!({ "metadata": { "name": name }, "spec": spec });
        let quota = serde_json::from_value(quota).expect("it is a quota");
        api.create(&PostParams::default(), &quota).await.expect("a quota must be made");
        Self { name: name.to_owned(), api }
    }

    /// The quota's status as JSON.
    pub async fn status(&self) -> Value {
        let quota = self.api.get(&self.name).await.expect("the quota must be there");
        serde_json::to_value(quota.status).expect("a status is JSON")
    }

    /// The quota's version.
    pub async fn version(&self) -> String {
        let quota = self.api.get(&self.name).await.expect("the quota must be there");
        quota.metadata.resource_version.expect("an object has a version")
    }

    /// Waits until the quota says that this is used, and nothing else.
    pub async fn uses(&self, expected: Value) {
        let wanted = amounts(&expected);
        let what = format!("{} uses {expected}", self.name);
        eventually(&what, || async { (amounts(&self.status().await["used"]) == wanted).then_some(()) }).await;
    }

    /// Applies a merge patch to the quota.
    pub async fn patch(&self, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api.patch(&self.name, &PatchParams::default(), &patch).await.expect("a quota must be patched");
    }

    /// Applies a merge patch to the quota's status. The manager may write the status at the same time.
    pub async fn patch_status(&self, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let patched = self.api.patch_status(&self.name, &PatchParams::default(), &patch).await;
        patched.expect("a quota's status must be patched");
    }

    /// Deletes the quota.
    pub async fn delete(&self) {
        self.api.delete(&self.name, &DeleteParams::default()).await.expect("a quota must be deleted");
    }
}

/// The objects of a kind, by `group/version/Kind` or `version/Kind`, in the test's namespace.
pub fn objects(client: &kube::Client, kind: &str) -> Api<DynamicObject> {
    Api::default_namespaced_with(client.clone(), &resource(kind))
}

/// The objects of a kind that belongs to no namespace.
pub fn cluster_objects(client: &kube::Client, kind: &str) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(kind))
}

fn resource(kind: &str) -> ApiResource {
    let parts: Vec<&str> = kind.split('/').collect();
    let kind = match parts[..] {
        [version, kind] => GroupVersionKind::gvk("", version, kind),
        [group, version, kind] => GroupVersionKind::gvk(group, version, kind),
        _ => panic!("{kind} is no kind"),
    };
    ApiResource::from_gvk(&kind)
}

/// An object with a name and these members.
pub fn named(name: &str, members: Value) -> DynamicObject {
    let mut object = members;
    object["metadata"]["name"] = name.into();
    serde_json::from_value(object).expect("it is an object")
}

/// Creates an object as soon as the API server admits it: it may not know of a change of a quota yet.
pub async fn create(api: &Api<DynamicObject>, name: &str, members: Value) -> DynamicObject {
    let object = named(name, members);
    eventually(&format!("{name} is made"), || async {
        match api.create(&PostParams::default(), &object).await {
            Ok(created) => Some(created),
            Err(kube::Error::Api(status)) if status.code == 403 || status.code == 404 => None,
            Err(error) => panic!("{name}: {error}"),
        }
    })
    .await
}

/// Why the API server refuses to create an object.
pub async fn refusal(api: &Api<DynamicObject>, name: &str, members: Value) -> String {
    match api.create(&PostParams::default(), &named(name, members)).await {
        Err(kube::Error::Api(status)) if status.code == 403 => status.message,
        other => panic!("{name} is not forbidden: {other:?}"),
    }
}

/// Deletes an object at once, without the finalizers that no controller here takes off.
pub async fn delete(api: &Api<DynamicObject>, name: &str) {
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    api.patch(name, &PatchParams::default(), &free).await.expect("the object must be there");
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::background() };
    api.delete(name, &now).await.expect("the object must be deleted");
}

/// A pod with one container that asks for this. [`create`] names it.
pub fn asking_pod(requests: Value, limits: Value) -> Value {
    let resources = json!({ "requests": requests, "limits": limits });
    let containers = json!([{ "name": "c", "image": "i", "resources": resources }]);
    pod("").spec(json!({ "automountServiceAccountToken": false, "containers": containers })).build()
}
