//! What nodes and pods use, as metrics-server shows it.

use serde_json::Value;
use steersman_api::Quantity;

use super::BuiltIn;
use super::column::{Column, NAME};
use super::format;
use crate::object::{list_at, str_at};

/// The layouts of the group `metrics.k8s.io`.
pub(super) fn layout(kind: &str) -> Option<&'static BuiltIn> {
    matches!(kind, "NodeMetrics" | "PodMetrics").then_some(&USAGE)
}

const fn quantity(name: &'static str) -> Column {
    Column { name, kind: "string", format: "quantity", priority: 0 }
}

static USAGE: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        quantity("cpu"),
        quantity("memory"),
        Column { name: "Window", kind: "string", format: "duration", priority: 0 },
    ],
    cells: |metrics, _| {
        vec![
            format::name(metrics),
            sum(metrics, "cpu"),
            sum(metrics, "memory"),
            format::text(metrics, "window"),
        ]
    },
};

/// The usage of a node, or of all containers of a pod.
fn sum(metrics: &Value, resource: &str) -> Value {
    let of = |holder: &Value| -> Option<Quantity> { str_at(&holder["usage"], resource)?.parse().ok() };
    let containers = list_at(metrics, "containers").iter().filter_map(of);
    containers.chain(of(metrics)).fold(Quantity::default(), |sum, amount| sum + amount).to_string().into()
}
