//! Syncs of the signer's bundles.

use std::sync::Arc;

use serde_json::json;
use steersman_api::{ArcStr, ObjectKey, Time};
use steersman_controller::call::{Content, JSON};
use steersman_controller::client::{Changed, Client, Created, Delete};
use steersman_controller::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::Lister;
use steersman_informer::work_queue::WorkQueue;
use steersman_kinds::cluster_trust_bundle::{ClusterTrustBundle, TrustBundle};
use steersman_kinds::content_digest::ContentDigest;

use super::metrics::Metrics;
use super::plan::{Current, Observed, Step, bundle_name, plan};
use super::{PublishedBundle, SIGNER};
use crate::unreadable;

/// The only key. It stands for all bundles of the signer.
pub(super) const KEY: &str = "";

/// Publishes the bundle.
pub(super) struct Publisher {
    bundles: Lister<PublishedBundle>,
    client: Client<ClusterTrustBundle>,
    /// The certificate authorities, in PEM.
    ca: Arc<str>,
    digest: ContentDigest,
    /// The name of the bundle with `ca`.
    name: ArcStr,
    metrics: Metrics,
    queue: WorkQueue<&'static str>,
}

impl Publisher {
    pub(super) fn new(
        bundles: Lister<PublishedBundle>,
        client: Client<ClusterTrustBundle>,
        ca: Arc<str>,
        metrics: Metrics,
        queue: WorkQueue<&'static str>,
    ) -> Self {
        let (digest, name) = (ContentDigest::of(ca.as_bytes()), bundle_name(&ca));
        Self { bundles, client, ca, digest, name, metrics, queue }
    }

    async fn create(&self) -> Result<(), SyncError> {
        let bundle = json!({
            "apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
            "metadata": {"name": self.name.as_str()},
            "spec": {"signerName": SIGNER, "trustBundle": *self.ca},
        });
        let what = || format!("creating ClusterTrustBundle {}", self.name);
        match self.client.create("", Content::json(JSON, &bundle)).await? {
            Created::Now(_) => Ok(()),
            // The cache will show the bundle that exists: the next sync compares it.
            Created::Exists(status) => Err(SyncError::Refused { what: what(), status }),
            Created::NamespaceTerminating => Err(SyncError::Failed(what())),
        }
    }

    /// Restores the bundle as the API server has it, so that the update keeps all fields that the cache lacks. Kubernetes's role
    /// for the controller grants `list` and not `get`.
    async fn restore(&self) -> Result<(), SyncError> {
        let key = ObjectKey::cluster(self.name.clone());
        let what = || format!("updating ClusterTrustBundle {key}");
        let gone = || SyncError::Failed(format!("{}: it is gone", what()));
        let mut bundle = self.client.resource().find_json(&key).await?.ok_or_else(gone)?;
        bundle["spec"]["trustBundle"] = (*self.ca).into();
        match self.client.update(&key, Content::json(JSON, &bundle)).await? {
            Changed::Now(_) => Ok(()),
            Changed::Gone => Err(gone()),
            Changed::Conflict(status) => Err(SyncError::Refused { what: what(), status }),
        }
    }
}

impl Controller for Publisher {
    type Key = &'static str;
    type Observed = Observed;
    type Step = Step;
    type Outcome = ();

    fn term_begins(&self) {
        // There may be no bundle yet whose appearance queues the key.
        self.queue.add(KEY);
    }

    async fn observe(&self, _: &Self::Key) -> Result<Observation<Observed>, SyncError> {
        let key = ObjectKey::cluster(self.name.clone());
        let bundle = self.bundles.get(&key).map_err(unreadable("ClusterTrustBundle"))?;
        let current = match bundle {
            None => Current::Missing,
            Some(bundle) if bundle.get::<TrustBundle>().bundle.0 == Some(self.digest) => Current::Right,
            Some(_) => Current::Wrong,
        };
        // Only bundles that certainly are the signer's may go, whatever the API server selects for the cache.
        let (all, _) = self.bundles.list_readable();
        let others = all.iter().filter(|bundle| {
            bundle.get::<TrustBundle>().signer == SIGNER && bundle.meta().key.name != self.name
        });
        let others = others.map(|bundle| (bundle.meta().key.name.clone(), bundle.meta().uid.clone()));
        Ok(Observation::Ready(Observed { current, others: others.collect() }))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, _: &Self::Key, _: &Observed, step: &Step) -> Result<(), SyncError> {
        match step {
            Step::Create => self.create().await,
            Step::Restore => self.restore().await,
            Step::Delete(name, uid) => {
                // If the outcome is a conflict, another bundle has the name: its appearance queues the key.
                self.client.delete(&ObjectKey::cluster(name.clone()), &Delete::of(uid)).await.map(drop)
            }
        }
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<()>) {
        match (step, result) {
            (Step::Create | Step::Restore, StepResult::Done(())) => observed.current = Current::Right,
            (Step::Delete(name, _), StepResult::Done(())) => {
                observed.others.retain(|(other, _)| *other != name);
            }
            _ => {}
        }
    }

    fn finished(&self, _: &Self::Key, sync: FinishedSync<'_, Observed>) {
        self.metrics.synced(sync.took, sync.result);
    }
}
