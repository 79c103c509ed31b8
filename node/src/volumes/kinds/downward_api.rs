//! `downwardAPI`: fields of the pod as files.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, DownwardAPIVolumeSource};

use super::Sources;
use crate::aggregate::aggregate;
use crate::downward::{file_resource_value, metadata_value};
use crate::volumes::payload::{File, Payload, default_mode, mode};

pub(super) fn payload(source: &DownwardAPIVolumeSource, from: &Sources<'_>) -> Result<Payload, String> {
    files(source.items.as_deref(), default_mode(source.default_mode)?, from)
}

/// A file an item. One that names neither a field nor a resource is empty.
pub(super) fn files(
    items: Option<&[DownwardAPIVolumeFile]>,
    default_mode: u32,
    from: &Sources<'_>,
) -> Result<Payload, String> {
    let (mut payload, mut faults) = (Payload::new(), Vec::new());
    for item in items.into_iter().flatten() {
        let value = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => metadata_value(from.pod, &field.field_path),
            (None, Some(selector)) => file_resource_value(from.pod, selector, &from.node.allocatable()),
            (None, None) => Ok(String::new()),
        };
        match value {
            Ok(value) => {
                let mode = item.mode.map_or(default_mode, mode);
                payload.insert(item.path.clone(), File { data: value.into_bytes(), mode, owner: None });
            }
            Err(fault) => faults.push(fault),
        }
    }
    aggregate(faults).map_or(Ok(payload), Err)
}
