//! Fields that a write through some door never changes, whatever it says: nobody gets them by it.

use super::set::FieldSet;

/// The fields, and what is below them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reset(FieldSet);

impl Reset {
    /// By group, plural and subresource of a built-in kind; `has_status` if its status is written apart. From upstream,
    /// which forgets some subresources.
    pub(crate) fn of(group: &str, plural: &str, subresource: &str, has_status: bool) -> Self {
        let fields: &[&str] = match (group, plural, subresource) {
            ("certificates.k8s.io", "certificatesigningrequests", "") => &["spec", "status"],
            ("certificates.k8s.io", "certificatesigningrequests", "approval") => {
                &["spec", "status.certificate"]
            }
            ("certificates.k8s.io", "certificatesigningrequests", "status") => &["spec", "status.conditions"],
            (_, _, "") if has_status => &["status"],
            ("", "namespaces", "finalize") => &["status"],
            ("", "pods", "status") => &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
            ("apps", "deployments", "status") => &["spec", "metadata.labels"],
            (
                "admissionregistration.k8s.io"
                | "apiregistration.k8s.io"
                | "flowcontrol.apiserver.k8s.io"
                | "resource.k8s.io"
                | "storage.k8s.io",
                _,
                "status",
            )
            | ("networking.k8s.io", "servicecidrs", "status") => &["metadata", "spec"],
            (_, _, "status") => &["spec"],
            _ => &[],
        };
        Self(FieldSet::of_fields(fields))
    }

    /// As [`of`](Self::of), of a custom resource.
    pub(crate) fn of_custom(subresource: &str, has_status: bool) -> Self {
        let fields: &[&str] = match subresource {
            "" if has_status => &["status"],
            "status" => &["metadata", "spec"],
            _ => &[],
        };
        Self(FieldSet::of_fields(fields))
    }

    /// Takes out of a set what may not change hands.
    pub(super) fn keep(&self, set: &mut FieldSet) {
        set.cut(&self.0);
    }
}
