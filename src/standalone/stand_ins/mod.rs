//! Stands in for controllers that this program does not have yet, as far as a cluster can't be worked with without them:
//!
//! | upstream's controller | what is done of it |
//! |---|---|
//! | `serviceaccount-controller` | every namespace has the account `default` |
//! | `root-ca-certificate-publisher-controller` | every namespace has the config map `kube-root-ca.crt` |
//! | `namespace-controller` | a namespace that is deleted is emptied, and goes |
//! | `clusterrole-aggregation-controller` | roles that are made of others have their rules |
//! | `garbage-collector-controller` | pods go with their job, or are let go first, as its deletion asks |
//!
//! It looks at metadata alone (but of roles), plans anew after every change, and repeats what failed.

mod namespace;
mod plan;
mod roles;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use steersman_api::{GroupVersionResource, Meta, ObjectKey, Uid};
use steersman_client::discovery;
use steersman_client::fault::told;
use steersman_informer::factory::Options;
use steersman_informer::{AnyInformer, SharedInformerFactory};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use plan::{Deletion, FOREGROUND, Namespace, ORPHAN, Observed, Step, plan};

const ACCOUNT: &str = "default";
const RBAC: &str = "rbac.authorization.k8s.io";
const ROOT_CA: &str = "kube-root-ca.crt";
/// Between two plans: what comes in crowds is seen together.
const REST: Duration = Duration::from_millis(20);
/// Until a namespace is looked at again of which something is left, and until what failed is tried again.
const AGAIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// The one who stands in.
pub(super) struct StandIns {
    /// For watches: neither limits nor retries.
    pub(super) watch: kube::Client,
    /// For writes.
    pub(super) client: kube::Client,
    /// PEM of those whose certificates pods may believe.
    pub(super) root_ca: String,
}

/// Why something was not done. It is tried again.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The API server said no, or nothing.
    #[error("{}", told(.0))]
    Call(#[from] kube::Error),
    /// What kinds there are can't be learnt.
    #[error(transparent)]
    Discover(#[from] discovery::Error),
    /// A request can't be made.
    #[error(transparent)]
    Request(#[from] http::Error),
}

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nothing is left to do, as far as is known.
    Done,
    /// Somebody else must come to an end first.
    Waits,
}

/// The caches.
struct Seen {
    namespaces: Arc<dyn AnyInformer>,
    accounts: Arc<dyn AnyInformer>,
    config_maps: Arc<dyn AnyInformer>,
    jobs: Arc<dyn AnyInformer>,
    pods: Arc<dyn AnyInformer>,
}

impl Seen {
    fn new(factory: &SharedInformerFactory) -> Self {
        let of = |group: &'static str, plural: &'static str| {
            factory.dynamic(&GroupVersionResource::new(group, "v1", plural))
        };
        Self {
            namespaces: of("", "namespaces"),
            accounts: of("", "serviceaccounts"),
            config_maps: of("", "configmaps"),
            jobs: of("batch", "jobs"),
            pods: of("", "pods"),
        }
    }

    fn all(&self) -> [&Arc<dyn AnyInformer>; 5] {
        [&self.namespaces, &self.accounts, &self.config_maps, &self.jobs, &self.pods]
    }

    fn observe(&self) -> Observed {
        let mut observed = Observed::default();
        self.namespaces.for_each_meta(&mut |meta| {
            let state = if meta.is_deleting() { Namespace::Terminating } else { Namespace::Active };
            observed.namespaces.insert(meta.key.name.to_string(), state);
        });
        self.accounts.for_each_meta(&mut |meta| {
            if meta.key.name == ACCOUNT {
                observed.with_account.insert(meta.key.namespace.to_string());
            }
        });
        self.config_maps.for_each_meta(&mut |meta| {
            if meta.key.name == ROOT_CA {
                observed.with_root_ca.insert(meta.key.namespace.to_string());
            }
        });
        // Pods first: the job of a pod that is seen was made before it, so that it is in the later look.
        self.pods.for_each_meta(&mut |meta| {
            if !meta.owners.is_empty() {
                observed.pods.push(plan::Pod {
                    key: meta.key.clone(),
                    uid: meta.uid.clone(),
                    owners: meta.owners.to_vec(),
                    deleting: meta.is_deleting(),
                });
            }
        });
        self.jobs.for_each_meta(&mut |meta| {
            let (key, uid) = (meta.key.clone(), meta.uid.clone());
            observed.jobs.push(plan::Job { key, uid, deletion: deletion(meta) });
        });
        observed
    }
}

fn deletion(job: &Meta) -> Option<Deletion> {
    job.is_deleting().then(|| match job {
        job if job.has_finalizer(ORPHAN) => Deletion::Orphan,
        job if job.has_finalizer(FOREGROUND) => Deletion::Foreground,
        _ => Deletion::Other,
    })
}

impl StandIns {
    /// Works until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let factory = SharedInformerFactory::new(self.watch.clone(), Options::default());
        let (seen, changed) = (Seen::new(&factory), Arc::new(Notify::new()));
        for informer in seen.all() {
            let changed = Arc::clone(&changed);
            informer.map_meta(Box::new(move |_| changed.notify_one()));
        }
        let roles = factory.dynamic(&GroupVersionResource::new(RBAC, "v1", "clusterroles"));
        let roles_changed = Arc::new(Notify::new());
        let changes = Arc::clone(&roles_changed);
        roles.map_meta(Box::new(move |_| changes.notify_one()));
        factory.start();
        let work =
            async { tokio::join!(self.work(&seen, &changed), self.gather_roles(&roles, &roles_changed)) };
        stop.run_until_cancelled(work).await;
        factory.shutdown().await;
    }

    /// Keeps roles that are made of others up to date.
    async fn gather_roles(&self, roles: &Arc<dyn AnyInformer>, changed: &Notify) {
        let _ = roles.watch_synced().wait_for(|synced| *synced).await;
        loop {
            while let Err(error) = roles::gather(&self.client).await {
                tracing::warn!(%error, "Gathering the rules of roles failed, will retry");
                sleep(AGAIN[1]).await;
            }
            changed.notified().await;
            sleep(REST).await;
        }
    }

    async fn work(&self, seen: &Seen, changed: &Notify) {
        for informer in seen.all() {
            // It fails where the informer is gone, as all of this soon is.
            let _ = informer.watch_synced().wait_for(|synced| *synced).await;
        }
        loop {
            let mut again = None;
            for step in plan(&seen.observe()) {
                let wait = match self.carry_out(&step).await {
                    Ok(Outcome::Done) => continue,
                    Ok(Outcome::Waits) => AGAIN[0],
                    Err(error) => {
                        tracing::warn!(?step, %error, "Standing in for a controller failed, will retry");
                        AGAIN[1]
                    }
                };
                again = Some(again.map_or(wait, |other: Duration| other.min(wait)));
            }
            tokio::select! {
                () = changed.notified() => sleep(REST).await,
                () = sleep(again.unwrap_or_default()), if again.is_some() => {}
            }
        }
    }

    async fn carry_out(&self, step: &Step) -> Result<Outcome, Error> {
        let done = match step {
            Step::Empty(name) => return namespace::empty(&self.client, name).await,
            Step::Account(namespace) => self.make_account(namespace).await,
            Step::RootCa(namespace) => self.make_root_ca(namespace).await,
            Step::Collect { pod, uid, job, job_uid } => match self.is_there(job, job_uid).await {
                Ok(false) => self.delete(pod, uid).await,
                // The cache is behind.
                Ok(true) => Ok(()),
                Err(error) => Err(error),
            },
            Step::Delete { pod, uid } => self.delete(pod, uid).await,
            Step::Release { pod, uid, job_uid } => self.release(pod, uid, job_uid).await,
            Step::Finish { job, uid, finalizer } => self.finish(job, uid, finalizer).await,
        };
        match done {
            Ok(()) => Ok(Outcome::Done),
            // It is there, is gone, is another by now, or its namespace goes: the next change tells.
            Err(kube::Error::Api(status)) if [403, 404, 409].contains(&status.code) => Ok(Outcome::Done),
            Err(error) => Err(error.into()),
        }
    }

    async fn make_account(&self, namespace: &str) -> Result<(), kube::Error> {
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), namespace);
        let mut account = ServiceAccount::default();
        account.metadata.name = Some(ACCOUNT.to_owned());
        accounts.create(&PostParams::default(), &account).await.map(drop)
    }

    async fn make_root_ca(&self, namespace: &str) -> Result<(), kube::Error> {
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        let mut map = ConfigMap::default();
        map.metadata.name = Some(ROOT_CA.to_owned());
        map.data = Some([("ca.crt".to_owned(), self.root_ca.clone())].into());
        maps.create(&PostParams::default(), &map).await.map(drop)
    }

    /// Whether the job is there, whatever the cache says.
    async fn is_there(&self, job: &ObjectKey, uid: &Uid) -> Result<bool, kube::Error> {
        let found = self.jobs(job).get_metadata_opt(&job.name).await?;
        Ok(found.and_then(|job| job.metadata.uid).is_some_and(|found| found == uid.to_string()))
    }

    async fn delete(&self, pod: &ObjectKey, uid: &Uid) -> Result<(), kube::Error> {
        let preconditions = Preconditions { uid: Some(uid.to_string()), resource_version: None };
        let params = DeleteParams::background().preconditions(preconditions);
        self.pods(pod).delete(&pod.name, &params).await.map(drop)
    }

    async fn release(&self, pod: &ObjectKey, uid: &Uid, job: &Uid) -> Result<(), kube::Error> {
        let patch = json!({"metadata": {
            "uid": uid.to_string(),
            "ownerReferences": [{"$patch": "delete", "uid": job.to_string()}],
        }});
        let patch = Patch::Strategic(patch);
        self.pods(pod).patch_metadata(&pod.name, &PatchParams::default(), &patch).await.map(drop)
    }

    async fn finish(&self, job: &ObjectKey, uid: &Uid, finalizer: &str) -> Result<(), kube::Error> {
        let patch: Patch<Value> = Patch::Strategic(json!({"metadata": {
            "uid": uid.to_string(),
            "$deleteFromPrimitiveList/finalizers": [finalizer],
        }}));
        self.jobs(job).patch_metadata(&job.name, &PatchParams::default(), &patch).await.map(drop)
    }

    fn jobs(&self, key: &ObjectKey) -> Api<Job> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    fn pods(&self, key: &ObjectKey) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }
}
