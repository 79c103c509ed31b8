//! The image half of the simulation.

use async_trait::async_trait;

use super::images::{Pull, named};
use super::{SimulatedRuntime, pause, usage};
use crate::cri::v1;
use crate::runtime::{Deadline, Error, ImageService, Operation, Result};

#[async_trait]
impl ImageService for SimulatedRuntime {
    async fn list_images(&self, filter: &v1::ImageFilter) -> Result<Vec<v1::Image>> {
        let work = async { Ok(self.with(|state, _| state.images.list(filter))) };
        self.call(Operation::ListImages, Deadline::Default, Vec::new(), work).await
    }

    async fn image_status(&self, image: &v1::ImageSpec) -> Result<v1::ImageStatusResponse> {
        let work = async {
            let name = named(image)?;
            let image = self.with(|state, _| state.images.find(name).cloned());
            Ok(v1::ImageStatusResponse { image, ..Default::default() })
        };
        self.call(Operation::ImageStatus, Deadline::Default, vec![image.image.clone()], work).await
    }

    async fn pull_image(
        &self,
        image: &v1::ImageSpec,
        _auth: Option<&v1::AuthConfig>,
        sandbox_config: Option<&v1::PodSandboxConfig>,
    ) -> Result<String> {
        let mut targets = vec![image.image.clone()];
        if let Some(metadata) = sandbox_config.and_then(|config| config.metadata.as_ref()) {
            targets.extend([metadata.uid.clone(), metadata.name.clone()]);
        }
        let work = async {
            let name = named(image)?;
            match self.with(|state, _| state.images.pull(name)) {
                Pull::After(delay) => {
                    pause(delay).await;
                    Ok(self.with(|state, _| state.images.add(name)))
                }
                Pull::Fails { after, code, message } => {
                    pause(after).await;
                    Err(Error::Status { code, message })
                }
            }
        };
        self.call(Operation::PullImage, Deadline::Unbounded, targets, work).await.map_err(Error::of_pull)
    }

    async fn remove_image(&self, image: &v1::ImageSpec) -> Result<()> {
        let work = async {
            let name = named(image)?;
            self.with(|state, _| state.images.remove(name));
            Ok(())
        };
        self.call(Operation::RemoveImage, Deadline::Default, vec![image.image.clone()], work).await
    }

    async fn image_fs_info(&self) -> Result<v1::ImageFsInfoResponse> {
        let work = async {
            let (bytes, inodes, stamp) =
                self.with(|state, now| (state.images.bytes(), state.images.count(), state.clock.nanos(now)));
            let inodes = u64::try_from(inodes).unwrap_or(u64::MAX);
            Ok(v1::ImageFsInfoResponse {
                image_filesystems: vec![usage::file_system(stamp, bytes, inodes)],
                container_filesystems: vec![usage::file_system(stamp, 0, 0)],
            })
        };
        self.call(Operation::ImageFsInfo, Deadline::Default, Vec::new(), work).await
    }
}
