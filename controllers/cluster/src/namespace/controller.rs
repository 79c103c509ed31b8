//! Syncs of namespaces that are being deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use steersman_api::{GroupVersionResource, ObjectKey, Time};
use steersman_client::{RestMapper, Sender};
use steersman_controller::call::{Content, JSON};
use steersman_controller::client::{
    Changed, Client, Delete, Propagation, ResourceClient, StatusChange, StatusWriter, Subresource,
};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::{AnyInformer, Lister, SharedInformerFactory};
use steersman_kinds::namespace::Namespace as Kind;

use super::NamespaceKey;
use super::conditions::Status;
use super::contents::{Contents, Leftover};
use super::deletion::{Called, Deletion, Namespace, Outcome, Sight};
use super::plan::{KUBERNETES, Step, plan};

/// Empties and finalizes namespaces.
pub(super) struct NamespaceController {
    pub namespaces: Lister<NamespaceKey>,
    pub client: Client<Kind>,
    pub status: StatusWriter<Kind>,
    /// Sends the calls for the objects in namespaces.
    pub sender: Sender,
    pub rest_mapper: Arc<RestMapper>,
    /// The caches of this process.
    pub informers: SharedInformerFactory,
}

/// The API server must not wait for the garbage collector, nor let dependents stay: everything in the namespace goes.
const BACKGROUND: Delete = Delete {
    uid: None,
    resource_version: None,
    propagation: Some(Propagation::Background),
    grace_period_seconds: None,
};

impl NamespaceController {
    async fn read(&self, key: &ObjectKey, deletion: &Deletion) -> Result<Sight, SyncError> {
        let Some(found) = self.client.get(key).await? else { return Ok(Sight::Gone) };
        let namespace = Namespace::of(&found);
        match &deletion.namespace {
            Sight::Unread(Some(uid)) if *uid != namespace.meta.uid => Ok(Sight::Gone),
            _ => Ok(Sight::Found(Box::new(namespace))),
        }
    }

    async fn write(&self, namespace: &Namespace, status: &Status) -> Result<Sight, SyncError> {
        let meta = &namespace.meta;
        let Some(change) = StatusChange::between(meta, &namespace.status, status) else {
            return Ok(Sight::Found(Box::new(namespace.clone())));
        };
        Ok(match self.status.write(&meta.key, &change).await? {
            Changed::Now(written) => Sight::Found(Box::new(Namespace::of(&written))),
            Changed::Gone => Sight::Gone,
            Changed::Conflict(_) => Sight::Unread(Some(meta.uid.clone())),
        })
    }

    /// Writes the conditions. Conditions that can't be written hold up no deletion, as upstream.
    async fn report(&self, namespace: &Namespace, status: &Status) -> Result<Outcome, SyncError> {
        match self.write(namespace, status).await {
            Ok(sight) => Ok(Outcome::Namespace(sight)),
            Err(error) if error.is_end_of_leadership() => Err(error),
            Err(error) => {
                tracing::warn!(%error, "Couldn't update status condition for namespace");
                Ok(Outcome::NotReported)
            }
        }
    }

    async fn discover(&self, namespace: &str) -> Contents {
        match self.rest_mapper.refresh().await {
            Ok(discovered) => Contents::of(&discovered, |kind| self.is_unseen(kind, namespace)),
            Err(error) => Contents::unknown(error.to_string()),
        }
    }

    /// Whether there are synced caches of the kind, and they hold nothing of the namespace.
    fn is_unseen(&self, kind: &GroupVersionResource, namespace: &str) -> bool {
        let informers = self.informers.whole_informers();
        let mut caches = informers.iter().filter(|informer| {
            let cached = informer.resource();
            let is_of_kind = cached.group == kind.group && cached.resource == kind.resource;
            is_of_kind && informer.has_synced() && !informer.is_stopped()
        });
        let is_empty = |cache: &Arc<dyn AnyInformer>| !cache.holds_any_in(namespace);
        caches.next().is_some_and(is_empty) && caches.all(is_empty)
    }

    async fn delete_each(&self, kind: &ResourceClient, namespace: &str) -> Result<(), SyncError> {
        let mut objects = Vec::new();
        match kind.for_each_meta(namespace, |object| objects.push(object.key.clone())).await {
            Err(error) if is_unsupported(&error) => return Ok(()),
            listed => listed?,
        }
        for object in objects {
            match kind.delete(&object, &BACKGROUND).await {
                Err(error) if !is_unsupported(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    async fn count(&self, kind: &ResourceClient, namespace: &str) -> Result<Leftover, SyncError> {
        let mut left = Leftover::default();
        match kind.for_each_meta(namespace, |object| left.add(object)).await {
            Err(error) if !is_unsupported(&error) => Err(error),
            _ => Ok(left),
        }
    }

    /// Makes a call for the objects of one kind. A call that failed must not keep the controller from the other kinds.
    async fn call(
        &self,
        namespace: &str,
        kind: &GroupVersionResource,
        step: &Step,
    ) -> Result<Outcome, SyncError> {
        let client = ResourceClient::new(self.sender.clone(), kind.clone(), kind.to_string());
        let called = match step {
            Step::DeleteAll(_) => match client.delete_collection(namespace, &BACKGROUND).await {
                Err(error) if is_unsupported(&error) => Ok(Called::Unsupported),
                deleted => deleted.map(|()| Called::Deleted),
            },
            Step::DeleteEach(_) => self.delete_each(&client, namespace).await.map(|()| Called::Deleted),
            _ => self.count(&client, namespace).await.map(Called::Counted),
        };
        let called = match called {
            Err(error) if error.is_end_of_leadership() => return Err(error),
            called => called.unwrap_or_else(|error| Called::Failed(message(&error))),
        };
        Ok(Outcome::Called(kind.clone(), called))
    }

    /// Removes the controller's own finalizer from the namespace's spec.
    async fn finalize(&self, namespace: &Namespace) -> Result<Sight, SyncError> {
        let meta = &namespace.meta;
        let resource = self.client.resource();
        // As JSON, so that fields stay that this program does not know.
        let Some(mut object) = resource.get_json(&meta.key).await? else { return Ok(Sight::Gone) };
        let found = &object["metadata"];
        if found["uid"] != meta.uid.to_string() || found["deletionTimestamp"].is_null() {
            return Ok(Sight::Gone);
        }
        let finalizers = object["spec"]["finalizers"].as_array().into_iter().flatten();
        let others: BTreeSet<&str> =
            finalizers.filter_map(|one| one.as_str()).filter(|one| *one != KUBERNETES).collect();
        let others = json!(others);
        object["spec"]["finalizers"] = others;
        let content = Content::json(JSON, &object);
        match resource.update(&meta.key, Subresource::Finalize, content).await {
            Ok(_) => Ok(Sight::Gone),
            Err(error) if error.is("NotFound") => Ok(Sight::Gone),
            Err(error) if error.is("Conflict") => Ok(Sight::Unread(Some(meta.uid.clone()))),
            Err(error) => Err(error),
        }
    }
}

/// Whether the API server does not know the kind, or not this verb of it. A kind whose definition was deleted since the
/// discovery is gone with its objects.
fn is_unsupported(error: &SyncError) -> bool {
    error.status().is_some_and(|status| matches!(status.code, 404 | 405))
}

/// The error as upstream writes it into conditions: the API server's message alone.
fn message(error: &SyncError) -> String {
    match error.status() {
        Some(status) if !status.message.is_empty() => status.message.clone(),
        _ => error.to_string(),
    }
}

impl Controller for NamespaceController {
    type Key = ObjectKey;
    type Observed = Deletion;
    type Step = Step;
    type Outcome = Outcome;

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Deletion>, SyncError> {
        let is_deleting = self.namespaces.meta(key).is_some_and(|namespace| namespace.is_deleting());
        Ok(if is_deleting { Observation::Ready(Deletion::default()) } else { Observation::Nothing })
    }

    fn plan(&self, deletion: &Deletion, now: Time) -> Plan<Step> {
        plan(deletion, now)
    }

    async fn act(&self, key: &ObjectKey, deletion: &Deletion, step: &Step) -> Result<Outcome, SyncError> {
        match step {
            Step::Read => self.read(key, deletion).await.map(Outcome::Namespace),
            Step::WritePhase(status) => self.write(deletion.found(), status).await.map(Outcome::Namespace),
            Step::WriteConditions(status) => self.report(deletion.found(), status).await,
            Step::Discover => Ok(Outcome::Discovered(self.discover(&key.name).await)),
            Step::DeleteAll(kind) | Step::DeleteEach(kind) | Step::Count(kind) => {
                self.call(&key.name, kind, step).await
            }
            Step::Finalize => self.finalize(deletion.found()).await.map(Outcome::Namespace),
            Step::Fail(error) => {
                Err(SyncError::Failed(format!("deleting the namespace's contents: {error}")))
            }
        }
    }

    fn absorb(&self, deletion: &mut Deletion, step: Step, result: StepResult<Outcome>) {
        deletion.absorb(&step, result);
    }
}
