//! Makes sure of images through the runtime.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerImage, ObjectReference, Pod, Secret};
use parking_lot::Mutex;
use steersman_api::Uid;
use tokio::time::Instant;

use super::back_off::BackOff;
use super::credentials::{Credential, Keyring, NodeFile};
use super::go_duration::GoMillis;
use super::list::node_status_images;
use super::metrics::Metrics;
use super::pull_records::{PullRecords, VerificationPolicy};
use super::puller::{Parallelism, PulledImage, Puller, Rate};
use super::{ImageError, ImageErrorReason, ImageManager, reference};
use crate::blocking::blocking;
use crate::cri::v1;
use crate::events::{EventType, Events};
use crate::root_dir::RootDir;
use crate::runtime::{self, ImageService};
use crate::startup_latency::StartupLatency;

/// How images are pulled. The default is the kubelet's.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// How many pulls go on at a time. Default: one.
    pub parallelism: Parallelism,
    /// How often registries are asked. Default: 5 a second, 10 at once.
    pub rate: Rate,
    /// Which images at hand a pod may use unseen. Default: those that this node did not pull.
    pub verification: VerificationPolicy,
    /// `--image-credential-provider-config`: refused where set. Default: none.
    pub credential_provider_config: Option<PathBuf>,
}

/// Why images can't be managed. The node can't start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Plugins that give credentials are asked for.
    #[error(
        "credential provider plugins are not supported: {0} must not be set (use image pull secrets, or config.json in \
         the root directory)"
    )]
    CredentialProviders(PathBuf),
    /// The folder of pull records can't be made.
    #[error("failed to open the records of image pulls in {folder}: {source}")]
    Records {
        /// The node's folder.
        folder: PathBuf,
        /// What the file system says.
        source: std::io::Error,
    },
}

/// Upstream's image manager over the runtime's image service.
///
/// A pod may use an image at hand where the pull policy lets it and the node's records say that it could have pulled it
/// ([`VerificationPolicy`]); otherwise the image is pulled, with each of the pod's and then the node's credentials that fit
/// it. Pods wait after failed pulls, each for itself. Any number of callers at a time; dropping a call gives up its pull.
pub struct RuntimeImages {
    service: Arc<dyn ImageService>,
    events: Events,
    metrics: Metrics,
    puller: Puller,
    node_logins: Arc<NodeFile>,
    records: Arc<PullRecords>,
    back_off: Mutex<BackOff>,
    startup: StartupLatency,
}

/// `imagePullPolicy`, as it is understood here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

/// What is asked of the manager, for the life of one call.
struct Request<'a> {
    pod: &'a Pod,
    involved: &'a ObjectReference,
    /// As the container names it.
    image: &'a str,
    policy: PullPolicy,
    pull_secrets: &'a [Secret],
    sandbox_config: &'a v1::PodSandboxConfig,
}

impl PullPolicy {
    /// The policy of a container; where it has none, that of the API server's defaults, by the image's tag.
    fn of(container: &Container, image: &str) -> Self {
        match container.image_pull_policy.as_deref() {
            Some("IfNotPresent") => Self::IfNotPresent,
            Some("Never") => Self::Never,
            None | Some("") => match reference::parse(image) {
                Ok(name) if name.tag != "latest" => Self::IfNotPresent,
                _ => Self::Always,
            },
            Some(_) => Self::Always,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

impl RuntimeImages {
    /// A manager of the runtime's images; its records and the node's logins are in `root`. Blocking.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(
        service: Arc<dyn ImageService>,
        events: Events,
        root: &RootDir,
        settings: Settings,
        metrics: Metrics,
    ) -> Result<Self, Error> {
        if let Some(path) = settings.credential_provider_config {
            return Err(Error::CredentialProviders(path));
        }
        let folder = root.path();
        let records = PullRecords::open(folder, settings.verification, metrics.clone())
            .map_err(|source| Error::Records { folder: folder.to_owned(), source })?;
        Ok(Self {
            puller: Puller::new(Arc::clone(&service), settings.parallelism, settings.rate),
            service,
            events,
            metrics,
            node_logins: Arc::new(NodeFile::new(folder)),
            records: Arc::new(records),
            back_off: Mutex::default(),
            startup: StartupLatency::new(),
        })
    }

    /// The same, which tells `startup` of pulls.
    #[must_use]
    pub fn telling(self, startup: StartupLatency) -> Self {
        Self { startup, ..self }
    }

    /// Settles the records of pulls that were under way when the node went away. To be called once, when the runtime
    /// answers and before the first pod.
    ///
    /// # Errors
    /// The runtime's; then images that were being pulled stay unsettled, and those who want them must pull.
    pub async fn settle(&self) -> runtime::Result<()> {
        let images = self.service.list_images(&v1::ImageFilter::default()).await?;
        self.with_records(move |records| {
            if let Err(error) = records.settle(&images, Timestamp::now()) {
                tracing::error!(%error, "The records of image pulls under way can't be listed");
            }
        })
        .await;
        Ok(())
    }

    /// The images at hand as a node's status tells them: at most `max`, the greatest first.
    ///
    /// # Errors
    /// The runtime's.
    pub async fn list(&self, max: Option<usize>) -> runtime::Result<Vec<ContainerImage>> {
        let images = self.service.list_images(&v1::ImageFilter::default()).await?;
        Ok(node_status_images(&images, max))
    }

    /// Forgets who pulled images that the runtime no longer has: somebody removed them. To be called now and then.
    ///
    /// # Errors
    /// The runtime's; nothing is forgotten then.
    pub async fn forget_pulls(&self) -> runtime::Result<()> {
        // What is pulled from now on need not be in the list.
        let before = Timestamp::now();
        let images = self.service.list_images(&v1::ImageFilter::default()).await?;
        let at_hand: HashSet<String> = images.into_iter().map(|image| image.id).collect();
        self.with_records(move |records| {
            if let Err(error) = records.prune(&at_hand, before) {
                tracing::error!(%error, "Records of image pulls can't be removed");
            }
        })
        .await;
        Ok(())
    }

    async fn ensure(&self, request: &Request<'_>) -> Result<String, ImageError> {
        let Request { image, policy, .. } = *request;
        let (mut present, mut pull_required) = (None, None);
        let answer = self.observed(request, &mut present, &mut pull_required).await;
        self.metrics.ensured(policy.as_str(), present, pull_required);
        answer.inspect_err(|error| {
            tracing::debug!(image, reason = error.reason.as_str(), note = error.message, "No image");
        })
    }

    /// As [`ensure`](Self::ensure); notes what it found out, for the metric.
    async fn observed(
        &self,
        request: &Request<'_>,
        present: &mut Option<bool>,
        pull_required: &mut Option<bool>,
    ) -> Result<String, ImageError> {
        let Request { pod, image, policy, .. } = *request;
        let tagged = reference::with_default_tag(image).map_err(|error| {
            let error = format!("couldn't parse image name {image:?}: {error}");
            let message = format!("Failed to apply default image tag {image:?}: {error}");
            self.warn(request, "InspectFailed", message, ImageErrorReason::InvalidImageName)
        })?;
        let annotations = pod.metadata.annotations.clone().unwrap_or_default();
        let spec = v1::ImageSpec { image: tagged, annotations, ..v1::ImageSpec::default() };

        if policy != PullPolicy::Always {
            let at_hand = self.image_ref(request, &spec).await?;
            *present = Some(at_hand.is_some());
            if let Some(image_ref) = at_hand {
                let required = self.must_pull(request, &image_ref).await?;
                *pull_required = Some(required);
                if !required {
                    let message = format!(
                        "Container image {image:?} already present on machine and can be accessed by the pod"
                    );
                    self.events.event(request.involved, EventType::Normal, "Pulled", &message);
                    return Ok(image_ref);
                }
            }
        }
        // What is there and must not be used looks as if it were not there.
        if policy == PullPolicy::Never {
            let message = format!("Container image {image:?} is not present with pull policy of Never");
            return Err(self.warn(
                request,
                "ErrImageNeverPull",
                message,
                ImageErrorReason::ErrImageNeverPull,
            ));
        }
        *pull_required = Some(true);
        self.pull(request, &spec).await
    }

    /// The image's reference where it is at hand.
    async fn image_ref(
        &self,
        request: &Request<'_>,
        spec: &v1::ImageSpec,
    ) -> Result<Option<String>, ImageError> {
        let status = self.service.image_status(spec).await.map_err(|error| {
            // Upstream names no image here.
            let message = format!("Failed to inspect image \"\": {error}");
            self.warn(request, "InspectFailed", message, ImageErrorReason::ImageInspectError)
        })?;
        Ok(status.image.map(|image| image.id).filter(|id| !id.is_empty()))
    }

    async fn must_pull(&self, request: &Request<'_>, image_ref: &str) -> Result<bool, ImageError> {
        let (image, image_ref) = (request.image.to_owned(), image_ref.to_owned());
        let secrets = request.pull_secrets.to_vec();
        let answer = self
            .with_records(move |records| {
                let credentials = || pod_credentials(&image, &secrets);
                records.must_pull(&image, &image_ref, credentials, Timestamp::now())
            })
            .await;
        answer.map_err(err_image_pull)
    }

    /// The credentials to try: the pod's, then the node's.
    async fn credentials(&self, request: &Request<'_>) -> Result<Vec<Credential>, ImageError> {
        let mut credentials = pod_credentials(request.image, request.pull_secrets).map_err(err_image_pull)?;
        let repository = repository(request.image);
        let node_logins = Arc::clone(&self.node_logins);
        let of_node = blocking(move || node_logins.keyring().lookup(&repository)).await;
        credentials.extend(of_node);
        Ok(credentials)
    }

    async fn pull(&self, request: &Request<'_>, spec: &v1::ImageSpec) -> Result<String, ImageError> {
        let Request { pod, involved, image, .. } = *request;
        let credentials = self.credentials(request).await?;
        let uid = Uid::from(pod.metadata.uid.as_deref().unwrap_or_default());
        if let Some(failure) = self.back_off.lock().check(&uid, image, Instant::now()) {
            let message = format!("Back-off pulling image {image:?}");
            self.events.event(involved, EventType::Normal, "BackOff", &message);
            let message = format!("{message}: {failure}");
            return Err(ImageError { reason: ImageErrorReason::ImagePullBackOff, message });
        }
        let intent = Intent::begin(&self.records, image).await.map_err(err_image_pull)?;
        self.events.event(involved, EventType::Normal, "Pulling", &format!("Pulling image {image:?}"));
        let (began, began_at) = (Instant::now(), Timestamp::now());
        let pulled = self.puller.pull(spec, credentials, request.sandbox_config).await;
        self.startup.pulled(&uid.to_string(), began_at, Timestamp::now());
        match pulled {
            Ok(PulledImage { image_ref, size, took, credential }) => {
                let whole = began.elapsed();
                let message = format!(
                    "Successfully pulled image {image:?} in {} ({} including waiting). Image size: {size} bytes.",
                    GoMillis(took),
                    GoMillis(whole)
                );
                self.events.event(involved, EventType::Normal, "Pulled", &message);
                self.metrics.pulled(whole, size);
                self.back_off.lock().collect_garbage(Instant::now());
                intent.pulled(image_ref.clone(), credential).await;
                Ok(image_ref)
            }
            Err(error) => {
                intent.failed().await;
                let message = format!("Failed to pull image {image:?}: {error}");
                self.events.event(involved, EventType::Warning, "Failed", &message);
                let error = pull_error(image, &error);
                let failure = format!("{}: {}", error.reason.as_str(), error.message);
                self.back_off.lock().failed(&uid, image, failure, Instant::now());
                Err(error)
            }
        }
    }

    fn warn(
        &self,
        request: &Request<'_>,
        event: &'static str,
        message: String,
        reason: ImageErrorReason,
    ) -> ImageError {
        self.events.event(request.involved, EventType::Warning, event, &message);
        ImageError { reason, message }
    }

    async fn with_records<T: Send + 'static>(
        &self,
        act: impl FnOnce(&PullRecords) -> T + Send + 'static,
    ) -> T {
        let records = Arc::clone(&self.records);
        blocking(move || act(&records)).await
    }
}

#[async_trait]
impl ImageManager for RuntimeImages {
    async fn ensure_image_exists(
        &self,
        pod: &Pod,
        container: &Container,
        involved: &ObjectReference,
        pull_secrets: &[Secret],
        sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<String, ImageError> {
        let image = container.image.as_deref().unwrap_or_default();
        let policy = PullPolicy::of(container, image);
        self.ensure(&Request { pod, involved, image, policy, pull_secrets, sandbox_config }).await
    }
}

/// A pull that is on record as under way. Dropped, it counts as given up.
struct Intent {
    records: Arc<PullRecords>,
    image: String,
    ended: bool,
}

impl Intent {
    async fn begin(records: &Arc<PullRecords>, image: &str) -> Result<Self, String> {
        let (records, image) = (Arc::clone(records), image.to_owned());
        // Made where the file is written, so that it is dropped there should nobody wait any more.
        blocking(move || match records.begin(&image) {
            Ok(()) => Ok(Self { records, image, ended: false }),
            Err(error) => Err(format!(
                "Failed to record image pull intent for container image {image:?}: failed to record image pull intent: \
                 {error}"
            )),
        })
        .await
    }

    async fn pulled(mut self, image_ref: String, credential: Option<Credential>) {
        blocking(move || {
            self.ended = true;
            self.records.pulled(&self.image, &image_ref, credential.as_ref(), Timestamp::now());
        })
        .await;
    }

    async fn failed(mut self) {
        blocking(move || {
            self.ended = true;
            self.records.failed(&self.image);
        })
        .await;
    }
}

impl Drop for Intent {
    fn drop(&mut self) {
        if !self.ended {
            self.records.given_up(&self.image);
        }
    }
}

/// The credentials of the pod's secrets that fit the image.
fn pod_credentials(image: &str, secrets: &[Secret]) -> Result<Vec<Credential>, String> {
    let keyring = Keyring::from_secrets(secrets).map_err(|error| error.to_string())?;
    Ok(keyring.lookup(&repository(image)))
}

/// The image's repository, completed. The name is known to be good.
fn repository(image: &str) -> String {
    reference::parse(image).map(|name| name.repository).unwrap_or_default()
}

fn err_image_pull(message: String) -> ImageError {
    ImageError { reason: ImageErrorReason::ErrImagePull, message }
}

/// A failed pull by what the runtime's message begins with.
fn pull_error(image: &str, error: &str) -> ImageError {
    let causes = [
        ("RegistryUnavailable", ImageErrorReason::RegistryUnavailable, "the registry is unavailable"),
        (
            "SignatureValidationFailed",
            ImageErrorReason::SignatureValidationFailed,
            "the signature validation failed",
        ),
    ];
    for (word, reason, cause) in causes {
        if let Some(rest) = error.strip_prefix(word) {
            let message = format!("image pull failed for {image} because {cause}{rest}");
            return ImageError { reason, message };
        }
    }
    err_image_pull(error.to_owned())
}

#[cfg(test)]
mod tests;
