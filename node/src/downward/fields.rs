//! Fields of the pod: `metadata.name`, `metadata.labels['app']`, `status.podIP`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use steersman_api::names;

use super::quote::quote;
use crate::machine::Family;

/// The addresses that a pod is told of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodAddresses {
    pod: Vec<String>,
    host: Vec<String>,
}

impl PodAddresses {
    /// From what the runtime says of the pod's sandbox, of which one of each family counts, and the node's own addresses.
    pub fn new(of_sandbox: &[String], host: &[String], first: Family) -> Self {
        Self { pod: one_of_each_family(of_sandbox, first), host: host.to_vec() }
    }

    /// The pod's, the first one first.
    pub fn pod_ips(&self) -> &[String] {
        &self.pod
    }

    /// The node's, the first one first.
    pub fn host_ips(&self) -> &[String] {
        &self.host
    }
}

/// A pod's addresses as it is told them, and its status tells them: one of each family, the `first` one first, written as Go
/// writes them. What is no address is left out.
pub fn one_of_each_family(of_sandbox: &[String], first: Family) -> Vec<String> {
    let parsed: Vec<IpAddr> = of_sandbox.iter().filter_map(|ip| ip.parse().ok()).collect();
    let of = |family| parsed.iter().find(|ip| Family::of(**ip) == family).map(IpAddr::to_canonical);
    [first, first.other()].into_iter().filter_map(of).map(|ip| ip.to_string()).collect()
}

/// The value of a field for the environment of a container (`fieldRef`).
///
/// Missing labels and annotations, and addresses of a pod that has none yet, are empty texts.
///
/// # Errors
/// There is no such field, or the node's addresses are not known; in words for the container's waiting state.
pub fn field_value(pod: &Pod, field_path: &str, ips: &PodAddresses) -> Result<String, String> {
    let spec = pod.spec.as_ref();
    let host_ips = || match ips.host.as_slice() {
        [] => Err("the addresses of the node are not known".to_owned()),
        some => Ok(some),
    };
    match field_path {
        // `spec.host` is what clients of old wrote.
        "spec.nodeName" | "spec.host" => Ok(spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default()),
        "spec.serviceAccountName" => {
            Ok(spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default())
        }
        "status.hostIP" => Ok(host_ips()?[0].clone()),
        "status.hostIPs" => Ok(host_ips()?.join(",")),
        "status.podIP" => Ok(ips.pod.first().cloned().unwrap_or_default()),
        "status.podIPs" => Ok(ips.pod.join(",")),
        _ => metadata_value(pod, field_path),
    }
}

/// The value of a field for a file (`fieldRef` of a volume): metadata only.
///
/// # Errors
/// There is no such field; in words for the event.
pub fn metadata_value(pod: &Pod, field_path: &str) -> Result<String, String> {
    let meta = &pod.metadata;
    if let Some((path, key)) = subscripted(field_path) {
        let (map, valid) = match path {
            "metadata.annotations" => {
                (&meta.annotations, names::qualified_name(&key.to_lowercase()).is_empty())
            }
            "metadata.labels" => (&meta.labels, names::qualified_name(key).is_empty()),
            _ => return Err(format!("fieldPath {field_path:?} does not support subscript")),
        };
        if !valid {
            return Err(format!("invalid key subscript in {field_path}: {key:?} is no key of a label"));
        }
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    let text = match field_path {
        "metadata.annotations" => return Ok(lines(meta.annotations.as_ref())),
        "metadata.labels" => return Ok(lines(meta.labels.as_ref())),
        "metadata.name" => &meta.name,
        "metadata.namespace" => &meta.namespace,
        "metadata.uid" => &meta.uid,
        _ => return Err(format!("unsupported fieldPath: {field_path}")),
    };
    Ok(text.clone().unwrap_or_default())
}

/// `path['key']` taken apart.
fn subscripted(field_path: &str) -> Option<(&str, &str)> {
    let (path, key) = field_path.strip_suffix("']")?.split_once("['")?;
    (!path.is_empty()).then_some((path, key))
}

/// `key="value"`, a line each, by key.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quote(value)));
    lines.collect::<Vec<_>>().join("\n")
}
