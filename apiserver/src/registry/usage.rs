//! The resources of `metrics.k8s.io/v1beta1`. They have no objects: see [`usage`](crate::usage).

use std::sync::OnceLock;

use arcstr::ArcStr;
use steersman_api::schema::Scope;

use super::resource::{Resource, api_version, qualified};
use super::strategy::{Plain, Traits};
use crate::table::Layout;

/// The group.
pub(crate) const USAGE_GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";

/// The usage of nodes and that of pods.
pub(crate) fn usage_resources() -> [Resource; 2] {
    [
        resource("nodes", "node", "NodeMetrics", Scope::Cluster),
        resource("pods", "pod", "PodMetrics", Scope::Namespaced),
    ]
}

/// Whether this is the table of such a resource.
pub(crate) fn is_about_usage(table: &str) -> bool {
    matches!(table.split_once('.'), Some(("nodes" | "pods", USAGE_GROUP)))
}

fn resource(plural: &str, singular: &str, kind: &str, scope: Scope) -> Resource {
    let qualified = qualified(USAGE_GROUP, plural);
    Resource {
        group: USAGE_GROUP.into(),
        version: VERSION.into(),
        api_version: api_version(USAGE_GROUP, VERSION),
        plural: plural.into(),
        singular: singular.into(),
        kind: kind.into(),
        list_kind: arcstr::format!("{kind}List"),
        table: qualified.clone(),
        qualified,
        scope,
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: ["get", "list"].map(ArcStr::from).to_vec(),
        subresources: Vec::new(),
        schema: None,
        structure: None,
        closing: false,
        empty: OnceLock::new(),
        traits: Traits::USUAL,
        strategy: &Plain,
        layout: Layout::of(USAGE_GROUP, kind),
    }
}
