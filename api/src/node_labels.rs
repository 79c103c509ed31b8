//! Which labels a node may set on its own Node.

/// Kubernetes's labels that a node may set on itself. From upstream.
pub const ALLOWED: [&str; 11] = [
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

/// Prefixes of further labels of Kubernetes that a node may set on itself, also as the end of a longer domain. From upstream.
pub const ALLOWED_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The prefix of labels by which administrators keep workloads to some nodes.
const RESTRICTION: &str = "node-restriction.kubernetes.io";

/// Whether the label is Kubernetes's, and none of those that a node may set on itself: the kubelet refuses it as a flag.
pub fn is_unknown(key: &str) -> bool {
    let prefix = prefix(key);
    let is_kubernetess = ["kubernetes.io", "k8s.io"].iter().any(|domain| is_under(prefix, domain));
    let is_allowed = ALLOWED.contains(&key) || ALLOWED_PREFIXES.iter().any(|domain| is_under(prefix, domain));
    is_kubernetess && !is_allowed
}

/// Whether the API server refuses a node that sets, changes or removes the label on itself: the node could draw workloads to itself
/// that are meant for others.
pub fn is_forbidden(key: &str) -> bool {
    is_unknown(key) || is_under(prefix(key), RESTRICTION)
}

fn prefix(key: &str) -> &str {
    key.split_once('/').map_or("", |(prefix, _)| prefix)
}

fn is_under(prefix: &str, domain: &str) -> bool {
    prefix.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_may_set_only_some_of_kubernetess_labels() {
        for (key, unknown, forbidden) in [
            ("disk", false, false),
            ("example.com/disk", false, false),
            ("mykubernetes.io/a", false, false),
            ("topology.kubernetes.io/zone", false, false),
            ("node.kubernetes.io/b", false, false),
            ("x.node.kubernetes.io/b", false, false),
            ("kubernetes.io/x", true, true),
            ("a.k8s.io/b", true, true),
            ("node-role.kubernetes.io/control-plane", true, true),
            ("node-restriction.kubernetes.io/a", true, true),
            ("x.node-restriction.kubernetes.io/a", true, true),
        ] {
            assert_eq!((is_unknown(key), is_forbidden(key)), (unknown, forbidden), "{key}");
        }
    }
}
