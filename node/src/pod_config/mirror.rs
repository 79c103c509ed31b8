//! Mirror pods: how static pods show on the API server.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::api::{DeleteParams, PostParams, Preconditions};
use steersman_client::fault::told;

use super::annotations::{self, CONFIG_HASH, CONFIG_MIRROR};

/// Why a mirror pod was not made or taken away. All of them pass: the pod's next sync tries again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node is not known yet, and mirror pods must name it as their owner.
    #[error("failed to get node UID: UID unset for node {0}")]
    NodeUid(String),
    /// Creating it.
    #[error("creating the mirror pod {pod}: {}", told(.source))]
    Create {
        /// Its full name.
        pod: String,
        /// What the API server said, if it answered.
        source: Box<kube::Error>,
    },
    /// Deleting it.
    #[error("deleting the mirror pod {pod}: {}", told(.source))]
    Delete {
        /// Its full name.
        pod: String,
        /// What the API server said, if it answered.
        source: Box<kube::Error>,
    },
}

/// What is to be done about a static pod's mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorPlan {
    /// It is as it should be.
    Keep,
    /// There is none.
    Create,
    /// It mirrors another state, or is about to go: it is deleted, with this uid, and then made again.
    Replace {
        /// Of the mirror that is there.
        uid: String,
    },
}

/// Compares a static pod with its mirror.
pub fn plan(pod: &Pod, mirror: Option<&Pod>) -> MirrorPlan {
    match mirror {
        None => MirrorPlan::Create,
        Some(mirror)
            if mirror.metadata.deletion_timestamp.is_some() || !annotations::is_mirror_of(mirror, pod) =>
        {
            MirrorPlan::Replace { uid: mirror.metadata.uid.clone().unwrap_or_default() }
        }
        Some(_) => MirrorPlan::Keep,
    }
}

/// The mirror of a static pod, owned by its node.
pub fn mirror_of(pod: &Pod, node_name: &str, node_uid: &str) -> Pod {
    let mut mirror = pod.clone();
    let hash = annotations::annotation(pod, CONFIG_HASH).unwrap_or_default().to_owned();
    mirror.metadata.annotations.get_or_insert_default().insert(CONFIG_MIRROR.to_owned(), hash);
    // The API server gives it one of its own.
    mirror.metadata.uid = None;
    mirror.metadata.resource_version = None;
    mirror.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node_name.to_owned(),
        uid: node_uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    }]);
    mirror
}

/// Makes mirror pods and takes them away.
#[derive(Clone)]
pub struct MirrorClient {
    client: kube::Client,
    node_name: String,
}

impl MirrorClient {
    /// For the node of that name.
    pub fn new(client: kube::Client, node_name: &str) -> Self {
        Self { client, node_name: node_name.to_owned() }
    }

    /// Carries a plan out. `node_uid` is the node's, once it is known.
    ///
    /// # Errors
    /// See [`Error`]. A mirror that could not be deleted is not made again.
    pub async fn carry_out(&self, plan: &MirrorPlan, pod: &Pod, node_uid: Option<&str>) -> Result<(), Error> {
        match plan {
            MirrorPlan::Keep => Ok(()),
            MirrorPlan::Create => self.create(pod, node_uid).await,
            MirrorPlan::Replace { uid } => {
                if self.delete(pod, Some(uid)).await? {
                    self.create(pod, node_uid).await?;
                }
                Ok(())
            }
        }
    }

    /// Makes the mirror of a static pod. One that is already there for the same state will do: an earlier attempt may
    /// have succeeded without our knowing.
    ///
    /// # Errors
    /// The node's uid is unknown, or the API server refuses or does not answer.
    pub async fn create(&self, pod: &Pod, node_uid: Option<&str>) -> Result<(), Error> {
        let node_uid = node_uid.filter(|uid| !uid.is_empty());
        let node_uid = node_uid.ok_or_else(|| Error::NodeUid(self.node_name.clone()))?;
        let mirror = mirror_of(pod, &self.node_name, node_uid);
        let api = self.api(pod);
        match api.create(&PostParams::default(), &mirror).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let exists = matches!(&error, kube::Error::Api(status) if status.reason == "AlreadyExists");
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                if exists && api.get(name).await.is_ok_and(|there| annotations::is_mirror_of(&there, pod)) {
                    return Ok(());
                }
                Err(Error::Create { pod: annotations::full_name(pod), source: Box::new(error) })
            }
        }
    }

    /// Deletes the mirror of that name at once; with a uid, only the one that has it. `pod` may be the static pod, the
    /// mirror, or whatever else has its name. Says whether it was this call that deleted it: that there is none, or that
    /// the uid is another's, is not an error.
    ///
    /// # Errors
    /// The API server refuses for another reason, or does not answer.
    pub async fn delete(&self, pod: &Pod, uid: Option<&str>) -> Result<bool, Error> {
        let mut params = DeleteParams::default().grace_period(0);
        if let Some(uid) = uid {
            params =
                params.preconditions(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        }
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        match self.api(pod).delete(name, &params).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(false),
            Err(error) => Err(Error::Delete { pod: annotations::full_name(pod), source: Box::new(error) }),
        }
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default())
    }
}
