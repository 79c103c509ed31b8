//! Paths and what can be done there.

use serde_json::{Map, Value, json};

use super::schemas::{PATCH, address};
use crate::registry::{Resource, Subresource};

/// The paths of one document.
pub(super) struct Paths {
    group: String,
    version: String,
    base: String,
    paths: Map<String, Value>,
}

/// What is done at a path.
struct Operation<'a> {
    method: &'static str,
    /// As `x-kubernetes-action` has it.
    action: &'static str,
    verb: &'static str,
    /// What it is about: the resource's kind, or the subresource's.
    kind: (&'a str, &'a str, &'a str),
    /// The name of the schema that it takes.
    takes: Option<&'a str>,
    /// The name of the schema that it gives.
    gives: Option<&'a str>,
}

const LIST: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCHING: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const DELETION: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

const COLLECTION_DELETION: &[(&str, &str)] = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
];

impl Paths {
    /// None yet.
    pub(super) fn of(group: &str, version: &str) -> Self {
        let base =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        Self { group: group.to_owned(), version: version.to_owned(), base, paths: Map::new() }
    }

    /// All of them.
    pub(super) fn finish(self) -> Map<String, Value> {
        self.paths
    }

    /// The paths of a resource. `schema_of`: the name of a kind's schema, by group, version and kind.
    pub(super) fn add(
        &mut self,
        resource: &Resource,
        mut schema_of: impl FnMut(&str, &str, &str) -> Option<String>,
    ) {
        let of_meta = |kind: &str| ("", "v1", kind.to_owned());
        let (group, version) = (self.group.clone(), self.version.clone());
        let own = schema_of(&group, &version, &resource.kind);
        let list =
            resource.allows("list").then(|| schema_of(&group, &version, &resource.list_kind)).flatten();
        let [status, options] = ["Status", "DeleteOptions"].map(|kind| {
            let (group, version, kind) = of_meta(kind);
            schema_of(group, version, &kind)
        });
        let kind = (group.as_str(), version.as_str(), resource.kind.as_str());
        let operation =
            |method, action, verb, takes, gives| Operation { method, action, verb, kind, takes, gives };
        let (own, list) = (own.as_deref(), list.as_deref());
        let (status, options) = (status.as_deref(), options.as_deref());
        let of_all = [
            operation("get", "list", "list", None, list),
            operation("post", "post", "create", own, own),
            operation("delete", "deletecollection", "deletecollection", options, status),
        ];
        let of_one = [
            operation("get", "get", "get", None, own),
            operation("put", "put", "update", own, own),
            operation("patch", "patch", "patch", Some(PATCH), own),
            operation("delete", "delete", "delete", options, status),
        ];
        let all = if resource.namespaced() {
            format!("{}/namespaces/{{namespace}}/{}", self.base, resource.plural)
        } else {
            format!("{}/{}", self.base, resource.plural)
        };
        if resource.namespaced() {
            let everywhere = format!("{}/{}", self.base, resource.plural);
            self.put(everywhere, resource, &resource.verbs, &of_all[..1]);
        }
        self.put(all.clone(), resource, &resource.verbs, &of_all);
        self.put(format!("{all}/{{name}}"), resource, &resource.verbs, &of_one);
        for sub in &resource.subresources {
            // Streams take and give what no schema describes; their kind is that of their parameters.
            let is_stream = sub.kind.ends_with("Options");
            let schema = (!is_stream).then(|| schema_of(&sub.group, &sub.version, &sub.kind)).flatten();
            self.put(
                format!("{all}/{{name}}/{}", sub.name),
                resource,
                &sub.verbs,
                &subresource(sub, schema.as_deref()),
            );
        }
    }

    fn put(
        &mut self,
        path: String,
        resource: &Resource,
        verbs: &[arcstr::ArcStr],
        operations: &[Operation<'_>],
    ) {
        let mut item = Map::new();
        for operation in operations.iter().filter(|operation| verbs.iter().any(|verb| verb == operation.verb))
        {
            item.insert(operation.method.to_owned(), operation.describe(&path, resource));
        }
        if item.is_empty() {
            return;
        }
        let of_path = ["name", "namespace"].iter().filter(|name| path.contains(&format!("{{{name}}}")));
        let of_path = of_path.map(|name| {
            json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}})
        });
        let parameters: Vec<Value> = of_path.chain([query(("pretty", "string"))]).collect();
        item.insert("parameters".to_owned(), parameters.into());
        self.paths.insert(path, Value::Object(item));
    }
}

fn subresource<'a>(sub: &'a Subresource, schema: Option<&'a str>) -> Vec<Operation<'a>> {
    let kind = (sub.group.as_str(), sub.version.as_str(), sub.kind.as_str());
    let operation =
        |method, action, verb, takes, gives| Operation { method, action, verb, kind, takes, gives };
    vec![
        operation("get", "get", "get", None, schema),
        operation("post", "post", "create", schema, schema),
        operation("put", "put", "update", schema, schema),
        operation("patch", "patch", "patch", Some(PATCH), schema),
        operation("delete", "delete", "delete", None, schema),
    ]
}

impl Operation<'_> {
    fn describe(&self, path: &str, resource: &Resource) -> Value {
        let (group, version, kind) = self.kind;
        let parameters = match self.action {
            "list" => LIST,
            "post" | "put" => WRITE,
            "patch" => PATCHING,
            "delete" => DELETION,
            "deletecollection" => COLLECTION_DELETION,
            _ => &[],
        };
        let mut operation = json!({
            "operationId": operation_id(self.verb, path),
            "parameters": parameters.iter().copied().map(query).collect::<Vec<_>>(),
            "responses": {"200": response("OK", self.gives)},
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
        });
        if self.action == "post" {
            operation["responses"]["201"] = response("Created", self.gives);
        }
        if let Some(takes) = self.takes {
            operation["requestBody"] = json!({"content": self.content(takes, resource)});
        }
        operation
    }

    fn content(&self, takes: &str, resource: &Resource) -> Value {
        let schema = json!({"schema": {"$ref": address(takes)}});
        if self.action != "patch" {
            return json!({"*/*": schema});
        }
        // Only kinds that are built in can be patched by their schema.
        let strategic = resource.schema.map(|_| "strategic-merge-patch+json");
        let types = ["apply-patch+yaml", "json-patch+json", "merge-patch+json"].into_iter().chain(strategic);
        types.map(|patch| (format!("application/{patch}"), schema.clone())).collect()
    }
}

fn query((name, ty): (&str, &str)) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": ty, "uniqueItems": true}})
}

fn response(what: &str, gives: Option<&str>) -> Value {
    match gives {
        Some(gives) => json!({
            "description": what,
            "content": {"application/json": {"schema": {"$ref": address(gives)}}},
        }),
        None => json!({"description": what}),
    }
}

/// The verb and the path in one word: no two operations have the same.
fn operation_id(verb: &str, path: &str) -> String {
    let mut id = verb.to_owned();
    for part in path.split(['/', '.', '-']).map(|part| part.trim_matches(['{', '}'])) {
        let mut letters = part.chars();
        id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        id.push_str(letters.as_str());
    }
    id
}
