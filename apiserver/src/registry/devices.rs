//! Kinds of `resource.k8s.io` with rules.

use super::strategy::Strategy;

/// The rules of resource slices.
pub(crate) struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.nodeName", "spec.driver"]
    }
}
