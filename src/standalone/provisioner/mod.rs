//! Makes volumes for claims that name no other: folders of the data folder, as the local path provisioners of other small
//! clusters do. Runs in `steersman standalone` only, beside the controllers: to them it is an external provisioner.
//!
//! ```text
//! binder ─> claim with the provisioner's name ─> folder, volume that is reserved for the claim ─> binder binds both
//! claim gone ─> binder ─> volume Released ─> its folder is removed, then the volume
//! ```

mod plan;

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Resource};
use steersman_api::{ArcStr, GroupVersionResource, ObjectKey};
use steersman_client::events::{EventType, Recorder};
use steersman_client::fault::told;
use steersman_informer::SharedInformer;
use steersman_informer::list_watch::{ApiListerWatcher, Scope};
use steersman_informer::shared_informer::Config;
use steersman_informer::wire::whole::Whole;
use steersman_informer::work_queue::{QueueConfig, WorkQueue};
use steersman_node::tree::remove_tree;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

pub(super) use plan::PROVISIONER;

/// Makes and removes volumes of one node.
pub(super) struct Provisioner {
    /// For watches: neither limits nor retries.
    pub(super) watch: kube::Client,
    /// For reads and writes.
    pub(super) client: kube::Client,
    /// Of [`PROVISIONER`].
    pub(super) recorder: Recorder,
    /// The node's name.
    pub(super) node: String,
    /// The folder that holds the volumes, an absolute path.
    pub(super) folder: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Claim(ObjectKey),
    Volume(ArcStr),
}

impl Provisioner {
    /// Makes the default class, unless it is there, and serves claims until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let queue = Arc::new(WorkQueue::<Key>::new(QueueConfig::new("provisioner")));
        let claims = SharedInformer::new(
            Arc::new(ApiListerWatcher::<Whole<PersistentVolumeClaim>>::new(
                self.watch.clone(),
                resource("persistentvolumeclaims"),
                Scope::default(),
            )),
            resource("persistentvolumeclaims"),
            Config::default(),
        );
        let volumes = SharedInformer::new(
            Arc::new(ApiListerWatcher::<Whole<PersistentVolume>>::new(
                self.watch.clone(),
                resource("persistentvolumes"),
                Scope::default(),
            )),
            resource("persistentvolumes"),
            Config::default(),
        );
        let (Ok(of_claims), Ok(of_volumes)) =
            (claims.select::<Whole<PersistentVolumeClaim>>(), volumes.select::<Whole<PersistentVolume>>())
        else {
            // A kind that is kept whole has no groups that could be missing.
            return;
        };
        let added = Arc::clone(&queue);
        of_claims.map(move |change| {
            let claim = change.new().and_then(|view| view.object().object());
            if claim.is_some_and(plan::waits) {
                added.add(Key::Claim(change.key().clone()));
            }
        });
        let (added, folder) = (Arc::clone(&queue), self.folder.clone());
        of_volumes.map(move |change| {
            let volume = change.new().and_then(|view| view.object().object());
            if volume.is_some_and(|volume| plan::to_remove(volume, &folder).is_some()) {
                added.add(Key::Volume(change.key().name.clone()));
            }
        });
        let work = async {
            self.make_class().await;
            while let Some(taken) = queue.get().await {
                match self.sync(taken.key()).await {
                    Ok(()) => taken.finish(),
                    Err(error) => {
                        tracing::warn!(key = ?taken.key(), %error, "A volume can't be made or removed");
                        taken.retry();
                    }
                }
            }
        };
        tokio::select! {
            ((), ()) = async { tokio::join!(claims.run(stop.clone()), volumes.run(stop.clone())) } => {}
            () = work => {}
        }
    }

    async fn make_class(&self) {
        let classes = Api::<StorageClass>::all(self.client.clone());
        let class = serde_json::from_value(plan::class()).expect("the default class must be a StorageClass");
        match classes.create(&PostParams::default(), &class).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => tracing::warn!(error = %told(&error), "The default class can't be made"),
        }
    }

    async fn sync(&self, key: &Key) -> Result<(), String> {
        match key {
            Key::Claim(key) => self.make(key).await,
            Key::Volume(name) => self.remove(name).await,
        }
    }

    /// Makes the volume of a claim that waits for one.
    async fn make(&self, key: &ObjectKey) -> Result<(), String> {
        let words = |error: kube::Error| told(&error).to_string();
        let claims = Api::<PersistentVolumeClaim>::namespaced(self.client.clone(), &key.namespace);
        let Some(claim) = claims.get_opt(&key.name).await.map_err(words)?.filter(plan::waits) else {
            return Ok(());
        };
        let classes = Api::<StorageClass>::all(self.client.clone());
        let class = classes.get(plan::class_of(&claim)).await.map_err(words)?;
        let event = |kind, reason: &'static str, message: String| {
            self.recorder.event(&claim.object_ref(&()), kind, reason, message);
        };
        let (folder, volume) = match plan::volume(&claim, &class, &self.folder, &self.node) {
            Ok(Some(made)) => made,
            Ok(None) => return Ok(()),
            Err(why) => {
                let class = plan::class_of(&claim);
                let message = format!("failed to provision volume with StorageClass {class:?}: {why}");
                event(EventType::Warning, "ProvisioningFailed", message);
                return Ok(());
            }
        };
        let message = format!("External provisioner is provisioning volume for claim \"{key}\"");
        event(EventType::Normal, "Provisioning", message);
        on_disk(move || make_folder(&folder)).await?;
        let volume: PersistentVolume =
            serde_json::from_value(volume).expect("a planned volume must be a PersistentVolume");
        let volumes = Api::<PersistentVolume>::all(self.client.clone());
        match volumes.create(&PostParams::default(), &volume).await {
            Ok(made) => {
                let name = made.metadata.name.unwrap_or_default();
                event(
                    EventType::Normal,
                    "ProvisioningSucceeded",
                    format!("Successfully provisioned volume {name}"),
                );
                Ok(())
            }
            // Made before; the binder is at work.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(words(error)),
        }
    }

    /// Removes a volume whose claim is gone: first its data.
    async fn remove(&self, name: &str) -> Result<(), String> {
        let words = |error: kube::Error| told(&error).to_string();
        let volumes = Api::<PersistentVolume>::all(self.client.clone());
        let Some(volume) = volumes.get_opt(name).await.map_err(words)? else { return Ok(()) };
        let Some(folder) = plan::to_remove(&volume, &self.folder) else { return Ok(()) };
        on_disk(move || remove_tree(&folder).map_err(io::Error::other)).await?;
        let preconditions = Preconditions { uid: volume.metadata.uid, resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match volumes.delete(name, &parameters).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
            Err(error) => Err(words(error)),
        }
    }
}

/// Makes the folder of a volume: every user of a container may write to it.
fn make_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777))
}

async fn on_disk(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<(), String> {
    let done = spawn_blocking(work).await.map_err(io::Error::other).flatten();
    done.map_err(|error| error.to_string())
}

fn resource(plural: &'static str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", plural)
}
