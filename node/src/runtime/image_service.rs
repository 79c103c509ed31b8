//! The image half of the CRI.

use async_trait::async_trait;

use super::Result;
use crate::cri::v1;

/// Upstream's `ImageManagerService`. Any number of callers at a time; dropping a call gives it up.
#[async_trait]
pub trait ImageService: Send + Sync + 'static {
    /// The images at hand that `filter` lets through; the default lets all. containerd lists all whatever the filter.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn list_images(&self, filter: &v1::ImageFilter) -> Result<Vec<v1::Image>>;

    /// The image of that name, digest or id; `image` is `None` where it is not at hand.
    ///
    /// Deadline: [`Default`](super::Deadline::Default). Errors: [`Incomplete`](super::Error::Incomplete) for an image
    /// without id or size.
    async fn image_status(&self, image: &v1::ImageSpec) -> Result<v1::ImageStatusResponse>;

    /// Pulls an image, whether or not it is at hand; answers with its reference, which is never empty.
    ///
    /// Deadline: [none](super::Deadline::Unbounded). Errors: [`Pull`](super::Error::Pull) for a failure without a code.
    async fn pull_image(
        &self,
        image: &v1::ImageSpec,
        auth: Option<&v1::AuthConfig>,
        sandbox_config: Option<&v1::PodSandboxConfig>,
    ) -> Result<String>;

    /// Removes an image under all its names; idempotent.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn remove_image(&self, image: &v1::ImageSpec) -> Result<()>;

    /// What the file systems hold that images and containers lie on.
    ///
    /// Deadline: [`Default`](super::Deadline::Default).
    async fn image_fs_info(&self) -> Result<v1::ImageFsInfoResponse>;
}
