//! The outcomes of writes.

use std::marker::PhantomData;
use std::sync::Arc;

use steersman_api::{ResourceVersion, Status};
use steersman_informer::wire::meta::MetaOnly;
use steersman_informer::wire::{Kind, Object};

use crate::call::Answer;
use crate::controller::SyncError;

/// The outcome of creating an object.
#[derive(Debug)]
pub enum Created<K> {
    /// The API server created this object.
    Now(Arc<K>),
    /// An object of that name exists already. Holds the API server's answer.
    Exists(Box<Status>),
    /// The object's namespace is being deleted, so nothing can be created in it.
    NamespaceTerminating,
}

/// The outcome of changing an object.
#[derive(Debug)]
pub enum Changed<K> {
    /// The API server changed the object to this state. If the change removed the object for good, this is its last state,
    /// which may carry the version from before the change.
    Now(Arc<K>),
    /// There is no object of that name.
    Gone,
    /// A precondition does not hold: the object has another uid, or another write came first. The API server changed
    /// nothing, and this is its answer.
    Conflict(Box<Status>),
}

/// The outcome of deleting an object.
#[derive(Debug)]
pub enum Deleted<K> {
    /// The API server deleted the object, or marked it as being deleted. `None` if it answered with a bare Status, as it
    /// does for most groups but the core group: then there is no version that a cache must reach.
    Now(Option<ResourceVersion>, PhantomData<fn() -> K>),
    /// There is no object of that name.
    Gone,
    /// A precondition does not hold: another object has the name, or another write came first.
    Conflict(Box<Status>),
}

/// The version that a write gave an object: its cache must reach this version to show the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrote<'a> {
    /// The object's API group.
    pub group: &'a str,
    /// The object's resource in URLs.
    pub resource: &'a str,
    /// The version.
    pub version: ResourceVersion,
}

/// The outcome of a write, as [`OwnWrites`](crate::own_writes::OwnWrites) sees it.
pub trait WriteOutcome {
    /// The version that the write gave an object. `None` if it gave none.
    fn wrote(&self) -> Option<Wrote<'_>>;
}

impl Wrote<'static> {
    /// The version of an object of kind `K`.
    pub fn of<K: Kind>(version: ResourceVersion) -> Self {
        Self { group: K::GROUP, resource: K::RESOURCE, version }
    }
}

impl<K: Kind> WriteOutcome for Created<K> {
    fn wrote(&self) -> Option<Wrote<'_>> {
        match self {
            Self::Now(object) => Some(Wrote::of::<K>(object.meta().resource_version)),
            Self::Exists(_) | Self::NamespaceTerminating => None,
        }
    }
}

impl<K: Kind> WriteOutcome for Changed<K> {
    fn wrote(&self) -> Option<Wrote<'_>> {
        match self {
            Self::Now(object) => Some(Wrote::of::<K>(object.meta().resource_version)),
            Self::Gone | Self::Conflict(_) => None,
        }
    }
}

impl<K: Kind> WriteOutcome for Deleted<K> {
    fn wrote(&self) -> Option<Wrote<'_>> {
        match self {
            Self::Now(version, _) => version.map(Wrote::of::<K>),
            Self::Gone | Self::Conflict(_) => None,
        }
    }
}

impl<K> Created<K> {
    pub(super) fn of(
        answer: Result<Answer, SyncError>,
        decode: impl FnOnce(&Answer) -> Result<Arc<K>, SyncError>,
    ) -> Result<Self, SyncError> {
        match answer {
            Ok(answer) => decode(&answer).map(Self::Now),
            Err(SyncError::Refused { status, .. }) if status.reason == "AlreadyExists" => {
                Ok(Self::Exists(status))
            }
            Err(error) if error.status().is_some_and(|status| status.has_cause("NamespaceTerminating")) => {
                Ok(Self::NamespaceTerminating)
            }
            Err(error) => Err(error),
        }
    }
}

impl<K> Changed<K> {
    pub(super) fn of(
        answer: Result<Answer, SyncError>,
        decode: impl FnOnce(&Answer) -> Result<Arc<K>, SyncError>,
    ) -> Result<Self, SyncError> {
        match answer {
            Ok(answer) => decode(&answer).map(Self::Now),
            Err(SyncError::Refused { status, .. }) if status.reason == "NotFound" => Ok(Self::Gone),
            Err(SyncError::Refused { status, .. }) if status.reason == "Conflict" => {
                Ok(Self::Conflict(status))
            }
            Err(error) => Err(error),
        }
    }

    /// The object's new state, `None` if the object is gone. For callers that treat a conflict as a failure of the sync,
    /// which the runner tries again after the key's back-off. `what` names the attempted action in that error.
    ///
    /// # Errors
    /// There was a conflict.
    pub fn or_conflict(self, what: impl FnOnce() -> String) -> Result<Option<Arc<K>>, SyncError> {
        match self {
            Self::Now(object) => Ok(Some(object)),
            Self::Gone => Ok(None),
            Self::Conflict(status) => Err(SyncError::Refused { what: what(), status }),
        }
    }
}

impl<K> Deleted<K> {
    pub(super) fn of(answer: Result<Answer, SyncError>) -> Result<Self, SyncError> {
        match answer {
            Ok(answer) if answer.is_status() => Ok(Self::Now(None, PhantomData)),
            Ok(answer) => {
                let object: MetaOnly = answer.object(0)?;
                Ok(Self::Now(Some(object.meta().resource_version), PhantomData))
            }
            Err(SyncError::Refused { status, .. }) if status.reason == "NotFound" => Ok(Self::Gone),
            Err(SyncError::Refused { status, .. }) if status.reason == "Conflict" => {
                Ok(Self::Conflict(status))
            }
            Err(error) => Err(error),
        }
    }
}
