//! Quorum lists.

use std::sync::Arc;

use futures::TryStreamExt;
use steersman_api::{FieldSelector, LabelSelector, ResourceVersion};
use steersman_informer::list_watch::{
    ApiListerWatcher, Error as ListError, Freshness, ListEvent, ListRequest, ListerWatcher, Scope,
};
use steersman_informer::wire::{Decoded, Object};

use super::ResourceClient;
use crate::controller::SyncError;

/// Maximum number of objects in one page of a list.
const PAGE: u32 = 500;

/// The objects of a list that shows everything written before it.
#[derive(Debug)]
pub struct Listed<K> {
    /// The objects.
    pub objects: Vec<Arc<K>>,
    /// The list's version: a state that is as old or older is in the list, or is outdated.
    pub as_of: ResourceVersion,
}

pub(super) async fn list<K: Object>(
    resource: &ResourceClient,
    groups: u64,
    namespace: &str,
    selector: &LabelSelector,
) -> Result<Listed<K>, SyncError> {
    let mut objects = Vec::new();
    let as_of =
        for_each(resource, groups, namespace, selector, |object| objects.push(Arc::new(object))).await?;
    Ok(Listed { objects, as_of })
}

/// Calls `look` with each object of a list, and returns the list's version. Holds one object at a time.
pub(crate) async fn for_each<K: Object>(
    resource: &ResourceClient,
    groups: u64,
    namespace: &str,
    selector: &LabelSelector,
    look: impl FnMut(K),
) -> Result<ResourceVersion, SyncError> {
    let as_of = walk(resource, groups, namespace, selector, look).await?;
    as_of
        .ok_or_else(|| SyncError::Failed(format!("listing {}: the list has no version", resource.resource())))
}

/// As [`for_each`]. Returns `None` if the list has no version: some servers of aggregated groups give none.
pub(super) async fn walk<K: Object>(
    resource: &ResourceClient,
    groups: u64,
    namespace: &str,
    selector: &LabelSelector,
    mut look: impl FnMut(K),
) -> Result<Option<ResourceVersion>, SyncError> {
    let what =
        || format!("listing {} in namespace {namespace:?} with labels {selector}", resource.resource());
    let scope =
        Scope { namespace: namespace.into(), labels: selector.clone(), fields: FieldSelector::default() };
    // A list is rare, and costs far more than the client that it is given.
    let client = resource.sender().client();
    let source = ApiListerWatcher::<K>::new(client, resource.resource().clone(), scope);
    source.keep(groups);
    let failed = |error: ListError| match error {
        ListError::Status(status) => SyncError::Refused { what: what(), status },
        error => SyncError::Failed(format!("{}: {error}", what())),
    };
    let request = ListRequest { freshness: Freshness::MostRecent, page: Some(PAGE) };
    let mut events = source.list(request).await.map_err(failed)?;
    let mut as_of = None;
    loop {
        let event = match events.try_next().await {
            Ok(Some(event)) => event,
            // This error comes after the last object.
            Ok(None) | Err(ListError::NoVersion) => break,
            Err(error) => return Err(failed(error)),
        };
        match event {
            ListEvent::Item(Decoded::Good(object)) => look(object),
            ListEvent::Item(Decoded::Unreadable(object, _)) => {
                return Err(SyncError::Unreadable(format!("{} {}", resource.resource(), object.meta().key)));
            }
            ListEvent::Item(Decoded::Lost(error)) => {
                return Err(SyncError::Failed(format!("{}: {error}", what())));
            }
            ListEvent::Complete(version) => as_of = Some(version),
        }
    }
    Ok(as_of)
}
