//! The steps of a sync.

use steersman_api::ObjectKey;
use steersman_kinds::endpoint_slice::AddressType;

use super::topology::{Event, ZoneCounts};
use crate::slices::{Counts, Manifest, SliceRef};

/// A step of a sync.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Observes the slices again, since the cache may lack some.
    Confirm,
    /// Begins a part. Makes no call.
    Begin(Box<Note>),
    /// Creates a slice.
    Create(Box<Manifest>),
    /// Replaces a slice.
    Update(Box<Manifest>),
    /// Deletes a slice.
    Delete(SliceRef),
    /// Fails with this text, so that the service is synced again.
    Fail(String),
}

/// A part of a sync, with what it changes besides slices.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Note {
    /// The part.
    pub part: Part,
    /// The number of slices that the part writes or deletes.
    pub changes: usize,
    /// The number of endpoints that are new to the slices.
    pub added: usize,
    /// The number of endpoints that are no longer desired.
    pub removed: usize,
    /// The numbers for the gauges.
    pub counts: Counts,
    /// The number of topology aware hints for each zone; `None` if the endpoints have no such hints.
    pub hints: Option<ZoneCounts>,
    /// Whether the part leaves the service's hints of the other address type alone.
    pub keeps_hints: bool,
    /// The events to record once the part is done.
    pub events: Vec<Event>,
    /// Why the sync must be repeated though all went well.
    pub lost: Vec<String>,
}

/// A part of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Brings the slices of an address type up to date.
    Of(AddressType),
    /// Deletes slices of address types that the service does not have.
    Leftovers,
}

impl Step {
    /// Whether the step changes a slice.
    pub(super) fn writes(&self) -> bool {
        matches!(self, Self::Create(_) | Self::Update(_) | Self::Delete(_))
    }

    /// The failure of this step in upstream's words.
    pub(super) fn failure(&self, service: &ObjectKey, why: &str) -> String {
        match self {
            Self::Confirm | Self::Begin(_) | Self::Fail(_) => why.to_owned(),
            Self::Create(_) => format!("failed to create EndpointSlice for Service {service}: {why}"),
            Self::Update(manifest) => {
                format!(
                    "failed to update {} EndpointSlice for Service {service}: {why}",
                    manifest.metadata.name
                )
            }
            Self::Delete(slice) => {
                format!("failed to delete {} EndpointSlice for Service {service}: {why}", slice.key.name)
            }
        }
    }
}
