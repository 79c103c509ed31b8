//! Get and list.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use steersman_api::ObjectKey;

use super::answer::shape_of;
use super::body::ResponseBody;
use super::listed::Listed;
use super::negotiate::{Answered, Shape};
use super::options::{ListOptions, VersionMatch, parse_version_asked};
use super::page::Position;
use super::request::Request;
use super::server::ApiServer;
use crate::codec::Format;
use crate::refusal::{Refusal, Result};
use crate::registry::{ENVELOPE_TAIL, Resource};
use crate::store::{self, Object};
use crate::table::{Heads, TableShape, Tabulator};

/// How long a read waits for a version that is not yet reached. From upstream's watch cache.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

impl ApiServer {
    /// One object.
    pub(super) async fn get(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let call = &request.call;
        let shape = shape_of(request, Answered::Object)?;
        if let Some(version) = request.query.get("resourceVersion") {
            self.wait_for(parse_version_asked(version)?).await?;
        }
        let object = self.existing(&call.resource, &call.namespace, &call.name)?;
        if call.subresource == "scale" {
            return self.get_scale(request, &object);
        }
        self.object_answer(http::StatusCode::OK, &object.served_as(&call.resource), shape)
    }

    /// The present state of an object.
    pub(super) fn existing(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Arc<Object>> {
        let found = self.store().get(&resource.table, &ObjectKey::new(namespace, name));
        found.ok_or_else(|| Refusal::not_found(resource, name))
    }

    /// Resolves once a version is reached.
    pub(super) async fn wait_for(&self, version: u64) -> Result<()> {
        if self.store().revision() >= version {
            return Ok(());
        }
        let reached = tokio::time::timeout(FRESHNESS_WAIT, self.store().reached(version)).await;
        reached.map_err(|_| Refusal::version_too_large(version, self.store().revision()))
    }

    /// Many objects.
    pub(super) async fn list(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let resource = &request.call.resource;
        let options = ListOptions::parse(request)?;
        let page = self.page(resource, &options).await?;
        self.list_answer(request, page).await
    }

    /// An answer that is a list.
    pub(super) async fn list_answer(&self, request: &Request, page: Page) -> Result<Response<ResponseBody>> {
        let resource = Arc::clone(&request.call.resource);
        let shape = shape_of(request, Answered::List)?;
        let spoiled = self.faults().spoiled(&request.call, request.user_agent());
        let rows = shape.table.map(|table| (self.tabulator(&resource, table), self.clock().now()));
        let list = Listed { resource, view: shape.view, page, spoiled };
        let body = match (rows, shape.format) {
            (Some((tabulator, now)), _) => list.table(tabulator, now),
            (None, Format::Json) => list.json(),
            (None, Format::Protobuf) => list.protobuf().await?,
        };
        Ok(super::answer::answer(http::StatusCode::OK, shape.media_type(), body))
    }

    /// The objects that a list gives.
    pub(super) async fn page(&self, resource: &Resource, options: &ListOptions) -> Result<Page> {
        let (at, after, limit) = match &options.continue_from {
            Some(token) => {
                if options.version.is_some_and(|version| version != 0) {
                    let why = "specifying resource version is not allowed when using continue";
                    return Err(Refusal::bad_request(why));
                }
                let position = Position::decode(token, &options.selection.namespace)?;
                // Whatever the cache holds: upstream then leaves the limit out of account.
                let limit = if options.version == Some(0) { 0 } else { options.limit };
                (position.version, Some(position.after), limit)
            }
            None => {
                let exact = options.version_match == Some(VersionMatch::Exact)
                    || options.version_match.is_none() && options.limit > 0;
                match options.version {
                    // Whatever the cache holds: upstream then leaves the limit out of account.
                    Some(0) => (None, None, 0),
                    Some(version) => {
                        self.wait_for(version).await?;
                        (exact.then_some(version), None, options.limit)
                    }
                    None => (None, None, options.limit),
                }
            }
        };
        let selection = &options.selection;
        let snapshot = self.store().snapshot(&resource.table, &selection.namespace, at).map_err(|error| {
            match (error, &after) {
                (store::Error::Future(current), _) => {
                    Refusal::version_too_large(at.unwrap_or_default(), current)
                }
                (_, Some(after)) => {
                    let position = Position { version: None, after: after.clone() };
                    Refusal::continue_expired(position.encode(&selection.namespace))
                }
                (_, None) => Refusal::list_expired(),
            }
        })?;
        let mut objects = snapshot.objects;
        if let Some(after) = &after {
            objects.retain(|object| object.key > *after);
        }
        if !selection.takes_all() {
            objects.retain(|object| selection.matches(object));
        }
        let mut page = Page { version: snapshot.version, objects, continue_from: None, remaining: None };
        if limit > 0 && page.objects.len() > limit {
            // Upstream can't count what it has not filtered, so it only tells when it need not.
            page.remaining = selection.takes_all().then_some(page.objects.len() - limit);
            page.objects.truncate(limit);
            let after = page.objects[limit - 1].key.clone();
            let position = Position { version: Some(snapshot.version), after };
            page.continue_from = Some(position.encode(&selection.namespace));
        }
        Ok(page)
    }

    /// An answer that is one object.
    pub(super) fn object_answer(
        &self,
        code: http::StatusCode,
        object: &Object,
        shape: Shape,
    ) -> Result<Response<ResponseBody>> {
        let body = match shape.table {
            Some(table) => {
                let tabulator = self.tabulator(&object.resource, table);
                ResponseBody::full(tabulator.single(object, self.clock().now(), Heads::Shown).freeze())
            }
            None => ResponseBody::pieces(object_bytes(object, shape)?),
        };
        Ok(super::answer::answer(code, shape.media_type(), body))
    }

    /// Makes rows of a resource's objects.
    pub(super) fn tabulator(&self, resource: &Arc<Resource>, shape: TableShape) -> Tabulator {
        Tabulator { resource: Arc::clone(resource), storage: self.stored_as(resource), shape }
    }
}

/// An object as it stands on its own, in pieces that are shared.
pub(crate) fn object_bytes(object: &Object, shape: Shape) -> Result<Vec<Bytes>> {
    match shape.format {
        Format::Json => {
            let head = object.resource.json_head(shape.view);
            let tail = object.json_tail(shape.view).into_iter().filter(|part| !part.is_empty());
            Ok(std::iter::once(head).chain(tail).collect())
        }
        Format::Protobuf => {
            let raw = object.protobuf(shape.view).map_err(Refusal::internal)?;
            let head = object.resource.envelope_head(shape.view, raw.len());
            Ok(vec![head, raw, Bytes::from_static(ENVELOPE_TAIL)])
        }
    }
}

/// A part of a list.
pub(crate) struct Page {
    /// The version of the snapshot that it comes from.
    pub(super) version: u64,
    /// In the order of their keys.
    pub(crate) objects: Vec<Arc<Object>>,
    /// Where the next part begins.
    pub(super) continue_from: Option<String>,
    /// How many come after, as far as it is known.
    pub(super) remaining: Option<usize>,
}
