//! A node that keeps no groups for pods.

use std::collections::HashMap;
use std::io;

use k8s_openapi::api::core::v1::Pod;
use steersman_api::Uid;

use super::{PodCgroups, PodMemory};
use crate::container::ContainerResources;

/// `cgroupsPerQOS: false`: the runtime puts containers where it likes, and each is limited by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disabled;

impl PodCgroups for Disabled {
    fn parent_of(&self, _: &Pod) -> String {
        String::new()
    }

    fn ensure(&self, _: &Pod) -> io::Result<()> {
        Ok(())
    }

    fn resize(&self, _: &Pod) -> io::Result<()> {
        Ok(())
    }

    fn memory(&self, _: &Pod) -> PodMemory {
        PodMemory::default()
    }

    fn exists(&self, _: &Pod) -> bool {
        true
    }

    fn given(&self, _: &Pod) -> ContainerResources {
        ContainerResources::default()
    }

    fn remove(&self, _: &Uid) -> io::Result<()> {
        Ok(())
    }

    fn pods(&self) -> io::Result<HashMap<Uid, String>> {
        Ok(HashMap::new())
    }
}
