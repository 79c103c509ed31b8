//! Get and list.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::Response;
use jiff::Timestamp;
use serde_json::{Map, Value};
use steersman_api::ObjectKey;
use steersman_api::wire;

use super::answer::shape_of;
use super::body::ResponseBody;
use super::negotiate::{Answered, Shape};
use super::options::{ListOptions, VersionMatch, parse_version_asked};
use super::page::Position;
use super::request::Request;
use super::server::ApiServer;
use crate::codec::{self, Format};
use crate::faults::Spoiled;
use crate::refusal::{Refusal, Result};
use crate::registry::{ENVELOPE_TAIL, Resource, envelope_head, length_delimited};
use crate::store::{self, Object, View};
use crate::table::{Heads, TableShape, Tabulator};

/// How long a read waits for a version that is not yet reached. From upstream's watch cache.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);
/// Lists are sent in pieces of about this size.
const PIECE: usize = 64 * 1024;

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
        self.list_answer(request, page)
    }

    /// An answer that is a list.
    pub(super) fn list_answer(&self, request: &Request, page: Page) -> Result<Response<ResponseBody>> {
        let resource = &request.call.resource;
        let shape = shape_of(request, Answered::List)?;
        let spoiled = self.faults().spoiled(&request.call, request.user_agent());
        let served = page.objects.iter().map(|object| object.served_as(resource)).collect();
        let list = Listed { resource: Arc::clone(resource), shape, page, served, spoiled };
        match shape.table {
            Some(table) => Ok(list.table(&self.tabulator(resource, table), self.clock().now())),
            None => list.answer(),
        }
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
            let members = object.json(shape.view);
            // The head lacks the comma and the closing brace that the members bring: `{"metadata"...}`.
            if members.len() <= 2 {
                return Ok(vec![head, Bytes::from_static(b"}")]);
            }
            Ok(vec![head, Bytes::from_static(b","), members.slice(1..)])
        }
        Format::Protobuf => {
            let raw = object.protobuf(shape.view).map_err(Refusal::internal)?;
            let head = object.resource.envelope_head(shape.view, raw.len());
            Ok(vec![head, raw.clone(), Bytes::from_static(ENVELOPE_TAIL)])
        }
    }
}

/// A part of a list.
pub(crate) struct Page {
    /// The version of the snapshot that it comes from.
    version: u64,
    /// In the order of their keys.
    pub(crate) objects: Vec<Arc<Object>>,
    /// Where the next part begins.
    continue_from: Option<String>,
    /// How many come after, as far as it is known.
    remaining: Option<usize>,
}

/// A list, ready to be written.
struct Listed {
    resource: Arc<Resource>,
    shape: Shape,
    page: Page,
    /// The objects of the page, in the version of the group that was asked for.
    served: Vec<Arc<Object>>,
    spoiled: Spoiled,
}

impl Listed {
    fn answer(self) -> Result<Response<ResponseBody>> {
        let media_type = self.shape.media_type();
        let mut pieces = match self.shape.format {
            Format::Json => self.json(),
            Format::Protobuf => self.protobuf()?,
        };
        let body = if pieces.len() == 1 {
            ResponseBody::full(pieces.remove(0))
        } else {
            ResponseBody::pieces(pieces)
        };
        Ok(super::answer::answer(http::StatusCode::OK, media_type, body))
    }

    /// As a table. Objects that were to be spoiled are shown as they are: rows are not what faults are about.
    fn table(&self, tabulator: &Tabulator, now: Timestamp) -> Response<ResponseBody> {
        let mut out = Pieces::default();
        tabulator.begin(&self.resource.layout, &self.list_meta(), Heads::Shown, &mut out.open);
        for (at, object) in self.served.iter().enumerate() {
            out.put(if at > 0 { b"," } else { b"" });
            tabulator.row(object, now, &mut out.open);
        }
        out.put(Tabulator::END);
        let body = ResponseBody::pieces(out.finish());
        super::answer::answer(http::StatusCode::OK, self.shape.media_type(), body)
    }

    fn list_meta(&self) -> Map<String, Value> {
        let mut meta = Map::new();
        meta.insert("resourceVersion".to_owned(), self.page.version.to_string().into());
        if let Some(token) = &self.page.continue_from {
            meta.insert("continue".to_owned(), token.as_str().into());
        }
        if let Some(remaining) = self.page.remaining {
            meta.insert("remainingItemCount".to_owned(), remaining.into());
        }
        meta
    }

    fn json(&self) -> Vec<Bytes> {
        let (api_version, kind) = self.resource.list_shown_as(self.shape.view);
        let mut out = Pieces::default();
        out.put(b"{\"kind\":");
        out.put(&codec::json(&kind));
        out.put(b",\"apiVersion\":");
        out.put(&codec::json(&api_version));
        out.put(b",\"metadata\":");
        out.put(&codec::json(&self.list_meta()));
        out.put(b",\"items\":[");
        // Items of built-in lists do not say what they are; those of others do.
        let typed = self.resource.schema.is_none() || self.shape.view == View::Metadata;
        for (at, object) in self.served.iter().enumerate() {
            if at > 0 {
                out.put(b",");
            }
            if self.spoiled.hits(object) {
                out.put(&self.spoiled.json(object));
                continue;
            }
            let members = object.json(self.shape.view);
            if typed {
                out.put(&object.resource.json_head(self.shape.view));
                out.put(if members.len() > 2 { b"," } else { b"" });
                out.put(&members[1..]);
            } else {
                out.put(members);
            }
        }
        out.put(b"]}");
        out.finish()
    }

    fn protobuf(&self) -> Result<Vec<Bytes>> {
        let mut items = Vec::with_capacity(self.served.len());
        for object in &self.served {
            items.push(if self.spoiled.hits(object) {
                self.spoiled.protobuf(object).map_err(Refusal::internal)?
            } else {
                object.protobuf(self.shape.view).map_err(Refusal::internal)?.clone()
            });
        }
        let mut writer = wire::Writer::new();
        writer.message(1, |meta| {
            meta.text(1, "");
            meta.text(2, &self.page.version.to_string());
            meta.text(3, self.page.continue_from.as_deref().unwrap_or_default());
            if let Some(remaining) = self.page.remaining {
                meta.int64(4, i64::try_from(remaining).unwrap_or(i64::MAX));
            }
        });
        let list_meta = writer.into_bytes();
        let mut heads = Vec::new();
        let mut total = list_meta.len();
        for item in &items {
            let mut head = Vec::with_capacity(6);
            length_delimited(&mut head, 2, item.len());
            total += head.len() + item.len();
            heads.push(head);
        }
        let (api_version, kind) = self.resource.list_shown_as(self.shape.view);
        let mut out = Pieces::default();
        out.put(&envelope_head(api_version, kind, total));
        out.put(&list_meta);
        for (head, item) in heads.iter().zip(&items) {
            out.put(head);
            out.put(item);
        }
        out.put(ENVELOPE_TAIL);
        Ok(out.finish())
    }
}

/// Collects a body in pieces of moderate size.
#[derive(Default)]
struct Pieces {
    full: Vec<Bytes>,
    open: BytesMut,
}

impl Pieces {
    fn put(&mut self, bytes: &[u8]) {
        self.open.put_slice(bytes);
        if self.open.len() >= PIECE {
            self.full.push(self.open.split().freeze());
        }
    }

    fn finish(mut self) -> Vec<Bytes> {
        self.full.push(self.open.freeze());
        self.full
    }
}
