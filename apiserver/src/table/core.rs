//! The core group, apart from what has to do with networks.

use std::collections::BTreeSet;

use serde_json::Value;

use super::BuiltIn;
use super::column::{AGE, Column, NAME, text, wide};
use super::format;
use super::{pod, storage, workload};
use crate::object::{self, list_at, str_at};

/// The layouts of the core group.
pub(super) fn layout(kind: &str) -> Option<&'static BuiltIn> {
    Some(match kind {
        "Pod" => &pod::POD,
        "PodTemplate" => &POD_TEMPLATE,
        "ReplicationController" => &workload::REPLICATION_CONTROLLER,
        "PersistentVolume" | "PersistentVolumeClaim" => return storage::layout(kind),
        "Node" => &NODE,
        "Event" => &EVENT,
        "Namespace" => &NAMESPACE,
        "ConfigMap" => &CONFIG_MAP,
        "Secret" => &SECRET,
        "ServiceAccount" => &NAME_AND_AGE,
        "ResourceQuota" => &RESOURCE_QUOTA,
        "ComponentStatus" => &COMPONENT_STATUS,
        _ => return None,
    })
}

/// Kinds with nothing to show but that they are there.
pub(super) static NAME_AND_AGE: BuiltIn = BuiltIn {
    columns: &[NAME, AGE],
    cells: |object, now| vec![format::name(object), format::age(object, now)],
};

static POD_TEMPLATE: BuiltIn = BuiltIn {
    columns: &[NAME, text("Containers"), text("Images"), text("Pod Labels")],
    cells: |template, _| {
        let [names, images] = format::containers(template, "template.spec.containers");
        let labels = format::labels(template, "template.metadata.labels");
        vec![format::name(template), names, images, labels.into()]
    },
};

static NAMESPACE: BuiltIn = BuiltIn {
    columns: &[NAME, text("Status"), AGE],
    cells: |namespace, now| {
        vec![format::name(namespace), format::text(namespace, "status.phase"), format::age(namespace, now)]
    },
};

static CONFIG_MAP: BuiltIn = BuiltIn {
    columns: &[NAME, text("Data"), AGE],
    cells: |map, now| {
        let entries = members(map, "data") + members(map, "binaryData");
        vec![format::name(map), entries.into(), format::age(map, now)]
    },
};

static SECRET: BuiltIn = BuiltIn {
    columns: &[NAME, text("Type"), text("Data"), AGE],
    cells: |secret, now| {
        vec![
            format::name(secret),
            format::text(secret, "type"),
            members(secret, "data").into(),
            format::age(secret, now),
        ]
    },
};

/// How many members the map at a path has.
fn members(object: &Value, path: &str) -> usize {
    object::at(object, path).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

static RESOURCE_QUOTA: BuiltIn = BuiltIn {
    columns: &[NAME, text("Request"), text("Limit"), AGE],
    cells: |quota, now| {
        let hard = object::at(quota, "status.hard").and_then(Value::as_object);
        let mut names: Vec<&String> = hard.into_iter().flat_map(serde_json::Map::keys).collect();
        names.sort_unstable();
        let (limits, requests): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| name.starts_with("limits."));
        let shown = |names: Vec<&String>| {
            let amounts = names.into_iter().map(|name| {
                let amount = |of: &str| {
                    let amount = quota["status"].get(of).and_then(|amounts| amounts.get(name.as_str()));
                    amount.map_or_else(|| "0".to_owned(), format::amount)
                };
                format!("{name}: {}/{}", amount("used"), amount("hard"))
            });
            Value::from(amounts.collect::<Vec<_>>().join(", "))
        };
        vec![format::name(quota), shown(requests), shown(limits), format::age(quota, now)]
    },
};

static COMPONENT_STATUS: BuiltIn = BuiltIn {
    columns: &[NAME, text("Status"), text("Message"), text("Error")],
    cells: |component, _| {
        let healthy = list_at(component, "conditions").iter().find(|found| found["type"] == "Healthy");
        let status = match healthy {
            Some(condition) if condition["status"] == "True" => "Healthy",
            Some(_) => "Unhealthy",
            None => "Unknown",
        };
        let said = |name| healthy.map(|healthy| object::text_at(healthy, name)).unwrap_or_default();
        vec![format::name(component), status.into(), said("message").into(), said("error").into()]
    },
};

static NODE: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        text("Status"),
        text("Roles"),
        AGE,
        text("Version"),
        wide("Internal-IP"),
        wide("External-IP"),
        wide("OS-Image"),
        wide("Kernel-Version"),
        wide("Container-Runtime"),
    ],
    cells: |node, now| {
        let info = |name: &str| format::text_or(&node["status"]["nodeInfo"], name, "<unknown>");
        let mut kernel = object::text_at(node, "status.nodeInfo.kernelVersion");
        if kernel.is_empty() {
            "<unknown>".clone_into(&mut kernel);
        }
        if let Some(arch) = str_at(node, "status.nodeInfo.architecture").filter(|arch| !arch.is_empty()) {
            kernel = format!("{kernel} ({arch})");
        }
        vec![
            format::name(node),
            node_status(node).into(),
            node_roles(node).into(),
            format::age(node, now),
            format::text(node, "status.nodeInfo.kubeletVersion"),
            address(node, "InternalIP"),
            address(node, "ExternalIP"),
            info("osImage"),
            kernel.into(),
            info("containerRuntimeVersion"),
        ]
    },
};

fn node_status(node: &Value) -> String {
    let conditions = list_at(node, "status.conditions");
    // Of two conditions of one type the later counts.
    let ready = conditions.iter().rfind(|condition| condition["type"] == "Ready");
    let status = match ready {
        Some(ready) if ready["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if object::is_true(node, "spec.unschedulable") {
        format!("{status},SchedulingDisabled")
    } else {
        status.to_owned()
    }
}

/// From the labels `node-role.kubernetes.io/ROLE` and `kubernetes.io/role=ROLE`.
fn node_roles(node: &Value) -> String {
    let labels = object::at(node, "metadata.labels").and_then(Value::as_object);
    let role = |(key, value): (&'_ String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None => value.as_str().filter(|_| key == "kubernetes.io/role").map(str::to_owned),
    };
    let roles: BTreeSet<String> =
        labels.into_iter().flatten().filter_map(role).filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn address(node: &Value, kind: &str) -> Value {
    let addresses = list_at(node, "status.addresses");
    let found = addresses.iter().find(|address| address["type"] == kind);
    found.map_or_else(|| "<none>".into(), |found| format::text(found, "address"))
}

static EVENT: BuiltIn = BuiltIn {
    columns: &[
        text("Last Seen"),
        text("Type"),
        text("Reason"),
        text("Object"),
        wide("Subobject"),
        wide("Source"),
        text("Message"),
        wide("First Seen"),
        wide("Count"),
        Column { priority: 1, ..NAME },
    ],
    cells: |event, now| {
        let first = match object::at(event, "firstTimestamp").filter(|first| !first.is_null()) {
            Some(_) => format::since(event, "firstTimestamp", now),
            None => format::since(event, "eventTime", now),
        };
        let series = event.get("series").filter(|series| series.is_object());
        let last = match (series, object::str_at(event, "lastTimestamp")) {
            (Some(series), _) => format::since(series, "lastObservedTime", now),
            (None, Some(_)) => format::since(event, "lastTimestamp", now),
            (None, None) => first.clone(),
        };
        let count = match (series, format::int(event, "count")) {
            (Some(series), _) => format::int(series, "count"),
            // Events of the newer form that happened once do not say so.
            (None, 0) => 1,
            (None, count) => count,
        };
        let involved = &event["involvedObject"];
        let kind = object::text_at(involved, "kind").to_lowercase();
        let about = match str_at(involved, "name").filter(|name| !name.is_empty()) {
            Some(name) => format!("{kind}/{name}"),
            None => kind,
        };
        vec![
            last.into(),
            format::text(event, "type"),
            format::text(event, "reason"),
            about.into(),
            format::text(involved, "fieldPath"),
            event_source(event).into(),
            object::text_at(event, "message").trim().into(),
            first.into(),
            count.into(),
            format::name(event),
        ]
    },
};

/// Which component said it, and where that runs.
fn event_source(event: &Value) -> String {
    let either = |old: &str, new: &str| {
        let texts = [old, new].map(|path| str_at(event, path).unwrap_or_default());
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
    };
    let component = either("source.component", "reportingComponent");
    match either("source.host", "reportingInstance") {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}
