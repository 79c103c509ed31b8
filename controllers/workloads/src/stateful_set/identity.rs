//! What a pod of a StatefulSet is called, and what its claims are called.

use steersman_api::{ArcStr, ObjectKey};

/// The label with the pod's own name.
pub(super) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// The label with the pod's ordinal.
pub(super) const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// The label with the name of the pod's revision.
pub(super) const REVISION: &str = "controller-revision-hash";

/// Splits the name of a pod at its last dash into the name of its set and its ordinal. `None` if nothing but digits may follow
/// that dash, and something else does.
///
/// The ordinal is `None` if no set would give it to a pod: it has leading zeros, or more than 32 bits. Upstream takes `web-01`
/// for the pod of ordinal 1, and then fails to give it the name `web-1`.
pub(super) fn split(pod: &str) -> Option<(&str, Option<i32>)> {
    let (set, digits) = pod.rsplit_once('-')?;
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let canonical = digits == "0" || !digits.starts_with('0');
    Some((set, digits.parse().ok().filter(|_| canonical)))
}

/// The ordinal of a pod in the set of this name. `None` if the pod can't be one of the set, or has no valid ordinal.
pub(super) fn ordinal(set: &str, pod: &str) -> Option<i32> {
    split(pod).filter(|(parent, _)| *parent == set).and_then(|(_, ordinal)| ordinal)
}

/// Whether a pod's name is that of a pod of the set.
pub(super) fn is_member(set: &str, pod: &str) -> bool {
    split(pod).is_some_and(|(parent, _)| parent == set)
}

/// The key of the pod of an ordinal.
pub(super) fn pod_key(set: &ObjectKey, ordinal: i32) -> ObjectKey {
    ObjectKey::new(set.namespace.clone(), ArcStr::from(format!("{}-{ordinal}", set.name)))
}

/// The name of the claim that the pod of an ordinal has by a template.
pub(super) fn claim_name(template: &str, set: &str, ordinal: i32) -> ArcStr {
    format!("{template}-{set}-{ordinal}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_name_tells_its_set_and_its_ordinal() {
        for (pod, expected) in [
            ("web-0", Some(("web", Some(0)))),
            ("web-17", Some(("web", Some(17)))),
            ("web-1-2", Some(("web-1", Some(2)))),
            ("-3", Some(("", Some(3)))),
            ("web-2147483647", Some(("web", Some(i32::MAX)))),
            ("web-2147483648", Some(("web", None))),
            ("web-01", Some(("web", None))),
            ("web--1", Some(("web-", Some(1)))),
            ("web-", None),
            ("web", None),
            ("web-a1", None),
            ("web-1a", None),
            ("", None),
        ] {
            assert_eq!(split(pod), expected, "{pod}");
        }
        assert_eq!((ordinal("web", "web-4"), ordinal("we", "web-4")), (Some(4), None));
        assert!(is_member("web", "web-99999999999") && !is_member("web", "web-x-1"));
        assert_eq!(pod_key(&ObjectKey::new("ns", "web"), 4), ObjectKey::new("ns", "web-4"));
        assert_eq!(claim_name("data", "web", 4), "data-web-4");
    }
}
