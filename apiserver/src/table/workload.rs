//! What keeps pods running.

use serde_json::Value;

use super::BuiltIn;
use super::column::{AGE, CONTAINERS, Column, IMAGES, NAME, SELECTOR, integer, text};
use super::format;
use crate::object::{self, list_at, str_at};

/// The layouts of the group `apps`.
pub(super) fn layout(kind: &str) -> Option<&'static BuiltIn> {
    Some(match kind {
        "Deployment" => &DEPLOYMENT,
        "ReplicaSet" => &REPLICA_SET,
        "StatefulSet" => &STATEFUL_SET,
        "DaemonSet" => &DAEMON_SET,
        "ControllerRevision" => &CONTROLLER_REVISION,
        _ => return None,
    })
}

const TEMPLATE: &str = "spec.template.spec.containers";

static DEPLOYMENT: BuiltIn = BuiltIn {
    columns: &[NAME, text("Ready"), text("Up-to-date"), text("Available"), AGE, CONTAINERS, IMAGES, SELECTOR],
    cells: |deployment, now| {
        let [names, images] = format::containers(deployment, TEMPLATE);
        let selector =
            object::at(deployment, "spec.selector").map_or(Some(String::new()), format::selector_terms);
        vec![
            format::name(deployment),
            ready(deployment),
            format::count(deployment, "status.updatedReplicas"),
            format::count(deployment, "status.availableReplicas"),
            format::age(deployment, now),
            names,
            images,
            selector.unwrap_or_else(|| "<invalid>".to_owned()).into(),
        ]
    },
};

/// As replica sets and replication controllers are shown.
pub(super) const REPLICAS: &[Column] =
    &[NAME, integer("Desired"), integer("Current"), integer("Ready"), AGE, CONTAINERS, IMAGES, SELECTOR];

static REPLICA_SET: BuiltIn = BuiltIn {
    columns: REPLICAS,
    cells: |set, now| {
        let [names, images] = format::containers(set, TEMPLATE);
        vec![
            format::name(set),
            format::count(set, "spec.replicas"),
            format::count(set, "status.replicas"),
            format::count(set, "status.readyReplicas"),
            format::age(set, now),
            names,
            images,
            format::selector(set, "spec.selector"),
        ]
    },
};

pub(super) static REPLICATION_CONTROLLER: BuiltIn = BuiltIn {
    columns: REPLICAS,
    cells: |controller, now| {
        let mut cells = (REPLICA_SET.cells)(controller, now);
        // Its selector is a plain set of labels.
        cells[7] = format::labels(controller, "spec.selector").into();
        cells
    },
};

static STATEFUL_SET: BuiltIn = BuiltIn {
    columns: &[NAME, text("Ready"), AGE, CONTAINERS, IMAGES],
    cells: |set, now| {
        let [names, images] = format::containers(set, TEMPLATE);
        vec![format::name(set), ready(set), format::age(set, now), names, images]
    },
};

static DAEMON_SET: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        integer("Desired"),
        integer("Current"),
        integer("Ready"),
        integer("Up-to-date"),
        integer("Available"),
        text("Node Selector"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |set, now| {
        let [names, images] = format::containers(set, TEMPLATE);
        vec![
            format::name(set),
            format::count(set, "status.desiredNumberScheduled"),
            format::count(set, "status.currentNumberScheduled"),
            format::count(set, "status.numberReady"),
            format::count(set, "status.updatedNumberScheduled"),
            format::count(set, "status.numberAvailable"),
            format::labels(set, "spec.template.spec.nodeSelector").into(),
            format::age(set, now),
            names,
            images,
            format::selector(set, "spec.selector"),
        ]
    },
};

static CONTROLLER_REVISION: BuiltIn = BuiltIn {
    columns: &[NAME, text("Controller"), text("Revision"), AGE],
    cells: |revision, now| {
        let owners = list_at(revision, "metadata.ownerReferences");
        let owner = owners.iter().find(|owner| object::is_true(owner, "controller"));
        let owner = owner.map_or_else(|| "<none>".to_owned(), owner_name);
        vec![
            format::name(revision),
            owner.into(),
            format::count(revision, "revision"),
            format::age(revision, now),
        ]
    },
};

/// Such as `statefulset.apps/web`.
fn owner_name(owner: &Value) -> String {
    let text = |name| str_at(owner, name).unwrap_or_default();
    let kind = text("kind").to_lowercase();
    match text("apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", text("name")),
        None => format!("{kind}/{}", text("name")),
    }
}

/// How many replicas are ready, of how many.
fn ready(workload: &Value) -> Value {
    let ready = format::int(workload, "status.readyReplicas");
    format!("{ready}/{}", format::int(workload, "spec.replicas")).into()
}
