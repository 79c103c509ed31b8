//! Reads discovery and OpenAPI from a running API server.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Error;

/// What the API server publishes.
#[derive(Debug)]
pub(crate) struct Server {
    /// The server's version, such as `v1.36.3`.
    pub(crate) version: String,
    /// The group versions, in the server's order of groups. Within a group, the preferred version comes first.
    pub(crate) group_versions: Vec<GroupVersion>,
    /// The schemas, by name, such as `io.k8s.api.core.v1.Pod`.
    pub(crate) schemas: BTreeMap<String, Value>,
}

/// The `APIResourceList` of one group version.
#[derive(Debug)]
pub(crate) struct GroupVersion {
    /// The API group; empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resources: Vec<Value>,
}

impl Server {
    /// Reads everything through kubectl.
    pub(crate) fn ask(kubectl: &Path) -> Result<Self, Error> {
        let get = |path: &str| get(kubectl, path);
        let version = text(&get("/version")?, "gitVersion").to_owned();
        let mut names = vec![(String::new(), "v1".to_owned())];
        for group in list(&get("/apis")?, "groups") {
            for version in list(group, "versions") {
                names.push((text(group, "name").to_owned(), text(version, "version").to_owned()));
            }
        }
        let mut group_versions = Vec::new();
        let mut schemas = BTreeMap::new();
        for (group, version) in names {
            let path = if group.is_empty() { "api/v1".to_owned() } else { format!("apis/{group}/{version}") };
            let resources = list(&get(&format!("/{path}"))?, "resources").to_vec();
            if let Value::Object(found) = get(&format!("/openapi/v3/{path}"))?["components"]["schemas"].take()
            {
                schemas.extend(found);
            }
            group_versions.push(GroupVersion { group, version, resources });
        }
        Ok(Self { version, group_versions, schemas })
    }
}

fn get(kubectl: &Path, path: &str) -> Result<Value, Error> {
    let failed = |reason: String| Error::Get { path: path.to_owned(), reason };
    let output = Command::new(kubectl)
        .args(["get", "--raw", path])
        .output()
        .map_err(|error| failed(format!("{}: {error}", kubectl.display())))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

/// Returns a member that is a text, or the empty text.
pub(crate) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

/// Returns a member that is a list, or the empty list.
pub(crate) fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    value[member].as_array().map_or(&[], Vec::as_slice)
}

/// Returns a member that is a list of words, joined by `separator`.
pub(crate) fn joined(value: &Value, member: &str, separator: &str) -> String {
    list(value, member).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(separator)
}
