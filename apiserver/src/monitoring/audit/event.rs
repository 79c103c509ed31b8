//! One request in the audit log.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use http::{Method, Uri};
use jiff::Timestamp;
use serde::Serialize;
use steersman_api::Status;
use uuid::Uuid;

use crate::access::Identity;
use crate::rest::Call;

/// When an event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(in crate::monitoring) enum Stage {
    /// The answer begins, and has no end of its own: a watch, a log or a stream.
    ResponseStarted,
    /// The answer has ended.
    ResponseComplete,
}

/// A request, as an `audit.k8s.io/v1` Event of the level `Metadata`: no contents of objects.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::monitoring) struct Event {
    #[serde(rename = "auditID")]
    id: String,
    #[serde(rename = "requestURI")]
    uri: String,
    verb: String,
    user: User,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<User>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Option::is_none")]
    sources: Option<[IpAddr; 1]>,
    #[serde(skip_serializing_if = "String::is_empty")]
    user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<ResponseStatus>,
    #[serde(rename = "requestReceivedTimestamp", serialize_with = "micros")]
    received: Timestamp,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, &'static str>,
}

#[derive(Debug, Default, Serialize)]
struct User {
    #[serde(skip_serializing_if = "String::is_empty")]
    username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_group: String,
    api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
}

#[derive(Debug, Serialize)]
struct ResponseStatus {
    metadata: BTreeMap<(), ()>,
    #[serde(skip_serializing_if = "String::is_empty")]
    status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    code: u16,
}

/// A line of the log.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    stage: Stage,
    #[serde(flatten)]
    event: &'a Event,
    #[serde(serialize_with = "micros")]
    stage_timestamp: Timestamp,
}

fn micros<S: serde::Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
}

impl From<&Identity> for User {
    fn from(who: &Identity) -> Self {
        let Identity { user, uid, groups, extra } = who.clone();
        Self { username: user, uid, groups, extra }
    }
}

impl Event {
    /// Of a request whose head came at that time.
    pub(in crate::monitoring) fn received(
        method: &Method,
        uri: &Uri,
        user_agent: String,
        peer: Option<IpAddr>,
        received: Timestamp,
    ) -> Self {
        Self {
            id: Uuid::new_v4().to_string(),
            uri: uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string),
            verb: method.as_str().to_ascii_lowercase(),
            user: User::default(),
            impersonated_user: None,
            sources: peer.map(|peer| [peer]),
            user_agent,
            object_ref: None,
            response_status: None,
            received,
            annotations: BTreeMap::new(),
        }
    }

    /// The request asks for something of a resource. The name of a new object is in the body, which is not looked at.
    pub(in crate::monitoring) fn about(&mut self, call: &Call) {
        self.verb = call.verb.as_str().to_owned();
        self.object_ref = Some(ObjectRef {
            resource: call.resource.plural.to_string(),
            // Upstream takes a namespace to be in itself.
            namespace: if call.resource.plural == "namespaces" { &call.name } else { &call.namespace }
                .clone(),
            name: call.name.clone(),
            api_group: call.resource.group.to_string(),
            api_version: call.resource.version.to_string(),
            subresource: call.subresource.clone(),
        });
    }

    /// Who asks.
    pub(in crate::monitoring) fn identified(&mut self, who: &Identity) {
        self.user = who.into();
    }

    /// Whether `who` may do that. `by` asks as `who`.
    pub(in crate::monitoring) fn decided(&mut self, who: &Identity, by: Option<&Identity>, is_allowed: bool) {
        match by {
            Some(by) => (self.user, self.impersonated_user) = (by.into(), Some(who.into())),
            None => self.user = who.into(),
        }
        let decision = if is_allowed { "allow" } else { "forbid" };
        self.annotations = BTreeMap::from([
            ("authorization.k8s.io/decision", decision),
            ("authorization.k8s.io/reason", ""),
        ]);
    }

    /// The answer's code, and its Status if it is one.
    pub(in crate::monitoring) fn answered(&mut self, code: u16, status: Option<Arc<Status>>) {
        let Status { status, message, reason, .. } = status.as_deref().cloned().unwrap_or_default();
        self.response_status =
            Some(ResponseStatus { metadata: BTreeMap::new(), status, message, reason, code });
    }

    /// The id, which the answer has in its header `Audit-ID`.
    pub(in crate::monitoring) fn id(&self) -> &str {
        &self.id
    }

    /// A line for the log, with its end.
    pub(super) fn line(&self, stage: Stage, at: Timestamp) -> Vec<u8> {
        let (kind, api_version, level) = ("Event", "audit.k8s.io/v1", "Metadata");
        let line = Line { kind, api_version, level, stage, event: self, stage_timestamp: at };
        let mut bytes = serde_json::to_vec(&line).expect("an event must have a JSON form");
        bytes.push(b'\n');
        bytes
    }
}
