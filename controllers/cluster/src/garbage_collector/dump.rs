//! Shows the graph in the DOT language, as upstream's debugging handler does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use steersman_api::Uid;

use super::collector::Collector;
use super::graph::{Shown, Sight};

/// An object in the picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Vertex {
    group: String,
    version: String,
    kind: String,
    namespace: String,
    name: String,
    being_deleted: bool,
    deleting_dependents: bool,
    is_virtual: bool,
}

/// The graph of all objects that have owners or dependents; with `uids`, only what is connected with these.
pub(super) fn dot(collector: &Collector, uids: &[Uid]) -> String {
    let dump = collector.graph.lock().dump();
    let mut edges = BTreeSet::new();
    for Shown { uid, owners, .. } in &dump {
        edges.extend(owners.iter().map(|owner| (uid.to_string(), owner.to_string())));
    }
    let connected = (!uids.is_empty()).then(|| connected(&edges, uids));
    let shown = |uid: &str| connected.as_ref().is_none_or(|connected| connected.contains(uid));
    let mut vertices = BTreeMap::new();
    for Shown { uid, kind, sight, waiting, .. } in &dump {
        let text = uid.to_string();
        if !shown(&text) {
            continue;
        }
        let mut vertex = Vertex {
            is_virtual: *sight != Sight::Observed,
            deleting_dependents: *waiting,
            ..Vertex::default()
        };
        if let Some(kind) = kind.and_then(|kind| collector.kinds.get(kind)) {
            vertex.group = kind.gvk.group.to_string();
            vertex.version = kind.gvk.version.to_string();
            vertex.kind = kind.gvk.kind.to_string();
            if let Some(meta) = kind.informer.meta_by_uid(uid) {
                vertex.namespace = meta.key.namespace.to_string();
                vertex.name = meta.key.name.to_string();
                vertex.being_deleted = meta.is_deleting();
            }
        }
        vertices.insert(text, vertex);
    }
    edges.retain(|(dependent, _)| shown(dependent));
    draw(&vertices, &edges)
}

/// The uids that a path of references leads to from one of these, in either direction.
fn connected(edges: &BTreeSet<(String, String)>, from: &[Uid]) -> BTreeSet<String> {
    let mut neighbours: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (dependent, owner) in edges {
        neighbours.entry(dependent).or_default().push(owner);
        neighbours.entry(owner).or_default().push(dependent);
    }
    let mut connected = BTreeSet::new();
    let mut next: Vec<String> = from.iter().map(ToString::to_string).collect();
    while let Some(uid) = next.pop() {
        if !connected.contains(&uid) {
            next.extend(neighbours.get(uid.as_str()).into_iter().flatten().map(|other| (*other).to_owned()));
            connected.insert(uid);
        }
    }
    connected
}

/// The text in a vertex: upstream's.
fn label(uid: &str, vertex: &Vertex) -> String {
    let Vertex { group, version, kind, namespace, name, .. } = vertex;
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    let mut label = format!("uid={uid}\nnamespace={namespace}\n{kind}.{version}{group}/{name}\n");
    let conditions = [
        (vertex.being_deleted, "beingDeleted"),
        (vertex.deleting_dependents, "deletingDependents"),
        (vertex.is_virtual, "virtual"),
    ];
    let conditions: Vec<_> =
        conditions.into_iter().filter(|(holds, _)| *holds).map(|(_, name)| name).collect();
    if !conditions.is_empty() {
        label.push_str(&conditions.join(","));
        label.push('\n');
    }
    label
}

fn draw(vertices: &BTreeMap<String, Vertex>, edges: &BTreeSet<(String, String)>) -> String {
    let mut text = "strict digraph full {\n".to_owned();
    if !vertices.is_empty() {
        text.push_str("  // Node definitions.\n");
    }
    for (uid, vertex) in vertices {
        let Vertex { group, version, kind, namespace, name, .. } = vertex;
        let label = label(uid, vertex);
        _ = writeln!(text, "  {uid:?} [");
        for (key, value) in [
            ("label", &*label),
            ("group", group),
            ("version", version),
            ("kind", kind),
            ("namespace", namespace),
            ("name", name),
            ("uid", uid),
            ("missing", "false"),
            ("beingDeleted", if vertex.being_deleted { "true" } else { "false" }),
            ("deletingDependents", if vertex.deleting_dependents { "true" } else { "false" }),
            ("virtual", if vertex.is_virtual { "true" } else { "false" }),
        ] {
            _ = writeln!(text, "    {key}={value:?}");
        }
        text.push_str("  ];\n");
    }
    if !edges.is_empty() {
        text.push_str("  // Edge definitions.\n");
    }
    for (dependent, owner) in edges {
        _ = writeln!(text, "  {dependent:?} -> {owner:?};");
    }
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_upstreams_attributes() {
        let pod = Vertex {
            version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: "default".to_owned(),
            name: "web-1".to_owned(),
            being_deleted: true,
            ..Vertex::default()
        };
        let vertices = [("p".to_owned(), pod)].into();
        let edges = [("p".to_owned(), "rs".to_owned())].into();
        let expected = r#"strict digraph full {
  // Node definitions.
  "p" [
    label="uid=p\nnamespace=default\nPod.v1/web-1\nbeingDeleted\n"
    group=""
    version="v1"
    kind="Pod"
    namespace="default"
    name="web-1"
    uid="p"
    missing="false"
    beingDeleted="true"
    deletingDependents="false"
    virtual="false"
  ];
  // Edge definitions.
  "p" -> "rs";
}
"#;
        assert_eq!(draw(&vertices, &edges), expected);
    }

    #[test]
    fn an_objects_picture_has_all_that_is_connected_with_it() {
        let edges = [("pod", "rs"), ("rs", "deployment"), ("other", "set")];
        let edges = edges.map(|(from, to)| (from.to_owned(), to.to_owned())).into();
        let of = |uid: &str| connected(&edges, &[uid.into()]).into_iter().collect::<Vec<_>>();
        assert_eq!(of("rs"), ["deployment", "pod", "rs"]);
        assert_eq!(of("set"), ["other", "set"]);
        assert_eq!(of("none"), ["none"]);
    }
}
