//! Objects that clients send.

use serde_json::{Map, Value};
use steersman_api::schema::{self, Kind};

use super::negotiate::{body_format, media_type};
use super::request::{Request, Verb};
use crate::codec::{self, Format};
use crate::managed_fields;
use crate::meta;
use crate::object;
use crate::patch::{self, PatchType};
use crate::refusal::{Refusal, Result};
use crate::registry::Resource;

/// An object from a request, in the form its kind has, and what the client should be warned of.
pub(super) struct Incoming {
    /// Fits the schema of its kind.
    pub(super) object: Value,
    /// Each becomes a `Warning` header.
    pub(super) warnings: Vec<String>,
}

/// What to do about members that the kind does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Reads the body as the kind that a subresource takes. Of JSON, the caller must check the kind.
pub(super) fn body_of(request: &Request, kind: &str) -> Result<Value> {
    let format = body_format(&request.headers)?;
    codec::decode(format, &request.body, kind).map_err(|error| match error {
        codec::Error::TooManyValues => Refusal::too_many_values(),
        codec::Error::OtherKind { api_version, kind: said } => other_kind(&said, &api_version, kind),
        error => Refusal::bad_request(format!("couldn't read the body: {error}")),
    })
}

/// Reads the body as an object of the resource.
pub(super) fn object_of(request: &Request) -> Result<Incoming> {
    let resource = &request.call.resource;
    let format = body_format(&request.headers)?;
    if request.body.is_empty() {
        return Err(no_kind(resource, "unexpected end of JSON input (<empty>)"));
    }
    let object = codec::decode(format, &request.body, &resource.kind).map_err(|error| match error {
        codec::Error::Json(why) => no_kind(resource, &why),
        codec::Error::OtherKind { api_version, kind } => other_kind(&kind, &api_version, &resource.kind),
        error => unreadable(resource, &error),
    })?;
    let duplicates = format == Format::Json && schema::has_duplicates(&object, &request.body);
    let object = typed(resource, object)?;
    conform_body(request, object, format, duplicates)
}

/// Brings what a patch left into the form its kind has.
pub(super) fn conform(request: &Request, object: Value, format: Format) -> Result<Incoming> {
    conform_body(request, object, format, false)
}

/// Brings an object into the form its kind has. `duplicates`: its body had members twice.
fn conform_body(request: &Request, object: Value, format: Format, duplicates: bool) -> Result<Incoming> {
    let resource = &request.call.resource;
    let strict = match resource.schema {
        // Protobuf drops what it does not know on its own.
        Some(kind) if format == Format::Json => {
            strictness(request, Wanted::of(resource), kind, &object, duplicates)
        }
        _ => Ok(Vec::new()),
    };
    let mut object = conform_by_default(resource, object).map_err(|error| unreadable(resource, &error))?;
    let mut warnings = strict?;
    warnings.extend(meta::dedupe_owners(&mut object));
    warnings.extend(resource.strategy.warning(&object).map(str::to_owned));
    Ok(Incoming { object, warnings })
}

/// Brings an object into the form its kind has, whatever it has besides.
pub(super) fn conform_by_default(
    resource: &Resource,
    mut object: Value,
) -> std::result::Result<Value, codec::Error> {
    if let Some(kind) = resource.schema {
        // A client that sends an empty list of managers wants it emptied. Other empty lists count as absent.
        let emptied = object::at(&object, "metadata.managedFields") == Some(&Value::Array(Vec::new()));
        object = managed_fields::without_fields(object, |object| codec::normalize(kind, object))?;
        if emptied {
            managed_fields::put(&mut object, Some(Value::Array(Vec::new())));
        }
    } else if !object.get("metadata").is_some_and(Value::is_object) {
        object::metadata(&mut object);
    }
    resource.strategy.default(&mut object);
    Ok(object)
}

/// What strict decoding of an object of `wanted` finds, as warnings, unless the client wants it refused, or not to be told.
/// `duplicates`: the body has members twice.
pub(super) fn strictness(
    request: &Request,
    wanted: Wanted<'_>,
    kind: &Kind,
    object: &Value,
    duplicates: bool,
) -> Result<Vec<String>> {
    let validation = field_validation(request);
    if validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    let unknown = schema::unknown_fields(kind, object);
    let unknown: Vec<String> = unknown.iter().map(|field| format!("unknown field {field:?}")).collect();
    let body = &request.body;
    let errors: Vec<String> = if request.call.verb != Verb::Patch {
        // Only a second look finds both, and in which order.
        if unknown.is_empty() && !duplicates { Vec::new() } else { schema::strict_errors(Some(kind), body) }
    } else if media_type(&request.headers) == "application/json-patch+json" {
        let of_patch = patch::strict_errors(body).into_iter().map(|error| format!("json patch {error}"));
        of_patch.chain(unknown).collect()
    } else {
        schema::strict_errors(None, body).into_iter().chain(unknown).collect()
    };
    if validation == FieldValidation::Warn || errors.is_empty() {
        return Ok(errors);
    }
    let why = format!("strict decoding error: {}", errors.join(", "));
    if request.call.verb == Verb::Patch {
        return Err(Refusal::patch_misfits(object, &why));
    }
    Err(Refusal::bad_request(wanted.cannot_be(&why)))
}

/// Whether the client wants unknown members refused.
pub(super) fn is_strict(request: &Request) -> bool {
    field_validation(request) == FieldValidation::Strict
}

/// Other words have been refused with the other parameters.
pub(super) fn field_validation(request: &Request) -> FieldValidation {
    match request.query.get("fieldValidation") {
        Some("Ignore") => FieldValidation::Ignore,
        Some("Strict") => FieldValidation::Strict,
        _ => FieldValidation::Warn,
    }
}

/// The body says of which kind it is, or nothing at all.
fn typed(resource: &Resource, mut object: Value) -> Result<Value> {
    if object.is_null() {
        object = Value::Object(Map::new());
    }
    if !object.is_object() {
        return Err(Refusal::bad_request(Wanted::of(resource).cannot_be("the body is no JSON object")));
    }
    // Built-in kinds are known by their path; others must say what they are.
    for (member, what) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
        if resource.schema.is_none() && object::text_at(&object, member).is_empty() {
            let why = format!(
                "the object provided is unrecognized (must be of type {}): Object '{what}' is missing in '{object}'",
                resource.kind
            );
            return Err(Refusal::bad_request(why));
        }
    }
    let said = |name: &str, expected: &str| {
        let said = object::text_at(&object, name);
        if said.is_empty() { expected.to_owned() } else { said }
    };
    let api_version = said("apiVersion", &resource.api_version);
    let kind = said("kind", &resource.kind);
    if kind != resource.kind.as_str() || api_version != resource.api_version.as_str() {
        return Err(other_kind(&kind, &api_version, &resource.kind));
    }
    object["apiVersion"] = resource.api_version.as_str().into();
    object["kind"] = resource.kind.as_str().into();
    Ok(object)
}

/// The refusal of a body that is of another kind than `wanted`.
pub(super) fn other_kind(kind: &str, api_version: &str, wanted: &str) -> Refusal {
    let (_, version) = steersman_api::GroupVersion::split(api_version);
    let why = format!("no kind {kind:?} is registered for version {api_version:?} under this path");
    Refusal::bad_request(cannot_be_handled(kind, version, wanted, &why))
}

fn unreadable(resource: &Resource, error: &codec::Error) -> Refusal {
    match error {
        codec::Error::TooManyValues => Refusal::too_many_values(),
        error => Refusal::bad_request(Wanted::of(resource).cannot_be(&error.to_string())),
    }
}

/// The kind that a body must have.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) kind: &'a str,
    pub(super) version: &'a str,
}

impl<'a> Wanted<'a> {
    fn of(resource: &'a Resource) -> Self {
        Self { kind: &resource.kind, version: &resource.version }
    }

    /// The message for a body that says it has the kind, and does not fit it.
    pub(super) fn cannot_be(self, why: &str) -> String {
        cannot_be_handled(self.kind, self.version, self.kind, why)
    }
}

fn cannot_be_handled(kind: &str, version: &str, wanted: &str, why: &str) -> String {
    format!("{kind} in version {version:?} cannot be handled as a {wanted}: {why}")
}

/// The body is not even JSON.
fn no_kind(resource: &Resource, why: &str) -> Refusal {
    Refusal::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {why}",
        resource.kind
    ))
}

/// The kind of patch, by the media type of the body.
pub(super) fn patch_type(request: &Request) -> Result<PatchType> {
    match media_type(&request.headers) {
        "application/json-patch+json" => Ok(PatchType::Json),
        "application/merge-patch+json" => Ok(PatchType::Merge),
        "application/strategic-merge-patch+json" if request.call.resource.schema.is_some() => {
            Ok(PatchType::Strategic)
        }
        _ => Err(Refusal::unsupported_patch_type()),
    }
}
