//! The flag `--node-labels`.

use std::collections::BTreeMap;

use steersman_api::names::{label_value, qualified_name};
use steersman_api::node_labels::{ALLOWED, ALLOWED_PREFIXES, is_unknown};

/// Parses comma-separated `key=value` pairs. A key alone has an empty value.
///
/// # Errors
/// If a label is invalid, or a node may not set it on itself.
pub(super) fn read(texts: &[String]) -> Result<BTreeMap<String, String>, String> {
    let pairs = texts.iter().flat_map(|text| text.split(',')).filter(|pair| !pair.is_empty());
    let labels: BTreeMap<String, String> = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect();
    for (key, value) in &labels {
        if is_unknown(key) {
            return Err(format!(
                "unknown 'kubernetes.io' or 'k8s.io' label {key:?}: labels in the 'kubernetes.io' namespace must begin \
                 with an allowed prefix ({}) or be in the specifically allowed set ({})",
                ALLOWED_PREFIXES.join(", "),
                ALLOWED.join(", "),
            ));
        }
        if !qualified_name(key).is_empty() || !label_value(value).is_empty() {
            return Err(format!("invalid node label {key}={value}"));
        }
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_parsed_as_pairs() {
        let found = read(&["a=b,c".to_owned(), " d = e ,".to_owned()]).unwrap();
        let expected = [("a", "b"), ("c", ""), ("d", "e")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_node_may_set_only_some_of_kubernetess_labels() {
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
