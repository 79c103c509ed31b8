//! StatefulSets, and a kubelet's part in them: their pods start, become ready and end when a test says so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use steersman_api::Time;
use tokio::time::{sleep, timeout};

use super::replicas::{mark, name_of};
use super::{eventually, patience};

/// The label with the name of a pod's revision.
pub const REVISION: &str = "controller-revision-hash";

/// A StatefulSet as JSON. Its pods have the label `app` with the name as value, by which it selects them, and the name of an
/// image that tells their revision.
pub fn manifest(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "image:1" }] },
            },
        },
    })
}

/// The template of a claim, as a set's spec has it.
pub fn claim_template(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "kept": "yes" } },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    })
}

/// A StatefulSet at the API server.
#[derive(Clone)]
pub struct Set {
    pub name: String,
    pub uid: String,
    pub api: Api<StatefulSet>,
    pub pods: Api<Pod>,
    pub claims: Api<PersistentVolumeClaim>,
    pub revisions: Api<ControllerRevision>,
    events: Api<Event>,
}

impl Set {
    /// Creates one from a [manifest](manifest()).
    pub async fn create(client: &kube::Client, manifest: Value) -> Self {
        let api = Api::<StatefulSet>::default_namespaced(client.clone());
        let object = serde_json::from_value(manifest).expect("a manifest is a StatefulSet");
        let created = api.create(&PostParams::default(), &object).await.expect("a set must be made");
        Self {
            name: created.metadata.name.expect("a created object has a name"),
            uid: created.metadata.uid.expect("a created object has a uid"),
            api,
            pods: Api::default_namespaced(client.clone()),
            claims: Api::default_namespaced(client.clone()),
            revisions: Api::default_namespaced(client.clone()),
            events: Api::default_namespaced(client.clone()),
        }
    }

    /// The name of the pod of this number.
    pub fn pod(&self, number: u32) -> String {
        format!("{}-{number}", self.name)
    }

    /// Applies a merge patch to the set.
    pub async fn patch(&self, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api.patch(&self.name, &PatchParams::default(), &patch).await.expect("a set must be patched");
    }

    /// Sets the wanted number of pods.
    pub async fn scale(&self, replicas: u32) {
        self.patch(json!({ "spec": { "replicas": replicas } })).await;
    }

    /// Gives the template an image of this tag.
    pub async fn update(&self, tag: u32) {
        let containers = json!([{ "name": "main", "image": format!("image:{tag}") }]);
        self.patch(json!({ "spec": { "template": { "spec": { "containers": containers } } } })).await;
    }

    /// The pods with the label that the set selects, by name.
    pub async fn labelled(&self) -> BTreeMap<String, Pod> {
        let params = ListParams::default().labels(&format!("app={}", self.name));
        let pods = self.pods.list(&params).await.expect("pods must be listed").items;
        pods.into_iter().map(|pod| (name_of(&pod), pod)).collect()
    }

    /// Waits until the set's pods are those of these numbers.
    pub async fn has(&self, numbers: &[u32]) -> BTreeMap<String, Pod> {
        let expected: BTreeSet<String> = numbers.iter().map(|number| self.pod(*number)).collect();
        eventually(&format!("the set's pods are {expected:?}"), || async {
            let pods = self.labelled().await;
            pods.keys().eq(&expected).then_some(pods)
        })
        .await
    }

    /// Waits until the controller has seen the set's current generation and all its pods, and wants none other.
    pub async fn rests_at(&self, numbers: &[u32]) {
        self.has(numbers).await;
        let replicas = u32::try_from(numbers.len()).expect("a test has few pods");
        self.reports(json!({ "replicas": replicas })).await;
        self.has(numbers).await;
    }

    /// Waits for the pod of this number, and gives it.
    pub async fn waits_for(&self, number: u32) -> Pod {
        let name = self.pod(number);
        eventually(&format!("there is a pod {name}"), || async { self.pods.get_opt(&name).await.ok()? }).await
    }

    /// Waits until the pod of this number is another one, and gives the new one.
    pub async fn replaces(&self, number: u32, old: &Pod) -> Pod {
        let name = self.pod(number);
        eventually(&format!("{name} is another pod"), || async {
            let pod = self.pods.get_opt(&name).await.ok()??;
            (pod.metadata.uid != old.metadata.uid).then_some(pod)
        })
        .await
    }

    /// Makes the pod of this number ready, once it exists.
    pub async fn ready(&self, number: u32) {
        self.waits_for(number).await;
        self.mark(number, "Running", "True").await;
    }

    /// Makes the pods of these numbers ready, one after the other.
    pub async fn all_ready(&self, numbers: &[u32]) {
        for number in numbers {
            self.ready(*number).await;
        }
    }

    /// Sets a pod's phase and its condition `Ready`, since now.
    pub async fn mark(&self, number: u32, phase: &str, ready: &str) {
        mark(&self.pods, &self.pod(number), phase, ready, &Time::now()).await;
    }

    /// Deletes a pod with its grace period.
    pub async fn delete(&self, number: u32) {
        self.pods.delete(&self.pod(number), &DeleteParams::default()).await.expect("a pod must be deleted");
    }

    /// Ends a pod that is being deleted, as its kubelet does.
    pub async fn end(&self, number: u32) {
        let name = self.pod(number);
        eventually(&format!("{name} is being deleted"), || async {
            let pod = self.pods.get(&name).await.ok()?;
            pod.metadata.deletion_timestamp.map(|_| ())
        })
        .await;
        self.pods.delete(&name, &DeleteParams::default().grace_period(0)).await.expect("a pod must end");
    }

    /// Waits until the status describes the current generation and has these fields. A field that is absent from the
    /// status counts as zero, since the API server leaves out zeros.
    pub async fn reports(&self, fields: Value) -> Value {
        let expected = fields.as_object().expect("the fields of a status are an object");
        let mut last = Value::Null;
        let wait = async {
            loop {
                let set = self.api.get(&self.name).await.expect("the set must be there");
                last = serde_json::to_value(set.status).expect("a status is JSON");
                let field = |name: &str| last.get(name).cloned().unwrap_or(json!(0));
                let observed = field("observedGeneration") == json!(set.metadata.generation);
                if observed && expected.iter().all(|(name, value)| field(name) == *value) {
                    return last.clone();
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let reported = timeout(patience(), wait).await.ok();
        reported
            .unwrap_or_else(|| panic!("waited in vain: {} reports {fields}; it reports {last}", self.name))
    }

    /// The set's revisions, by number.
    pub async fn history(&self) -> BTreeMap<i64, String> {
        let params = ListParams::default().labels(&format!("app={}", self.name));
        let revisions = self.revisions.list(&params).await.expect("revisions must be listed").items;
        revisions.into_iter().map(|one| (one.revision, one.metadata.name.unwrap_or_default())).collect()
    }

    /// Waits for an event about the set with this reason and message, and gives it.
    pub async fn event(&self, reason: &str, message: &str) -> Event {
        eventually(&format!("{} has the event {reason}: {message}", self.name), || async {
            let events = self.events.list(&ListParams::default()).await.ok()?.items;
            events.into_iter().find(|event| {
                event.involved_object.uid.as_ref() == Some(&self.uid)
                    && event.reason.as_deref() == Some(reason)
                    && event.message.as_ref().is_some_and(|text| text.starts_with(message))
            })
        })
        .await
    }

    /// The owners of a claim: each one's kind and name, and whether it manages the claim.
    pub async fn owners(&self, claim: &str) -> Vec<(String, String, Option<bool>)> {
        let claim = self.claims.get(claim).await.expect("the claim must be there");
        let owners = claim.metadata.owner_references.into_iter().flatten();
        owners.map(|owner| (owner.kind, owner.name, owner.controller)).collect()
    }

    /// Waits until a claim's owners are of these kinds and names.
    pub async fn owned_by(&self, claim: &str, owners: &[(&str, &str)]) {
        let expected: Vec<_> =
            owners.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned(), Some(true))).collect();
        eventually(&format!("{claim} is owned by {owners:?}"), || async {
            self.claims.get_opt(claim).await.ok()??;
            (self.owners(claim).await == expected).then_some(())
        })
        .await;
    }

    /// The names and versions of the set and of all that belongs to it.
    pub async fn versions(&self) -> BTreeSet<(String, String)> {
        let version = |meta: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
            (meta.name.unwrap_or_default(), meta.resource_version.unwrap_or_default())
        };
        let params = ListParams::default().labels(&format!("app={}", self.name));
        let mut versions = BTreeSet::from([version(self.api.get(&self.name).await.expect("a set").metadata)]);
        versions.extend(self.labelled().await.into_values().map(|pod| version(pod.metadata)));
        let revisions = self.revisions.list(&params).await.expect("revisions must be listed").items;
        versions.extend(revisions.into_iter().map(|revision| version(revision.metadata)));
        let claims = self.claims.list(&params).await.expect("claims must be listed").items;
        versions.extend(claims.into_iter().map(|claim| version(claim.metadata)));
        versions
    }
}

/// The name of a pod's revision.
pub fn revision_of(pod: &Pod) -> String {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION)).cloned().unwrap_or_default()
}
