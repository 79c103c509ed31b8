//! The scale of an object: its wanted and its current number of replicas.

use serde_json::Value;
use steersman_api::{ArcStr, ResourceVersion, Uid};

use crate::controller::SyncError;

/// The `autoscaling/v1` Scale of an object. Keeps fields that are newer than this program.
#[derive(Clone, Debug)]
pub struct Scale {
    json: Value,
    /// The uid of the scaled object.
    pub uid: Uid,
    /// The version of the scaled object.
    pub resource_version: ResourceVersion,
    /// The wanted number of replicas.
    pub wanted: i32,
    /// The current number of replicas.
    pub current: i32,
    /// Selects the object's pods, as a query of the API has it. Empty if the object has no selector.
    pub selector: ArcStr,
}

impl Scale {
    pub(super) fn parse(json: Value) -> Result<Self, SyncError> {
        let number =
            |part: &str| json[part]["replicas"].as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
        let version = json["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let resource_version = ResourceVersion::parse(version)
            .map_err(|error| SyncError::Failed(format!("a Scale with a bad resourceVersion: {error}")))?;
        let (wanted, current) = (number("spec"), number("status"));
        let selector = json["status"]["selector"].as_str().unwrap_or_default().into();
        let uid = json["metadata"]["uid"].as_str().unwrap_or_default().into();
        Ok(Self { uid, resource_version, wanted, current, selector, json })
    }

    pub(super) fn with_replicas(&self, replicas: i32) -> Value {
        let mut json = self.json.clone();
        json["spec"]["replicas"] = replicas.into();
        json
    }
}
