//! A minimal scheduler: binds pods to the one node, where it takes them.
//!
//! A pod that the node does not take is tried again when the pod or the node changes, or another pod leaves the node, but
//! not sooner than after 1 second, then 2, up to 10. A pod whose claims are not bound is tried again after the same waits. No
//! pod is ended to make room for another.

mod cache;
mod claims;
mod plan;
mod volumes;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use steersman_api::{FieldSelector, GroupVersionKind, GroupVersionResource, ObjectKey};
use steersman_client::events::{EventType, Recorder, reference};
use steersman_client::fault::told;
use steersman_informer::SharedInformer;
use steersman_informer::list_watch::{ApiListerWatcher, Scope};
use steersman_informer::shared_informer::Config;
use steersman_informer::wire::whole::Whole;
use steersman_node::status_manager::conditions::POD_SCHEDULED;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use cache::{Cache, Known};
pub(super) use plan::SCHEDULER;
use volumes::Claims;

/// The first wait before a pod is tried again, and the longest.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// Binds pods to one node.
pub(super) struct Scheduler {
    /// For watches: neither limits nor retries.
    pub(super) watch: kube::Client,
    /// For writes.
    pub(super) client: kube::Client,
    /// Of [`SCHEDULER`].
    pub(super) recorder: Recorder,
    /// The node.
    pub(super) node: String,
}

/// What became of a pod that was tried.
enum Placed {
    /// It has the node.
    Bound,
    /// It gets the node once its claims are bound.
    WaitsForClaims,
}

/// A pod that could not be placed.
struct Tried {
    uid: Option<String>,
    spec: Option<PodSpec>,
    times: u32,
    /// [`Known::chances`] at that time; `None` if trouble came that has nothing to do with room.
    chances: Option<u64>,
    again: Instant,
}

impl Scheduler {
    /// Places pods until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let cache = Cache::default();
        // Not all pods: most are on other nodes, and none of ours.
        let pods_of = |node: &str| {
            let scope = Scope { fields: FieldSelector::equal("spec.nodeName", node), ..Scope::default() };
            SharedInformer::new(
                Arc::new(ApiListerWatcher::<Whole<Pod>>::new(self.watch.clone(), resource("pods"), scope)),
                resource("pods"),
                Config::default(),
            )
        };
        let (homeless, here) = (pods_of(""), pods_of(&self.node));
        let scope = Scope { fields: FieldSelector::name(&self.node), ..Scope::default() };
        let nodes = SharedInformer::new(
            Arc::new(ApiListerWatcher::<Whole<Node>>::new(self.watch.clone(), resource("nodes"), scope)),
            resource("nodes"),
            Config::default(),
        );
        let (Ok(of_homeless), Ok(of_here), Ok(of_nodes)) =
            (homeless.select::<Whole<Pod>>(), here.select::<Whole<Pod>>(), nodes.select::<Whole<Node>>())
        else {
            // A kind that is kept whole has no groups that could be missing.
            return;
        };
        let seen = cache.clone();
        of_homeless.map(move |change| seen.homeless(change));
        let seen = cache.clone();
        of_here.map(move |change| seen.here(change));
        let seen = cache.clone();
        of_nodes.map(move |change| seen.node(change));
        let place = async {
            of_homeless.synced().await;
            of_here.synced().await;
            of_nodes.synced().await;
            self.place(&cache).await
        };
        let watches = async {
            let (homeless, here, nodes) = (Arc::clone(&homeless), Arc::clone(&here), Arc::clone(&nodes));
            tokio::join!(homeless.run(stop.clone()), here.run(stop.clone()), nodes.run(stop.clone()))
        };
        tokio::select! {
            ((), (), ()) = watches => {}
            () = place => {}
        }
    }

    async fn place(&self, cache: &Cache) {
        let mut tried: HashMap<ObjectKey, Tried> = HashMap::new();
        loop {
            let known = cache.known();
            tried.retain(|key, _| known.waiting_at(key).is_some());
            let mut others: Vec<&Pod> = known.on_node().collect();
            for (key, pod) in due(&known, &tried) {
                let (reason, message, chances) = match self.place_one(cache, &known, pod, &others).await {
                    Ok(Placed::Bound) => {
                        others.push(pod);
                        tried.remove(key);
                        let message = format!("Successfully assigned {key} to {}", self.node);
                        self.event(pod, key, EventType::Normal, "Scheduled", message);
                        continue;
                    }
                    Ok(Placed::WaitsForClaims) => {
                        tried.insert(key.clone(), Tried::now(pod, None, tried.get(key)));
                        continue;
                    }
                    Err(why) => why,
                };
                tried.insert(key.clone(), Tried::now(pod, chances, tried.get(key)));
                self.event(pod, key, EventType::Warning, "FailedScheduling", message.clone());
                if let Err(error) = self.tell(pod, reason, &message).await {
                    if is_conflict(&error) {
                        // The pod is not what was looked at: its newer state comes, and is tried at once.
                        tried.remove(key);
                        continue;
                    }
                    tracing::warn!(pod = %key, error = %told(&error), "Why a pod has no place could not be written");
                }
            }
            let now = cache.known();
            let waking = tried.iter().filter(|(key, one)| {
                one.has_a_chance(&now) || now.waiting_at(key).is_some_and(|pod| one.is_another(pod))
            });
            let next = waking.map(|(_, one)| one.again).chain(now.next_expiry()).min();
            tokio::select! {
                () = cache.changed() => {}
                () = async { sleep_until(next.unwrap_or_else(Instant::now)).await }, if next.is_some() => {}
            }
        }
    }

    /// Binds the pod, if the node takes it and the pod's claims are bound.
    ///
    /// # Errors
    /// The reason and the message why not, and what [`Tried::chances`] is then.
    async fn place_one(
        &self,
        cache: &Cache,
        known: &Known,
        pod: &Pod,
        others: &[&Pod],
    ) -> Result<Placed, (&'static str, String, Option<u64>)> {
        plan::fits(pod, known.node.as_deref(), others)
            .map_err(|message| ("Unschedulable", message, Some(known.chances)))?;
        if let Some(node) = &known.node {
            let claims = volumes::settle(&self.client, pod, node, others).await;
            if claims.map_err(|message| ("Unschedulable", message, None))? == Claims::Binding {
                return Ok(Placed::WaitsForClaims);
            }
        }
        cache.assume(pod);
        let bound = self.bind(pod).await.map(|()| Placed::Bound);
        bound.map_err(|error| {
            cache.give_up(pod);
            let why = format!("binding rejected: running Bind plugin \"DefaultBinder\": {}", told(&error));
            ("SchedulerError", why, None)
        })
    }

    async fn bind(&self, pod: &Pod) -> Result<(), kube::Error> {
        let meta = &pod.metadata;
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.node},
        });
        let name = meta.name.as_deref().unwrap_or_default();
        let bound = self
            .pods(pod)
            .create_subresource::<Value, Value>("binding", name, &PostParams::default(), &binding)
            .await;
        match bound {
            Err(kube::Error::Api(status))
                if plan::is_there_already(status.code, &status.message, &self.node) =>
            {
                Ok(())
            }
            bound => bound.map(drop),
        }
    }

    /// Writes why the pod has no node, unless it says so already.
    async fn tell(&self, pod: &Pod, reason: &str, message: &str) -> Result<(), kube::Error> {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let old = conditions.into_iter().find(|condition| condition.type_ == POD_SCHEDULED);
        let same = old.is_some_and(|old| {
            let texts = (old.reason.as_deref(), old.message.as_deref());
            old.status == "False" && texts == (Some(reason), Some(message))
        });
        if same {
            return Ok(());
        }
        let since = old.filter(|old| old.status == "False").and_then(|old| old.last_transition_time.clone());
        let since = since.map_or_else(|| json!(steersman_api::Time::now()), |since| json!(since));
        let patch = json!({
            // Of this state only: meanwhile it may have got a node.
            "metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
            "status": {"conditions": [{
                "type": POD_SCHEDULED, "status": "False", "reason": reason, "message": message,
                "lastTransitionTime": since, "observedGeneration": pod.metadata.generation,
            }]},
        });
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        self.pods(pod).patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await.map(drop)
    }

    fn pods(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default())
    }

    fn event(&self, pod: &Pod, key: &ObjectKey, kind: EventType, reason: &'static str, message: String) {
        let meta = steersman_api::Meta {
            key: key.clone(),
            uid: pod.metadata.uid.as_deref().unwrap_or_default().into(),
            ..steersman_api::Meta::default()
        };
        let mut involved = reference(&GroupVersionKind::new("", "v1", "Pod"), &meta);
        involved.resource_version.clone_from(&pod.metadata.resource_version);
        self.recorder.event(&involved, kind, reason, message);
    }
}

impl Tried {
    /// The pod was tried in vain right now, and `before` when it was tried last.
    fn now(pod: &Pod, chances: Option<u64>, before: Option<&Self>) -> Self {
        let (uid, spec) = (pod.metadata.uid.clone(), pod.spec.clone());
        let times =
            before.filter(|before| before.uid == uid).map_or(1, |before| before.times.saturating_add(1));
        let wait = BACK_OFF.0.saturating_mul(1 << (times - 1).min(8)).min(BACK_OFF.1);
        Self { uid, spec, times, chances, again: Instant::now() + wait }
    }

    /// Whether trying again may help.
    fn has_a_chance(&self, known: &Known) -> bool {
        self.chances.is_none_or(|chances| chances < known.chances)
    }

    /// Whether the pod is not what was tried.
    fn is_another(&self, pod: &Pod) -> bool {
        self.uid != pod.metadata.uid || self.spec != pod.spec
    }
}

/// The pods to try now: the most important first, then the oldest.
fn due<'a>(known: &'a Known, tried: &HashMap<ObjectKey, Tried>) -> Vec<(&'a ObjectKey, &'a Pod)> {
    let now = Instant::now();
    let is_due = |key: &ObjectKey, pod: &Pod| match tried.get(key) {
        None => true,
        Some(one) => {
            one.uid != pod.metadata.uid
                || (one.again <= now && (one.has_a_chance(known) || one.is_another(pod)))
        }
    };
    let mut due: Vec<_> = known.waiting().filter(|(key, pod)| is_due(key, pod)).collect();
    due.sort_by_key(|(_, pod)| {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        (std::cmp::Reverse(priority), pod.metadata.creation_timestamp.clone())
    });
    due
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn resource(plural: &'static str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", plural)
}
