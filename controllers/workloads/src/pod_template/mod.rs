//! Pod templates as upstream's Go types see them: their hash, their JSON and their equality.
//!
//! The Go controllers name ReplicaSets and ControllerRevisions by hashes of a template's representation in Go. Controllers
//! that compute the same hashes can take over a live cluster, and hand it back, without restarting a pod.
//!
//! ```text
//! Opaque ─┬─ protobuf ─────────────── equal: are two templates equal by meaning?
//!         └─ json: as Go writes it ─┬─ dump: the text that Go's spew prints ─> hash
//!                                   ├─ defaults: those of the API server ─> equal
//!                                   └─ canonical JSON ─> data of revisions
//! ```
//!
//! The schema table, which is of Kubernetes 1.36, does the conversion between protobuf and JSON. [`newer`] adds the fields of 1.37.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;
use steersman_api::schema::{self, Message, TranscodeError};
use steersman_api::wire::WireError;
use steersman_api::{ArcStr, go_json};
use steersman_informer::wire::Opaque;

mod defaults;
mod dump;
mod equal;
pub(crate) mod fnv;
mod layout;
mod newer;
#[cfg(test)]
pub(crate) mod tests;
mod unknown;

pub(crate) use layout::Layout;

use fnv::Fnv1a;

/// The label that a Deployment adds to the templates of its ReplicaSets.
pub(crate) const HASH_LABEL: &str = "pod-template-hash";

/// The error for a template that can't be read. Trying again is of no use until the template changes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The template is not valid protobuf.
    #[error("reading the pod template: {0}")]
    Protobuf(#[from] WireError),
    /// The template is not valid JSON.
    #[error("reading the pod template: {0}")]
    Json(#[from] serde_json::Error),
    /// A value has another type than Kubernetes declares.
    #[error("reading the pod template: {0}")]
    Value(#[from] TranscodeError),
}

/// The hash of a template as upstream's `ComputeHash` makes it, such as `589f44dc88`.
///
/// `layout` is that of the API server's minor version, since every new field changes the hashes of all templates. Without
/// one, or for the few templates of which Go's text can't be reproduced, the hash is another one that is also a function of
/// the template and the collision count alone: see [`Layout::of_minor`].
///
/// # Errors
/// The template can't be read.
pub(crate) fn hash(
    template: &Opaque,
    collision_count: Option<i32>,
    layout: Option<Layout>,
) -> Result<ArcStr, Error> {
    let template = protobuf(template)?;
    let json = to_json(&template)?;
    let mut hasher = Fnv1a::default();
    let is_dumped = match layout {
        Some(layout) if !unknown::has_unknown_fields(message(), &template, layout)? => {
            dump::write(layout, &json, &mut hasher).is_some()
        }
        _ => false,
    };
    if !is_dumped {
        hasher = Fnv1a::default();
        // Writing to a hasher can't fail.
        let _ = hasher.write_str(&go_json::marshal(&json));
        unknown::write(message(), &template, &mut hasher)?;
    }
    if let Some(count) = collision_count {
        hasher.bytes(&count.to_le_bytes());
        hasher.bytes(&[0; 4]);
    }
    Ok(fnv::safe_encode(hasher.sum()))
}

/// Whether two templates are equal by meaning but for the label `pod-template-hash`, as upstream's `EqualIgnoreHash`.
///
/// Absent and empty lists and maps are equal, and so are quantities of one amount. Fields that this program does not know
/// must be equal as well.
///
/// # Errors
/// A template can't be read.
pub(crate) fn equal_but_for_hash(a: &Opaque, b: &Opaque) -> Result<bool, Error> {
    let (a, b) = (protobuf(a)?, protobuf(b)?);
    let (a, b) = (equal::without_label(&a, HASH_LABEL)?, equal::without_label(&b, HASH_LABEL)?);
    Ok(equal::messages(message(), &a, &b)?)
}

/// Whether two templates are equal by meaning once the API server's defaults are filled in, as upstream compares a StatefulSet's
/// last revision with its template. Fields that this program does not know are not compared: revisions never have them.
///
/// # Errors
/// A template can't be read.
pub(crate) fn equal_with_defaults(a: &Opaque, b: &Opaque) -> Result<bool, Error> {
    let filled = |template| {
        let mut json = json(template)?;
        defaults::fill(message(), &mut json);
        to_protobuf(&json)
    };
    Ok(equal::messages(message(), &filled(a)?, &filled(b)?)?)
}

/// The template as JSON with the members that Go writes. Lacks fields that this program does not know.
///
/// # Errors
/// The template can't be read.
pub(crate) fn json(template: &Opaque) -> Result<Value, Error> {
    to_json(&protobuf(template)?)
}

/// The JSON of a template's message in protobuf.
fn to_json(template: &[u8]) -> Result<Value, Error> {
    let mut json = message().to_json(template)?;
    newer::add_to_json(message(), template, &mut json)?;
    Ok(json)
}

/// The message in protobuf of a template's JSON.
fn to_protobuf(json: &Value) -> Result<Vec<u8>, Error> {
    newer::add_to_protobuf(message(), json, &message().to_protobuf(json)?)
}

/// The template's message in protobuf. An absent template is an empty one, as in Go.
fn protobuf(template: &Opaque) -> Result<Cow<'_, [u8]>, Error> {
    Ok(match template {
        Opaque::None => Cow::Borrowed(&[]),
        Opaque::Protobuf(bytes) => Cow::Borrowed(bytes),
        Opaque::Json(text) => Cow::Owned(to_protobuf(&serde_json::from_str(text.get())?)?),
    })
}

fn message() -> &'static Message {
    schema::table().message("core.v1.PodTemplateSpec").expect("the schema table must have pod templates")
}
