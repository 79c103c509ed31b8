//! The images of containers: whether they are at hand, and getting those that are not.

mod back_off;
pub mod credentials;
mod go_duration;
mod list;
mod metrics;
mod pull_records;
mod puller;
pub mod reference;
mod runtime_images;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod, Secret};

pub use self::list::node_status_images;
pub use self::metrics::Metrics;
pub use self::pull_records::{Allowlist, PolicyError, VerificationPolicy};
pub use self::puller::{Parallelism, Rate};
pub use self::runtime_images::{Error, RuntimeImages, Settings};
use crate::cri::v1;

/// Makes sure of images (`ImageManager` upstream).
#[async_trait]
pub trait ImageManager: Send + Sync + 'static {
    /// The reference of the container's image in the runtime, once it is at hand; pulled before where the pull policy
    /// asks for it. Tells events of the container (`involved`).
    ///
    /// # Errors
    /// Reason and message of the container's waiting state.
    async fn ensure_image_exists(
        &self,
        pod: &Pod,
        container: &Container,
        involved: &ObjectReference,
        pull_secrets: &[Secret],
        sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<String, ImageError>;
}

/// Why an image is not to be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ImageError {
    /// Which kind of failure, in upstream's word.
    pub reason: ImageErrorReason,
    /// For people: what the waiting state shows.
    pub message: String,
}

/// Upstream's words for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageErrorReason {
    /// The runtime could not be asked.
    ImageInspectError,
    /// The pull failed.
    ErrImagePull,
    /// The pull failed before, and it is too early to try again.
    ImagePullBackOff,
    /// It is not at hand, and must not be pulled.
    ErrImageNeverPull,
    /// The name is not one of an image.
    InvalidImageName,
    /// The registry could not be reached.
    RegistryUnavailable,
    /// The image's signature is not good.
    SignatureValidationFailed,
}

impl ImageErrorReason {
    /// As the waiting state has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ImageInspectError => "ImageInspectError",
            Self::ErrImagePull => "ErrImagePull",
            Self::ImagePullBackOff => "ImagePullBackOff",
            Self::ErrImageNeverPull => "ErrImageNeverPull",
            Self::InvalidImageName => "InvalidImageName",
            Self::RegistryUnavailable => "RegistryUnavailable",
            Self::SignatureValidationFailed => "SignatureValidationFailed",
        }
    }
}
