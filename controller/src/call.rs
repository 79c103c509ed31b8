//! A sync's calls to the API server.

use std::error::Error as StdError;
use std::fmt;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt, Collected, Limited};
use steersman_api::wire::Reader;
use steersman_api::{ResourceVersion, Status, wire};
use steersman_client::{ResponseBody, Sender, fault, gate};
use steersman_informer::wire::{Encoding, Object};

use crate::controller::SyncError;

/// A request to the API server.
#[derive(Debug)]
pub struct Call {
    /// What the call does, for errors: `creating pod default/a-x7k2p`.
    pub what: String,
    /// The HTTP method.
    pub method: Method,
    /// The URL's path and query.
    pub path: String,
    /// The form of the answer.
    pub accept: Accept,
    /// The request's body, if it has one.
    pub content: Option<Content>,
}

/// A body with its media type. Its debug form lacks the body, which may be that of a Secret.
#[derive(Clone)]
pub struct Content {
    /// The media type, such as `application/json`.
    pub media_type: &'static str,
    /// The body, encoded in that type.
    pub bytes: Bytes,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.bytes.len();
        f.debug_struct("Content").field("media_type", &self.media_type).field("length", &length).finish()
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("what", &self.what)
            .field("length", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The form in which the API server should answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// The object in protobuf, or in JSON if the API server has no protobuf of the kind.
    Object,
    /// The object's metadata only.
    Metadata,
    /// The object's metadata only, in JSON.
    MetadataJson,
    /// The metadata of a list's objects only.
    MetadataList,
    /// The object in JSON, with all of its fields.
    Json,
}

impl Accept {
    fn header(self) -> &'static str {
        match self {
            Self::Object => "application/vnd.kubernetes.protobuf,application/json",
            Self::Metadata => {
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
            Self::MetadataJson => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
            Self::MetadataList => {
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
            Self::Json => JSON,
        }
    }
}

/// The API server's answer to a call that succeeded. Its debug form lacks the body, which may be that of a Secret.
pub struct Answer {
    what: String,
    encoding: Encoding,
    /// Whether the answer is a bare Status, as it is for deletes of most kinds.
    is_status: bool,
    /// The object or list, without the envelope that surrounds protobuf.
    body: Bytes,
}

/// Maximum size of an answer in bytes. etcd stores objects of up to 1.5 MiB; in JSON they may be several times as large.
const LARGEST: usize = 32 * 1024 * 1024;

/// Protobuf, in the envelope that Kubernetes puts around it.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// JSON.
pub const JSON: &str = "application/json";
/// A JSON merge patch: it merges maps, and replaces lists as a whole.
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// A server-side apply.
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";
/// A strategic merge patch: it also merges the lists of Kubernetes's own kinds, by their merge keys.
pub const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

impl Content {
    /// A body in JSON. `media_type` tells a patch from an object.
    pub fn json(media_type: &'static str, json: &serde_json::Value) -> Self {
        Self { media_type, bytes: json.to_string().into() }
    }
}

impl Call {
    /// Sends the call and reads the answer.
    ///
    /// # Errors
    /// - [`SyncError::Refused`] with the server's answer, if it is an error;
    /// - [`SyncError::Fenced`] if this process does not lead, so that it may not write;
    /// - [`SyncError::Abandoned`] if this process stopped leading while the call was under way;
    /// - [`SyncError::Unreachable`] if there was no connection to send the call over;
    /// - [`SyncError::Failed`] if the client surely did not send the call for another reason;
    /// - [`SyncError::Unknown`] if no answer came, or one that can't be decoded or is larger than 32 MiB: the server may have acted
    ///   on the call.
    pub async fn send(self, sender: &Sender) -> Result<Answer, SyncError> {
        let (what, response) = self.begin(sender).await?;
        let (head, body) = response.into_parts();
        let body = collect(&what, body).await?;
        let is_protobuf = |value: &http::HeaderValue| value.as_bytes().starts_with(PROTOBUF.as_bytes());
        if !head.headers.get(header::CONTENT_TYPE).is_some_and(is_protobuf) {
            let is_status = serde_json::from_slice::<KindOnly>(&body).is_ok_and(|head| head.kind == "Status");
            return Ok(Answer { what, encoding: Encoding::Json, is_status, body });
        }
        match wire::unwrap(&body) {
            Ok(envelope) => {
                let is_status = envelope.kind == "Status";
                let body = body.slice_ref(envelope.raw);
                Ok(Answer { what, encoding: Encoding::Protobuf, is_status, body })
            }
            Err(error) => Err(SyncError::Unknown { what, why: error.to_string() }),
        }
    }

    /// Sends the call, and reads the answer without keeping it, whatever its size.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_and_discard(self, sender: &Sender) -> Result<(), SyncError> {
        let (what, response) = self.begin(sender).await?;
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            if let Err(error) = frame {
                return Err(SyncError::Unknown { what, why: error.to_string() });
            }
        }
        Ok(())
    }

    /// Sends the call. Returns what it does, and the response if the API server carried it out.
    async fn begin(self, sender: &Sender) -> Result<(String, Response<ResponseBody>), SyncError> {
        let Self { what, method, path, accept, content } = self;
        let uri = Uri::try_from(path).map_err(|error| SyncError::Failed(format!("{what}: {error}")))?;
        let media_type = content.as_ref().map(|content| content.media_type);
        let mut request = Request::new(content.map(|content| content.bytes).unwrap_or_default());
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept.header()));
        if let Some(media_type) = media_type {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        let response = sender.send(request).await.map_err(|error| no_answer(&what, &error))?;
        let code = response.status();
        if code.is_success() {
            return Ok((what, response));
        }
        let body = collect(&what, response.into_body()).await?;
        let status = Status::from_body(&body).unwrap_or_else(|| {
            Status::failure(code.as_u16(), "", code.canonical_reason().unwrap_or_default())
        });
        Err(SyncError::Refused { what, status: Box::new(status) })
    }
}

/// Reads a body of at most [`LARGEST`] bytes.
async fn collect(what: &str, body: ResponseBody) -> Result<Bytes, SyncError> {
    let unknown = |why: String| SyncError::Unknown { what: what.to_owned(), why };
    let collected = Limited::new(body, LARGEST).collect().await;
    collected.map(Collected::to_bytes).map_err(|error| unknown(error.to_string()))
}

impl Answer {
    /// Decodes the object of kind `K` in the answer, with these groups of fields.
    ///
    /// # Errors
    /// [`SyncError::Unknown`] if the answer is no object of that kind: the caller can't tell what the call did.
    pub fn object<K: Object>(&self, groups: u64) -> Result<K, SyncError> {
        K::decode(&self.body, self.encoding, groups)
            .map_err(|error| SyncError::Unknown { what: self.what.clone(), why: error.to_string() })
    }
}

impl Answer {
    /// Whether the answer is a bare Status instead of an object. A successful delete is answered so if the object is gone
    /// for good and its kind does not return deleted objects.
    pub fn is_status(&self) -> bool {
        self.is_status
    }

    /// The answer as it came.
    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    /// The answer in JSON, which the call must have asked for: [`Accept::Json`] or [`Accept::MetadataJson`].
    ///
    /// # Errors
    /// [`SyncError::Unknown`] if the answer is no JSON.
    pub fn json(&self) -> Result<serde_json::Value, SyncError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| SyncError::Unknown { what: self.what.clone(), why: error.to_string() })
    }

    /// The answer in JSON, read into a type; asked for by [`Accept::Json`].
    ///
    /// # Errors
    /// [`SyncError::Unknown`] if the answer is no JSON of that type.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, SyncError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| SyncError::Unknown { what: self.what.clone(), why: error.to_string() })
    }

    /// The `resourceVersion` of the list in the answer.
    ///
    /// # Errors
    /// [`SyncError::Failed`] if the answer is no list, or its version is not a number.
    pub fn list_version(&self) -> Result<ResourceVersion, SyncError> {
        let version = match self.encoding {
            // ListMeta is field 1 of every list, and its version field 2.
            Encoding::Protobuf => text_at(&self.body, &[1, 2]),
            Encoding::Json => {
                let list: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
                list.and_then(|list| Some(list["metadata"]["resourceVersion"].as_str()?.to_owned()))
            }
        };
        let version = version.and_then(|text| ResourceVersion::parse(&text).ok());
        version.ok_or_else(|| SyncError::Failed(format!("{}: the list has no resourceVersion", self.what)))
    }
}

/// The kind of an object in JSON.
#[derive(serde::Deserialize)]
struct KindOnly<'a> {
    #[serde(default, borrow)]
    kind: std::borrow::Cow<'a, str>,
}

/// The string field at `path`: the numbers of the fields that lead to it through nested messages.
fn text_at(message: &[u8], path: &[u32]) -> Option<String> {
    let (number, rest) = path.split_first()?;
    let mut reader = Reader::new(message);
    while let Some(field) = reader.field().ok()? {
        if field.number == *number {
            return if rest.is_empty() {
                field.text().ok().map(str::to_owned)
            } else {
                text_at(field.bytes().ok()?, rest)
            };
        }
    }
    None
}

fn no_answer(what: &str, error: &kube::Error) -> SyncError {
    let what = what.to_owned();
    match gate_error(error) {
        Some(gate::Error::Refused(_)) => SyncError::Fenced { what },
        Some(gate::Error::Abandoned) => SyncError::Abandoned { what },
        None if fault::is_unreachable(error) => SyncError::Unreachable { what, why: error.to_string() },
        None if fault::surely_not_done(error) => SyncError::Failed(format!("{what}: {error}")),
        None => SyncError::Unknown { what, why: error.to_string() },
    }
}

/// The gate's own error, if it was the gate that stopped the call.
fn gate_error(error: &kube::Error) -> Option<&gate::Error> {
    let mut cause: Option<&(dyn StdError + 'static)> = match error {
        kube::Error::Service(error) => Some(&**error),
        other => Some(other),
    };
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use futures::future::BoxFuture;
    use kube::client::Body;
    use steersman_apiserver::{Calls, Failure, TestServer};
    use steersman_client::{Clients, GateClosed, WriteGate};

    use super::*;
    use steersman_kinds::pod::Pod;
    use tower::service_fn;

    struct Closed;

    impl WriteGate for Closed {
        fn admit(&self) -> Result<(), GateClosed> {
            Err(GateClosed::because("not the leader"))
        }
        fn closed(&self) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    fn call(method: Method, path: &str) -> Call {
        let pod = serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let content = (method == Method::POST).then(|| Content::json(JSON, &pod));
        let path = format!("/api/v1/namespaces/default/pods{path}");
        Call { what: "testing".to_owned(), method, path, accept: Accept::Object, content }
    }

    #[test]
    fn the_debug_forms_of_calls_and_answers_lack_their_bodies() {
        let content = Content::json(JSON, &serde_json::json!({"data": {"token": "hidden"}}));
        let call = Call {
            what: "updating Secret default/a".to_owned(),
            method: Method::PUT,
            path: "/api/v1/namespaces/default/secrets/a".to_owned(),
            accept: Accept::Json,
            content: Some(content),
        };
        let text = format!("{call:?}");
        assert!(text.contains("secrets/a") && !text.contains("hidden"), "{text}");

        let body = Bytes::from_static(br#"{"data": {"token": "hidden"}}"#);
        let answer = Answer { what: call.what, encoding: Encoding::Json, is_status: false, body };
        let text = format!("{answer:?}");
        assert!(text.contains("Secret default/a") && !text.contains("hidden"), "{text}");
    }

    #[tokio::test]
    async fn an_answer_that_is_too_large_is_not_kept() {
        let answer = |_: Request<Body>| async {
            let head = Response::builder().header("content-type", JSON);
            Ok::<_, Infallible>(head.body(Body::from(vec![b' '; LARGEST + 1])).unwrap())
        };
        let sender = Clients::over(service_fn(answer)).sender("test");
        let error = call(Method::GET, "/a").send(&sender).await.unwrap_err();
        assert!(matches!(error, SyncError::Unknown { .. }), "{error}");
        call(Method::DELETE, "").send_and_discard(&sender).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_became_of_a_call_is_told_apart() {
        let server = TestServer::start().await;
        let clients = Clients::over(server.in_memory());
        let sender = clients.sender("test");
        let gated = clients.gated(Arc::new(Closed)).sender("test");

        let fenced = call(Method::POST, "").send(&gated).await.unwrap_err();
        assert!(matches!(&fenced, SyncError::Fenced { .. }) && fenced.surely_not_done(), "{fenced}");
        let made: Pod = call(Method::POST, "").send(&sender).await.unwrap().object(0).unwrap();
        assert_eq!(made.meta().key.name, "a");
        let twice = call(Method::POST, "").send(&sender).await.unwrap_err();
        assert!(twice.is("AlreadyExists") && twice.surely_not_done(), "{twice}");
        let missing = call(Method::GET, "/b").send(&sender).await.unwrap_err();
        assert!(missing.is("NotFound"), "{missing}");

        for failure in [Failure::ResetAfterwards, Failure::TimeoutAfterwards, Failure::InternalError] {
            server.faults().fail(1, Calls::to("pods"), failure.clone());
            let error = call(Method::DELETE, "/a").send(&sender).await.unwrap_err();
            assert!(!error.surely_not_done(), "{failure:?}: {error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_tells_its_version_in_either_encoding() {
        let server = TestServer::start().await;
        let sender = Clients::over(server.in_memory()).sender("test");
        call(Method::POST, "").send(&sender).await.unwrap();
        let answer = call(Method::GET, "?limit=1").send(&sender).await.unwrap();
        assert_eq!(answer.encoding, Encoding::Protobuf);
        assert_eq!(answer.list_version().unwrap().0, server.resource_version());
        let body = r#"{"metadata": {"resourceVersion": "7"}, "items": []}"#.into();
        let json = Answer { what: String::new(), encoding: Encoding::Json, is_status: false, body };
        assert_eq!(json.list_version().unwrap(), ResourceVersion(7));
        let none = Answer {
            what: String::new(),
            encoding: Encoding::Protobuf,
            is_status: false,
            body: Bytes::new(),
        };
        none.list_version().unwrap_err();
    }
}
