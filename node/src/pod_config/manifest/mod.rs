//! Pods from manifests: what stands in a file or behind a URL, read, filled in, named and checked.

mod defaults;
mod fnv;
mod go_dump;
mod go_quantity;
mod references;
#[cfg(test)]
mod tests;
mod validate;

use k8s_openapi::api::core::v1::Pod;
use serde::de::Error as _;
use serde_json::{Value, json};

use super::annotations::{CONFIG_HASH, POD_NAMESPACE_DEFAULT};
pub(crate) use fnv::Fnv128a;
pub use validate::Fault;

/// The most bytes that are read of a file or an answer (`maxConfigLength`).
pub const MAX_LENGTH: usize = 10 << 20;

/// Where a manifest comes from. Uids depend on it, so that two nodes, or two files, never make the same pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// The path of a file, as the source names it.
    File(&'a str),
    /// The address of an answer.
    Url(&'a str),
}

/// Why a manifest gives no pods. Whoever wrote it must mend it; a source says so once and goes on with the others.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither YAML nor JSON, or a field of the wrong type.
    #[error("couldn't parse as pod: {0}")]
    Parse(#[source] serde_json::Error),
    /// An object of another kind.
    #[error(
        "couldn't parse as pod: it is {kind:?} of {api_version:?}, and only Pod and PodList of \"v1\" are read"
    )]
    Kind {
        /// As it says.
        api_version: String,
        /// As it says.
        kind: String,
    },
    /// A pod without a name.
    #[error("invalid pod: name is needed for the pod")]
    NoName,
    /// A pod that the API would refuse.
    #[error("invalid pod {name:?}: {}", validate::joined(.faults))]
    Invalid {
        /// Of the pod.
        name: String,
        /// What is wrong; at least one.
        faults: Vec<Fault>,
    },
    /// A pod that needs what only an API server has.
    #[error("static pods may not reference {0}")]
    Reference(String),
}

/// The pods of a manifest, as this node runs them: with defaults, uid, name, node, namespace, annotations and tolerations
/// of static pods. YAML or JSON; a `Pod` or a `PodList`. Of several YAML documents the first counts, as upstream's does.
///
/// # Errors
/// See [`Error`]; one pod that is no good spoils the manifest it stands in, and no other.
pub fn decode(data: &[u8], origin: Origin<'_>, node_name: &str) -> Result<Vec<Pod>, Error> {
    let document = to_json(data)?;
    let word = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
    match (word("apiVersion").as_str(), word("kind").as_str()) {
        ("v1", "Pod") => Ok(vec![static_pod(document, origin, node_name)?]),
        ("v1", "PodList") => {
            let items = document["items"].as_array().cloned().unwrap_or_default();
            items.into_iter().map(|item| static_pod(item, origin, node_name)).collect()
        }
        (api_version, kind) => {
            Err(Error::Kind { api_version: api_version.to_owned(), kind: kind.to_owned() })
        }
    }
}

/// JSON is YAML. Words and numbers are read as in YAML 1.1, as upstream does: `yes` is true, `0644` is octal.
fn to_json(data: &[u8]) -> Result<Value, Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::Parse(serde_json::Error::custom(error));
    let text = std::str::from_utf8(data).map_err(|error| wrong(&error))?;
    if text.trim_start().starts_with('{') {
        // Go's JSON, too, takes the last of equal keys.
        if let Ok(value) = serde_json::from_str(text) {
            return Ok(value);
        }
    }
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| wrong(&error))?;
    Ok(documents.into_iter().next().unwrap_or_default())
}

/// Read from text, as the API server's are: a second reader of all that a pod can be is not worth its size.
fn typed(pod: &Value) -> Result<Pod, Error> {
    serde_json::from_str(&pod.to_string()).map_err(|error| Error::Parse(without_place(&error)))
}

/// The error without the place in a text that nobody has seen: it is one line, whatever the manifest is.
fn without_place(error: &serde_json::Error) -> serde_json::Error {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    serde_json::Error::custom(text.strip_suffix(&place).unwrap_or(&text))
}

fn static_pod(mut pod: Value, origin: Origin<'_>, node_name: &str) -> Result<Pod, Error> {
    // Wrong types show here, before anything is derived from them.
    let read = typed(&pod)?;
    if read.metadata.name.as_deref().unwrap_or_default().is_empty() {
        return Err(Error::NoName);
    }
    defaults::fill_in(&mut pod);
    let uid = match read.metadata.uid.filter(|uid| !uid.is_empty()) {
        Some(uid) => uid,
        None => uid_of(&pod, origin, node_name)?,
    };
    let mut pod = typed(&pod)?;
    make_static(&mut pod, uid, origin, node_name);
    let faults = validate::faults(&pod);
    if !faults.is_empty() {
        return Err(Error::Invalid { name: pod.metadata.name.unwrap_or_default(), faults });
    }
    if let Some(resource) = references::api_reference(&pod) {
        return Err(Error::Reference(resource));
    }
    Ok(pod)
}

/// The uid of a static pod: the hash of all it says, and of where it is said. `pod` must be filled in.
fn uid_of(pod: &Value, origin: Origin<'_>, node_name: &str) -> Result<String, Error> {
    let dump =
        go_dump::dump(&internal(pod)).map_err(|error| Error::Parse(serde_json::Error::custom(error)))?;
    let hash = Fnv128a::new().update(dump.as_bytes());
    Ok(match origin {
        Origin::File(path) => hash.update(format!("host:{node_name}file:{path}").as_bytes()),
        Origin::Url(url) => hash.update(format!("url:{url}").as_bytes()),
    }
    .hex())
}

/// The pod as upstream's unversioned struct has it: the host's namespaces stand in the security context.
fn internal(pod: &Value) -> Value {
    let mut pod = pod.clone();
    for name in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"] {
        if let Some(value) = pod["spec"].get(name).cloned() {
            pod["spec"]["securityContext"][name] = value;
        }
    }
    pod
}

/// Names the pod after the node, places it there, and marks it with its hash.
fn make_static(pod: &mut Pod, uid: String, origin: Origin<'_>, node_name: &str) {
    let metadata = &mut pod.metadata;
    let name = metadata.name.take().unwrap_or_default();
    metadata.name = Some(format!("{name}-{}", node_name.to_lowercase()));
    if metadata.namespace.as_deref().unwrap_or_default().is_empty() {
        metadata.namespace = Some(POD_NAMESPACE_DEFAULT.to_owned());
    }
    metadata.annotations.get_or_insert_default().insert(CONFIG_HASH.to_owned(), uid.clone());
    metadata.uid = Some(uid);
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(node_name.to_owned());
    if matches!(origin, Origin::File(_)) {
        // What runs a node shall not be evicted when the node has trouble.
        let everything = serde_json::from_value(json!({ "operator": "Exists", "effect": "NoExecute" }))
            .expect("a toleration must be readable");
        tolerate(spec.tolerations.get_or_insert_default(), everything);
    }
    pod.status = Some(k8s_openapi::api::core::v1::PodStatus {
        phase: Some("Pending".to_owned()),
        ..pod.status.take().unwrap_or_default()
    });
}

/// Adds a toleration, or puts it in the place of one for the same taints.
fn tolerate(
    tolerations: &mut Vec<k8s_openapi::api::core::v1::Toleration>,
    toleration: k8s_openapi::api::core::v1::Toleration,
) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let same = |other: &k8s_openapi::api::core::v1::Toleration| {
        text(&other.key) == text(&toleration.key)
            && text(&other.effect) == text(&toleration.effect)
            && text(&other.operator) == text(&toleration.operator)
            && text(&other.value) == text(&toleration.value)
    };
    match tolerations.iter_mut().find(|other| same(other)) {
        Some(other) => *other = toleration,
        None => tolerations.push(toleration),
    }
}
