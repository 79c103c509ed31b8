//! `--node-labels`.

use std::collections::BTreeMap;

use steersman_api::names::{label_value, qualified_name};

/// Labels of Kubernetes's own that a node may give itself.
const OURS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Prefixes of others; what comes before them after a dot does not matter.
const OUR_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Reads `key=value` with commas between; a key alone has an empty value.
///
/// # Errors
/// A label that can't be, or that a node may not give itself.
pub(super) fn read(texts: &[String]) -> Result<BTreeMap<String, String>, String> {
    let pairs = texts.iter().flat_map(|text| text.split(',')).filter(|pair| !pair.is_empty());
    let labels: BTreeMap<String, String> = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect();
    for (key, value) in &labels {
        if is_reserved(key) && !is_ours(key) {
            return Err(format!(
                "unknown 'kubernetes.io' or 'k8s.io' label {key:?}: labels in the 'kubernetes.io' namespace must begin \
                 with an allowed prefix ({}) or be in the specifically allowed set ({})",
                OUR_PREFIXES.join(", "),
                OURS.join(", "),
            ));
        }
        if !qualified_name(key).is_empty() || !label_value(value).is_empty() {
            return Err(format!("invalid node label {key}={value}"));
        }
    }
    Ok(labels)
}

fn prefix(key: &str) -> &str {
    key.split_once('/').map_or("", |(prefix, _)| prefix)
}

fn is_under(prefix: &str, domain: &str) -> bool {
    prefix.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_reserved(key: &str) -> bool {
    ["kubernetes.io", "k8s.io"].iter().any(|domain| is_under(prefix(key), domain))
}

fn is_ours(key: &str) -> bool {
    OURS.contains(&key) || OUR_PREFIXES.iter().any(|domain| is_under(prefix(key), domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_pairs() {
        let found = read(&["a=b,c".to_owned(), " d = e ,".to_owned()]).unwrap();
        let expected = [("a", "b"), ("c", ""), ("d", "e")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_node_may_give_itself_only_some_of_kubernetess_labels() {
        for good in [
            "topology.kubernetes.io/zone=a",
            "x.node.kubernetes.io/b=c",
            "node.kubernetes.io/b",
            "mykubernetes.io/a=b",
        ] {
            assert!(read(&[good.to_owned()]).is_ok(), "{good}");
        }
        for bad in ["kubernetes.io/x=a", "node-role.kubernetes.io/control-plane=", "a.k8s.io/b=c"] {
            let error = read(&[bad.to_owned()]).unwrap_err();
            assert!(error.starts_with("unknown 'kubernetes.io' or 'k8s.io' label"), "{error}");
        }
        for bad in ["-a=b", "a=b c", "=b"] {
            assert!(read(&[bad.to_owned()]).unwrap_err().starts_with("invalid node label"), "{bad}");
        }
    }
}
