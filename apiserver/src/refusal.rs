//! Answers that say no, in upstream's words: clients match on reasons, and people know the messages.

use serde_json::{Value, json};
use steersman_api::Status;
use steersman_api::status::{StatusCause, StatusDetails};

use crate::field::FieldError;
use crate::registry::Resource;
use crate::rest::Call;

mod limits;

/// A request that was not carried out, and what the client is told.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{status}")]
pub(crate) struct Refusal {
    /// The body of the answer.
    pub(crate) status: Box<Status>,
    /// Where a list whose snapshot was forgotten may go on, inconsistently.
    pub(crate) continue_with: Option<String>,
}

/// Most functions here are refused or give something.
pub(crate) type Result<T> = std::result::Result<T, Refusal>;

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status: Box::new(status), continue_with: None }
    }
}

impl Refusal {
    fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Status::failure(code, reason, message).into()
    }

    /// As a client reads it.
    pub(crate) fn to_json(&self) -> Value {
        let mut json = serde_json::to_value(&*self.status).expect("a Status must have a JSON form");
        json["kind"] = "Status".into();
        json["apiVersion"] = "v1".into();
        json["metadata"] = match &self.continue_with {
            Some(token) => json!({"continue": token}),
            None => json!({}),
        };
        json
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        self.status.details = Some(StatusDetails {
            name: name.to_owned(),
            group: resource.group.to_string(),
            kind: resource.plural.to_string(),
            ..StatusDetails::default()
        });
        self
    }

    /// As it is, with a cause for programs.
    pub(crate) fn with_cause(self, reason: &str) -> Self {
        self.cause(reason, "", "")
    }

    fn cause(mut self, reason: &str, message: impl Into<String>, field: &str) -> Self {
        let details = self.status.details.get_or_insert_default();
        let (reason, field) = (reason.to_owned(), field.to_owned());
        details.causes.push(StatusCause { reason, message: message.into(), field });
        self
    }

    fn retry_after(mut self, seconds: i32) -> Self {
        self.status.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// No such object.
    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified);
        Self::new(404, "NotFound", message).about(resource, name)
    }

    /// No such resource, in a group version that is served.
    pub(crate) fn no_such_resource() -> Self {
        let mut refusal = Self::new(404, "NotFound", "the server could not find the requested resource");
        refusal.status.details = Some(StatusDetails::default());
        refusal
    }

    /// The resource is known, but not this verb.
    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut refusal = Self::new(405, "MethodNotAllowed", message);
        refusal.status.details = Some(StatusDetails::default());
        refusal
    }

    /// The name is taken.
    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified);
        Self::new(409, "AlreadyExists", message).about(resource, name)
    }

    /// The name is taken by an object that is about to go.
    pub(crate) fn while_deleting(mut self) -> Self {
        self.status.message.insert_str(0, "object is being deleted: ");
        self
    }

    /// The generated name is taken.
    pub(crate) fn generated_name_taken(resource: &Resource, name: &str) -> Self {
        let message = format!(
            "{} \"{name}\" already exists, the server was not able to generate a unique name for the object",
            resource.qualified
        );
        Self::new(409, "AlreadyExists", message).about(resource, name).retry_after(1)
    }

    /// The write can't be done to the state that the object is in.
    pub(crate) fn conflict(resource: &Resource, name: &str, why: impl std::fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified);
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// As [`conflict`](Self::conflict), where upstream's storage tells it, which names the place where upstream keeps such objects.
    pub(crate) fn precondition(
        resource: &Resource,
        namespace: &str,
        name: &str,
        why: impl std::fmt::Display,
    ) -> Self {
        let place = match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "replicationcontrollers") => "controllers".to_owned(),
            ("", "endpoints") => "services/endpoints".to_owned(),
            ("", "nodes") => "minions".to_owned(),
            ("", "services") => "services/specs".to_owned(),
            ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
            (group, plural) if resource.schema.is_none() || group == "apiextensions.k8s.io" => {
                format!("{group}/{plural}")
            }
            (_, plural) => plural.to_owned(),
        };
        let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{place}/{namespace}{name}, ResourceVersion: 0, \
             AdditionalErrorMsg: {why}"
        );
        Self::conflict(resource, name, why)
    }

    /// As [`conflict`](Self::conflict), where upstream names the kind instead of the resource.
    pub(crate) fn conflict_of_kind(resource: &Resource, name: &str, why: impl std::fmt::Display) -> Self {
        Self::conflict_of(&resource.group, &resource.kind, name, why)
    }

    /// As [`conflict`](Self::conflict), about what is no resource.
    pub(crate) fn conflict_of(group: &str, kind: &str, name: &str, why: impl std::fmt::Display) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        let mut refusal = Self::new(409, "Conflict", message);
        let (name, group, kind) = (name.to_owned(), group.to_owned(), kind.to_owned());
        refusal.status.details = Some(StatusDetails { name, group, kind, ..StatusDetails::default() });
        refusal
    }

    /// As [`conflict`](Self::conflict), about a subresource.
    pub(crate) fn conflict_with(
        resource: &Resource,
        subresource: &str,
        name: &str,
        why: impl std::fmt::Display,
    ) -> Self {
        let mut refusal = Self::conflict(resource, name, "");
        let group = if resource.group.is_empty() { String::new() } else { format!(".{}", resource.group) };
        refusal.status.message = format!(
            "Operation cannot be fulfilled on {}/{subresource}{group} \"{name}\": {why}",
            resource.plural
        );
        refusal.status.details.get_or_insert_default().kind = format!("{}/{subresource}", resource.plural);
        refusal
    }

    /// Known, but not served by this server.
    pub(crate) fn not_implemented(call: &Call) -> Self {
        let slash = if call.subresource.is_empty() { "" } else { "/" };
        let message = format!(
            "this server does not implement {} of {}{slash}{}",
            call.verb, call.resource.qualified, call.subresource
        );
        Self::new(501, "NotImplemented", message).about(&call.resource, &call.name)
    }

    /// It would be stored, and nobody would go by it.
    pub(crate) fn without_effect(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} would have no effect: {why}", resource.qualified);
        Self::new(501, "NotImplemented", message).about(resource, name)
    }

    /// The object has another version than the writer saw.
    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// The object breaks rules of its kind.
    pub(crate) fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Self {
        Self::invalid_kind(&resource.group, &resource.kind, name, errors)
    }

    /// As [`invalid`](Self::invalid), for what is no resource, such as `ListOptions`.
    pub(crate) fn invalid_kind(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut each: Vec<String> = Vec::new();
        for error in errors.iter().map(ToString::to_string) {
            if !each.contains(&error) {
                each.push(error);
            }
        }
        let all = if let [one] = &each[..] { one.clone() } else { format!("[{}]", each.join(", ")) };
        let mut refusal = Self::new(422, "Invalid", format!("{qualified} \"{name}\" is invalid: {all}"));
        refusal.status.details = Some(StatusDetails {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            ..StatusDetails::default()
        });
        errors
            .iter()
            .fold(refusal, |refusal, error| refusal.cause(error.reason(), error.body(), &error.field))
    }

    /// A new object has no version yet. Upstream gives no reason here.
    pub(crate) fn version_on_create() -> Self {
        Self::unforeseen("resourceVersion should not be set on objects to be created")
    }

    /// What should be a version is none. Upstream gives no reason here.
    pub(crate) fn no_version(text: &str) -> Self {
        Self::unforeseen(format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
    }

    /// As [`no_version`](Self::no_version), of what gets and watches ask for.
    pub(crate) fn no_version_asked(error: &FieldError) -> Self {
        Self::unforeseen(error.to_string())
    }

    /// Upstream foresaw no refusal here, and gives no reason: such as where a configuration that is applied does not fit its
    /// type, or somebody who is needed for an answer can't be had.
    pub(crate) fn unforeseen(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// Refused whoever asks.
    pub(crate) fn forbidden(resource: &Resource, name: &str, why: impl std::fmt::Display) -> Self {
        let message = if name.is_empty() {
            format!("{} is forbidden: {why}", resource.qualified)
        } else {
            format!("{} \"{name}\" is forbidden: {why}", resource.qualified)
        };
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// Nothing new may be made in a namespace that goes.
    pub(crate) fn namespace_terminating(resource: &Resource, name: &str, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        Self::forbidden(resource, name, why).cause(
            "NamespaceTerminating",
            format!("namespace {namespace} is being terminated"),
            "metadata.namespace",
        )
    }

    /// The request makes no sense.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// A JSON patch can be read, but not applied.
    pub(crate) fn patch_fails() -> Self {
        let message = "the server rejected our request due to an error in our request";
        let mut refusal = Self::new(422, "Invalid", message);
        refusal.status.details = Some(StatusDetails::default());
        refusal
    }

    /// What a patch made of an object does not fit its kind.
    pub(crate) fn patch_misfits(patched: &Value, why: &str) -> Self {
        let error = FieldError::invalid("patch", patched.to_string(), why);
        Self::invalid_kind("", "", "", &[error])
    }

    /// Others manage fields of the configuration that is applied: with each field and what to say of it.
    pub(crate) fn apply_conflict(
        message: impl Into<String>,
        causes: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let refusal = Self::new(409, "Conflict", message);
        causes
            .into_iter()
            .fold(refusal, |refusal, (field, why)| refusal.cause("FieldManagerConflict", why, &field))
    }

    /// Patches of that kind are not applied to that resource.
    pub(crate) fn unsupported_patch_type() -> Self {
        let mut refusal = Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        refusal.status.details = Some(StatusDetails::default());
        refusal
    }

    /// None of the encodings that the client accepts can be written.
    pub(crate) fn not_acceptable() -> Self {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json, \
            application/vnd.kubernetes.protobuf, application/json;stream=watch, \
            application/vnd.kubernetes.protobuf;stream=watch";
        let mut refusal = Self::new(406, "NotAcceptable", message);
        refusal.status.details = Some(StatusDetails::default());
        refusal
    }

    /// The body's encoding can't be read.
    pub(crate) fn unsupported_media_type(offered: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            offered.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The version asked for lies ahead of all writes.
    pub(crate) fn version_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        Self::new(504, "Timeout", message)
            .cause("ResourceVersionTooLarge", "Too large resource version", "")
            .retry_after(1)
    }

    /// The version that a watch was asked to begin from is no longer known.
    pub(crate) fn expired(asked: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    /// As if a version were no longer known.
    pub(crate) fn fault_expired() -> Self {
        Self::new(410, "Expired", "The resourceVersion for the provided watch is too old.")
    }

    /// The version that a list was asked for is no longer known.
    pub(crate) fn list_expired() -> Self {
        Self::new(410, "Expired", "The resourceVersion for the provided list is too old.")
    }

    /// The snapshot that a list went through is no longer known; with the token it may go on through a newer one.
    pub(crate) fn continue_expired(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can \
            start a new list without the continue parameter, or use the continue token in this response to \
            retrieve the remainder of the results. Continuing with the provided token results in an inconsistent \
            list - objects that were created, modified, or deleted between the time the first chunk was returned \
            and now may show up in the list.";
        let mut refusal = Self::new(410, "Expired", message);
        refusal.continue_with = Some(token);
        refusal
    }

    /// Somebody that is asked on behalf of the client can't be had.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// What a node refused, by its code and its own words: upstream keeps these for some codes only.
    pub(crate) fn passed_on(code: u16, resource: &str, name: &str, text: &str) -> Self {
        let (reason, message) = match code {
            500 => return Self::internal(text),
            400 => return Self::bad_request(text),
            401 => ("Unauthorized", "the server has asked for the client to provide credentials".to_owned()),
            403 => ("Forbidden", text.to_owned()),
            404 => ("NotFound", "the server could not find the requested resource".to_owned()),
            405 => {
                let message = "the server does not allow this method on the requested resource";
                ("MethodNotAllowed", message.to_owned())
            }
            406 if text.is_empty() || text == "unknown" => {
                let message = "the server was unable to respond with a content type that the client supports";
                ("NotAcceptable", message.to_owned())
            }
            406 => ("NotAcceptable", text.to_owned()),
            409 => ("Conflict", "the server reported a conflict".to_owned()),
            415 => ("UnsupportedMediaType", text.to_owned()),
            422 => ("Invalid", "the server rejected our request due to an error in our request".to_owned()),
            429 => {
                let message = "the server has received too many requests and has asked us to try again later";
                ("TooManyRequests", message.to_owned())
            }
            503 => {
                let message = "the server is currently unable to handle the request";
                ("ServiceUnavailable", message.to_owned())
            }
            504 => {
                let message = "the server was unable to return a response in the time allotted, \
                    but may still be processing the request";
                ("Timeout", message.to_owned())
            }
            code if code > 500 => {
                let message =
                    format!("an error on the server ({text:?}) has prevented the request from succeeding");
                ("InternalError", message)
            }
            code => {
                let message = format!(
                    "the server responded with the status code {code} but did not return more information"
                );
                ("", message)
            }
        };
        let mut refusal = Self::new(code, reason, format!("{message} ( {resource} {name})"));
        let (kind, name) = (resource.to_owned(), name.to_owned());
        refusal.status.details = Some(StatusDetails { name, kind, ..StatusDetails::default() });
        refusal
    }

    /// Something that must not happen did.
    pub(crate) fn internal(why: impl std::fmt::Display) -> Self {
        let refusal = Self::new(500, "InternalError", format!("Internal error occurred: {why}"));
        refusal.cause("", why.to_string(), "")
    }

    /// There are credentials, and they are not good.
    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// A disruption budget can't bear an eviction; `message` is for people.
    pub(crate) fn over_budget(message: String, retry_after: Option<i32>) -> Self {
        let what = "Cannot evict pod as it would violate the pod's disruption budget.";
        let refusal = Self::new(429, "TooManyRequests", what).cause("DisruptionBudget", message, "");
        match retry_after {
            Some(seconds) => refusal.retry_after(seconds),
            None => refusal,
        }
    }

    /// A disruption budget does not know yet what it can bear.
    pub(crate) fn budget_is_behind(name: &str, retry_after: i32) -> Self {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        Self::over_budget(why, Some(retry_after))
    }

    /// A disruption budget makes no sense.
    pub(crate) fn budget_is_broken(name: &str, why: &str) -> Self {
        let message = format!("poddisruptionbudget.policy {name:?} is forbidden: {why}");
        let mut refusal = Self::new(403, "Forbidden", message);
        refusal.status.details = Some(StatusDetails {
            name: name.to_owned(),
            group: "policy".to_owned(),
            kind: "poddisruptionbudget".to_owned(),
            ..StatusDetails::default()
        });
        refusal
    }
}
