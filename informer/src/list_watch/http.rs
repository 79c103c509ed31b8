//! Requests for lists and watches, and the decoding of their answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::{Request, Response, header};
use http_body_util::BodyExt;
use kube::client::Body;
use steersman_api::wire::Reader;
use steersman_api::{ResourceVersion, Status};
use url::form_urlencoded::Serializer;

use super::silence::Silence;
use super::stream::{Parts, parts};
use super::{ApiListerWatcher, Error, Events, Freshness, ListEvent, ListRequest, WatchEvent, WatchRequest};
use crate::wire::frames::{FrameError, JsonList, JsonWatch, ListPart, ProtobufList, ProtobufWatch, RawEvent};
use crate::wire::object::Representation;
use crate::wire::{Decoded, Encoding, Message, Object, merge_message, message_from_json};

/// Bodies of errors are read up to this many bytes. A Status is shorter.
const MAX_ERROR_BODY: usize = 1 << 20;

pub(super) async fn list<K: Object>(
    source: &ApiListerWatcher<K>,
    request: ListRequest,
) -> Result<Events<ListEvent<K>>, Error> {
    let first = Page::open(source, &request, None).await?;
    let pages = Pages { source: source.shallow(), request, page: first };
    Ok(futures::stream::try_unfold(Some(pages), |pages| async move {
        let Some(mut pages) = pages else { return Ok(None) };
        let event = pages.next().await?;
        let rest = matches!(event, ListEvent::Item(_)).then_some(pages);
        Ok(Some((event, rest)))
    })
    .boxed())
}

pub(super) async fn watch<K: Object>(
    source: &ApiListerWatcher<K>,
    request: WatchRequest,
) -> Result<Events<WatchEvent<K>>, Error> {
    let get = Request::get(watch_path(source, &request))
        .header(header::ACCEPT, accept(K::REPRESENTATION, ";stream=watch"))
        // From Kubernetes 1.37 on, the API server compresses a watch with one gzip member an event. A client with kube's
        // feature `gzip` asks for that, and decodes the first member only: kube's own watches opt out likewise.
        .header(header::ACCEPT_ENCODING, "identity");
    let response = send(source, get).await?;
    let encoding = encoding(&response);
    let groups = source.groups.load(Ordering::Acquire);
    let silence = Arc::new(Silence::new(source, &request));
    let patience = {
        let silence = Arc::clone(&silence);
        move || silence.longest()
    };
    let events: Parts<RawEvent> = match encoding {
        Encoding::Protobuf => parts(response.into_body(), ProtobufWatch::default(), patience),
        Encoding::Json => parts(response.into_body(), JsonWatch::default(), patience),
    };
    Ok(futures::stream::try_unfold((events, silence), move |(mut events, silence)| async move {
        let Some(event) = events.try_next().await? else { return Ok(None) };
        let event = decode_event(event, encoding, groups)?;
        silence.broken_by(&event);
        Ok(Some((event, (events, silence))))
    })
    .boxed())
}

fn watch_path<K: Object>(source: &ApiListerWatcher<K>, request: &WatchRequest) -> String {
    let mut query = query(source);
    query.append_pair("watch", "true").append_pair("allowWatchBookmarks", "true");
    query.append_pair("timeoutSeconds", &request.timeout.as_secs().to_string());
    if request.initial_events {
        query.append_pair("sendInitialEvents", "true").append_pair("resourceVersionMatch", "NotOlderThan");
    }
    if request.from != ResourceVersion::ANY {
        query.append_pair("resourceVersion", &request.from.to_string());
    }
    query.finish()
}

fn decode_event<K: Object>(event: RawEvent, encoding: Encoding, groups: u64) -> Result<WatchEvent<K>, Error> {
    let decode = |body: &Bytes| Decoded::decode(body, encoding, groups);
    Ok(match event {
        RawEvent::Added(body) => WatchEvent::Added(decode(&body)),
        RawEvent::Modified(body) => WatchEvent::Modified(decode(&body)),
        RawEvent::Deleted(body) => WatchEvent::Deleted(decode(&body)),
        RawEvent::Bookmark(body) => bookmark(&body, encoding)?,
        RawEvent::Error(body) => {
            let status = match encoding {
                Encoding::Protobuf => Status::from_protobuf(&body).ok(),
                Encoding::Json => serde_json::from_slice(&body).ok(),
            };
            let unknown = || Status::failure(500, "InternalError", "the watch ended with an error");
            return Err(status.unwrap_or_else(unknown).into());
        }
    })
}

crate::projection! {
    /// The metadata of a bookmark that reflectors use.
    struct ProgressMeta {
        /// The server has sent all events up to this version.
        pub resource_version: steersman_api::ArcStr = 6 "resourceVersion",
        /// One of them marks the end of the initial events.
        pub annotations: steersman_api::meta::LabelMap = 12 "annotations",
    }
    /// An object of which only that metadata is read.
    struct Progress {
        /// See [`ProgressMeta`].
        pub metadata: ProgressMeta = 1 "metadata",
    }
    /// A `ListMeta`.
    struct ListMeta {
        /// The list's version.
        pub resource_version: steersman_api::ArcStr = 2 "resourceVersion",
        /// The token for the next page. Empty on the last page.
        pub next: steersman_api::ArcStr = 3 "continue",
    }
}

/// Reads a whole message of either encoding.
fn read<T: Message + Default>(body: &Bytes, encoding: Encoding) -> Result<T, Error> {
    match encoding {
        Encoding::Protobuf => {
            let mut message = T::default();
            merge_message(&mut message, Reader::new(body)).map_err(|error| Error::Frame(error.into()))?;
            Ok(message)
        }
        Encoding::Json => message_from_json(&mut serde_json::Deserializer::from_slice(body))
            .map_err(|_| Error::Frame(FrameError::Json("expected metadata", body.len()))),
    }
}

fn bookmark<K>(body: &Bytes, encoding: Encoding) -> Result<WatchEvent<K>, Error> {
    let meta = read::<Progress>(body, encoding)?.metadata;
    let version = ResourceVersion::parse(&meta.resource_version).map_err(|_| Error::NoVersion)?;
    let ends_initial = meta.annotations.get("k8s.io/initial-events-end").is_some_and(|value| value == "true");
    match ends_initial {
        // A watch from this version would begin with all objects again.
        true if version == ResourceVersion::ANY => Err(Error::NoVersion),
        true => Ok(WatchEvent::InitialEventsEnd(version)),
        false => Ok(WatchEvent::Bookmark(version)),
    }
}

fn list_path<K: Object>(source: &ApiListerWatcher<K>, request: &ListRequest, next: Option<&str>) -> String {
    let mut query = query(source);
    if let Some(limit) = request.page {
        query.append_pair("limit", &limit.to_string());
    }
    match (next, request.freshness) {
        // The token holds the version of the pages.
        (Some(next), _) => _ = query.append_pair("continue", next),
        (None, Freshness::Any) => _ = query.append_pair("resourceVersion", "0"),
        (None, Freshness::NotOlderThan(version)) => {
            query.append_pair("resourceVersion", &version.to_string());
            query.append_pair("resourceVersionMatch", "NotOlderThan");
        }
        (None, Freshness::MostRecent) => {}
    }
    query.finish()
}

/// A list in one page or several.
struct Pages<K: Object> {
    source: ApiListerWatcher<K>,
    request: ListRequest,
    page: Page,
}

/// The page that is being read.
struct Page {
    parts: Parts<ListPart>,
    encoding: Encoding,
    /// The page's metadata, which may come before or after its items.
    meta: Option<ListMeta>,
}

impl Page {
    async fn open<K: Object>(
        source: &ApiListerWatcher<K>,
        request: &ListRequest,
        next: Option<&str>,
    ) -> Result<Self, Error> {
        let get = Request::get(list_path(source, request, next))
            .header(header::ACCEPT, accept(K::REPRESENTATION, ""));
        let response = send(source, get).await?;
        let encoding = encoding(&response);
        let idle = source.idle;
        let parts = match encoding {
            Encoding::Protobuf => parts(response.into_body(), ProtobufList::default(), move || idle),
            Encoding::Json => parts(response.into_body(), JsonList::default(), move || idle),
        };
        Ok(Self { parts, encoding, meta: None })
    }
}

impl<K: Object> Pages<K> {
    async fn next(&mut self) -> Result<ListEvent<K>, Error> {
        let groups = self.source.groups.load(Ordering::Acquire);
        loop {
            match self.page.parts.next().await.transpose()? {
                Some(ListPart::Item(body)) => {
                    return Ok(ListEvent::Item(Decoded::decode(&body, self.page.encoding, groups)));
                }
                Some(ListPart::Meta(body)) => self.page.meta = Some(read(&body, self.page.encoding)?),
                None => {
                    let meta = self.page.meta.take().unwrap_or_default();
                    if meta.next.is_empty() {
                        let version = ResourceVersion::parse(&meta.resource_version).ok();
                        let known = version.filter(|version| *version != ResourceVersion::ANY);
                        return known.map(ListEvent::Complete).ok_or(Error::NoVersion);
                    }
                    self.page = Page::open(&self.source, &self.request, Some(&meta.next)).await?;
                }
            }
        }
    }
}

impl<K: Object> ApiListerWatcher<K> {
    /// Another handle on this source, for a stream that outlives the call.
    fn shallow(&self) -> Self {
        Self {
            client: self.client.clone(),
            resource: self.resource.clone(),
            scope: self.scope.clone(),
            groups: Arc::clone(&self.groups),
            idle: self.idle,
            bookmarked: Arc::clone(&self.bookmarked),
            kind: std::marker::PhantomData,
        }
    }
}

fn query<K: Object>(source: &ApiListerWatcher<K>) -> Serializer<'static, String> {
    let path = source.resource.path(&source.scope.namespace);
    let start = path.len() + 1;
    let mut query = Serializer::for_suffix(path + "?", start);
    if !source.scope.labels.is_empty() {
        query.append_pair("labelSelector", &source.scope.labels.to_string());
    }
    if !source.scope.fields.is_empty() {
        query.append_pair("fieldSelector", &source.scope.fields.to_string());
    }
    query
}

fn accept(representation: Representation, parameters: &str) -> String {
    const PARTIAL_LIST: &str = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    const PARTIAL: &str = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let partial = if parameters.is_empty() { PARTIAL_LIST } else { PARTIAL };
    match representation {
        Representation::Protobuf => {
            format!("application/vnd.kubernetes.protobuf{parameters},application/json{parameters}")
        }
        Representation::Json => format!("application/json{parameters}"),
        Representation::Metadata => format!(
            "application/vnd.kubernetes.protobuf{parameters}{partial},application/json{parameters}{partial},application/json"
        ),
    }
}

async fn send<K: Object>(
    source: &ApiListerWatcher<K>,
    request: http::request::Builder,
) -> Result<Response<Body>, Error> {
    let request =
        request.body(Body::empty()).map_err(|e| Error::Call(Box::new(kube::Error::HttpError(e))))?;
    let response = tokio::time::timeout(source.idle, source.client.send(request))
        .await
        .map_err(|_| Error::Idle(source.idle))?
        .map_err(|e| Error::Call(Box::new(e)))?;
    if response.status().is_success() {
        return Ok(response);
    }
    let (head, body) = response.into_parts();
    let body = http_body_util::Limited::new(body, MAX_ERROR_BODY);
    let body =
        tokio::time::timeout(source.idle, body.collect()).await.map_err(|_| Error::Idle(source.idle))?;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let mut status = Status::from_body(&body).unwrap_or_else(|| {
        Status::failure(head.status.as_u16(), "", head.status.canonical_reason().unwrap_or(""))
    });
    if status.code == 0 {
        status.code = head.status.as_u16().into();
    }
    if status.retry_after().is_none()
        && let Some(seconds) =
            head.headers.get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok())
    {
        status.details.get_or_insert_default().retry_after_seconds = seconds;
    }
    Err(status.into())
}

fn encoding(response: &Response<Body>) -> Encoding {
    let protobuf =
        |value: &http::HeaderValue| value.as_bytes().starts_with(b"application/vnd.kubernetes.protobuf");
    if response.headers().get(header::CONTENT_TYPE).is_some_and(protobuf) {
        Encoding::Protobuf
    } else {
        Encoding::Json
    }
}
