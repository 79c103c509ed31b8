//! Priority classes.

/// The value of a class that every cluster has.
pub(crate) fn built_in(class: &str) -> Option<i64> {
    match class {
        "system-cluster-critical" => Some(2_000_000_000),
        "system-node-critical" => Some(2_000_001_000),
        _ => None,
    }
}
