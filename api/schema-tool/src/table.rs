//! Combines the sources into the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::Error;
use crate::go::{Struct, Structs, Tag};
use crate::proto::{Field, Message, Messages, Shape};
use crate::server::{GroupVersion, Server, joined, list, text};

/// Messages with a JSON form of their own, and their names in the table.
const SPECIAL: [(&str, &str); 10] = [
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "Time"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", "MicroTime"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", "FieldsV1"),
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", "Quantity"),
    ("io.k8s.apimachinery.pkg.runtime.RawExtension", "RawExtension"),
    ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "IntOrString"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", "JSON"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", "SchemaOrArray"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", "SchemaOrBool"),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
        "SchemaOrStrings",
    ),
];

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Messages of `meta/v1` that every API server uses. Some are not in its OpenAPI.
const META_ROOTS: [&str; 14] = [
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "List",
    "ListOptions",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
    "PatchOptions",
    "Status",
    "UpdateOptions",
    "WatchEvent",
];

/// The verbs that most resources have. The table abbreviates them to `*`.
const ORDINARY_VERBS: &str = "create,delete,deletecollection,get,list,patch,update,watch";

/// Returns the text of the table.
pub(crate) fn render(server: &Server, messages: &Messages, structs: &Structs) -> Result<String, Error> {
    let join = Join { server, messages, structs };
    let wanted = join.reachable()?;
    let inlined = join.inlined(&wanted)?;
    let mut out = format!("kubernetes {}\n", server.version);
    let packages: BTreeMap<String, &str> =
        wanted.iter().filter_map(|name| name.rsplit_once('.')).map(|(p, _)| (short(p), p)).collect();
    for (short, package) in packages {
        line(&mut out, format_args!("package {short} {package}"));
    }
    for group_version in &server.group_versions {
        render_discovery(group_version, &mut out);
    }
    let mut sorted: Vec<&String> = wanted.iter().collect();
    sorted.sort_by_key(|name| short(name));
    for name in sorted {
        join.render_message(name, inlined.get(name), &mut out)?;
    }
    Ok(out)
}

fn line(out: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(out, "{line}").expect("a String must take what is written to it");
}

/// Shortens a message's name to that in the table: `io.k8s.api.core.v1.Pod` to `core.v1.Pod`.
fn short(name: &str) -> String {
    let rest = name.strip_prefix("io.k8s.api.").or_else(|| name.split_once(".apis.").map(|(_, rest)| rest));
    rest.unwrap_or(name).to_owned()
}

fn special(name: &str) -> Option<&'static str> {
    SPECIAL.iter().find(|(full, _)| *full == name).map(|(_, short)| *short)
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn render_discovery(group_version: &GroupVersion, out: &mut String) {
    let GroupVersion { group, version, resources } = group_version;
    line(out, format_args!("group {} {version}", if group.is_empty() { "-" } else { group }));
    let mut resources: Vec<&Value> = resources.iter().collect();
    resources.sort_by_key(|resource| text(resource, "name"));
    for resource in resources {
        let verbs = joined(resource, "verbs", ",");
        let verbs = if verbs == ORDINARY_VERBS { "*" } else { &verbs };
        let mut kind = text(resource, "kind").to_owned();
        if !text(resource, "version").is_empty() {
            kind = format!("{kind}@{}", api_version(text(resource, "group"), text(resource, "version")));
        }
        let name = text(resource, "name");
        if let Some((_, subresource)) = name.split_once('/') {
            line(out, format_args!("sub {subresource} {kind} {verbs}"));
            continue;
        }
        let scope = if resource["namespaced"] == true { "namespaced" } else { "cluster" };
        let mut row = format!("resource {name} {} {kind} {scope} {verbs}", text(resource, "singularName"));
        for (member, label) in [("shortNames", "short"), ("categories", "categories")] {
            let words = joined(resource, member, ",");
            if !words.is_empty() {
                row += &format!(" {label}={words}");
            }
        }
        line(out, format_args!("{row}"));
    }
}

struct Join<'a> {
    server: &'a Server,
    messages: &'a Messages,
    structs: &'a Structs,
}

impl<'a> Join<'a> {
    fn message(&self, name: &str) -> Result<&'a Message, Error> {
        self.messages.get(name).ok_or_else(|| Error::source(name, "no protobuf definition"))
    }

    /// Returns the tags of a field's Go struct. Messages that are lists in Go have no struct.
    fn tag(&self, message: &str, field: &Field) -> Option<&'a Tag> {
        self.structs.get(message)?.fields.get(&field.number)
    }

    fn is_list_wrapper(&self, name: &str, message: &Message) -> bool {
        !self.structs.contains_key(name)
            && matches!(&message.fields[..], [field] if field.name == "items" && field.shape == Shape::List)
    }

    /// Returns the messages that the table needs: those with a published schema, the kinds in discovery,
    /// [`META_ROOTS`], and all messages that these refer to.
    fn reachable(&self) -> Result<BTreeSet<String>, Error> {
        let mut next: Vec<String> = META_ROOTS.iter().map(|kind| format!("{META}.{kind}")).collect();
        next.extend(self.server.schemas.keys().filter(|name| self.messages.contains_key(*name)).cloned());
        let packages = self.packages();
        for group_version in &self.server.group_versions {
            let own = (group_version.group.as_str(), group_version.version.as_str());
            for resource in group_version.resources.iter().filter(|r| text(r, "version").is_empty()) {
                let package = packages.iter().find(|(_, of)| **of == own).map(|(package, _)| package);
                next.extend(package.map(|package| format!("{package}.{}", text(resource, "kind"))));
            }
        }
        let mut seen = BTreeSet::new();
        while let Some(name) = next.pop() {
            if special(&name).is_none() && seen.insert(name.clone()) {
                let message = self.message(&name)?;
                next.extend(message.fields.iter().map(|f| f.ty.clone()).filter(|ty| ty.contains('.')));
            }
        }
        // The code of `JSONSchemaPropsOr...` refers to this message.
        seen.insert("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps".to_owned());
        Ok(seen)
    }

    /// Returns the packages, each with the group version of its kinds.
    fn packages(&self) -> BTreeMap<&'a str, (&'a str, &'a str)> {
        let mut packages = BTreeMap::new();
        for (name, schema) in &self.server.schemas {
            if let [kind] = list(schema, "x-kubernetes-group-version-kind")
                && let Some((package, short)) = name.rsplit_once('.')
                && text(kind, "kind") == short
                && package != META
            {
                packages.insert(package, (text(kind, "group"), text(kind, "version")));
            }
        }
        packages
    }

    /// Returns the schemas of messages that are only ever inlined. OpenAPI publishes their properties as those of the
    /// outer message.
    fn inlined(&self, wanted: &BTreeSet<String>) -> Result<BTreeMap<String, &'a Value>, Error> {
        let mut found: BTreeMap<String, &Value> = BTreeMap::new();
        loop {
            let before = found.len();
            for name in wanted {
                let Some(schema) = self.server.schemas.get(name).or_else(|| found.get(name).copied()) else {
                    continue;
                };
                for field in &self.message(name)?.fields {
                    let inline = self.tag(name, field).is_some_and(|tag| tag.json.is_none());
                    if inline && !self.server.schemas.contains_key(&field.ty) {
                        found.entry(field.ty.clone()).or_insert(schema);
                    }
                }
            }
            if found.len() == before {
                return Ok(found);
            }
        }
    }

    fn render_message(&self, name: &str, inlined: Option<&&Value>, out: &mut String) -> Result<(), Error> {
        let message = self.message(name)?;
        let own = self.server.schemas.get(name);
        let mut row = format!("message {}", short(name));
        if self.structs.get(name).is_some_and(|of| of.has_type_meta) {
            row += &format!(" @{}", self.group_version(name, own)?);
        }
        if self.is_list_wrapper(name, message) {
            row += " list";
        }
        if let Some(schema) = own {
            if !text(schema, "x-kubernetes-map-type").is_empty() {
                row += &format!(" map={}", text(schema, "x-kubernetes-map-type"));
            }
            for union in list(schema, "x-kubernetes-unions") {
                row += &format!(" union={}", text(union, "discriminator"));
                for (field, value) in union["fields-to-discriminateBy"].as_object().into_iter().flatten() {
                    row += &format!(",{field}:{}", value.as_str().unwrap_or_default());
                }
            }
            self.check_published(name, message, schema)?;
        }
        line(out, format_args!("{row}"));
        let schema = own.or(inlined.copied());
        for field in &message.fields {
            if self.is_list_wrapper(name, message) {
                line(out, format_args!(" {} items {}", field.number, type_name(field)));
            } else {
                let tag = self.tag(name, field);
                let tag =
                    tag.ok_or_else(|| Error::source(name, format!("no Go field for {}", field.name)))?;
                line(out, format_args!(" {}", field_row(field, tag, schema)));
            }
        }
        Ok(())
    }

    /// Returns the group version in which a message is a kind; `*` for all group versions.
    fn group_version(&self, name: &str, schema: Option<&Value>) -> Result<String, Error> {
        let (package, _) = name.rsplit_once('.').unwrap_or_default();
        if package == META {
            return Ok("*".to_owned());
        }
        if let Some([kind]) = schema.map(|schema| list(schema, "x-kubernetes-group-version-kind")) {
            return Ok(api_version(text(kind, "group"), text(kind, "version")));
        }
        match self.packages().get(package) {
            Some((group, version)) => Ok(api_version(group, version)),
            None => Err(Error::source(name, "no group and version known")),
        }
    }

    /// Fails if OpenAPI has a property without a protobuf field, which the table would lack.
    fn check_published(&self, name: &str, message: &Message, schema: &Value) -> Result<(), Error> {
        let mut known = BTreeSet::new();
        self.json_names(name, message, &mut known)?;
        for property in schema["properties"].as_object().into_iter().flatten().map(|(property, _)| property) {
            let type_meta = property == "apiVersion" || property == "kind";
            if !known.contains(property.as_str()) && !type_meta {
                return Err(Error::source(name, format!("{property} is published, but no protobuf field")));
            }
        }
        Ok(())
    }

    fn json_names(&self, name: &str, message: &Message, names: &mut BTreeSet<&'a str>) -> Result<(), Error> {
        let of: Option<&Struct> = self.structs.get(name);
        for field in &message.fields {
            match of.and_then(|of| of.fields.get(&field.number)).map(|tag| &tag.json) {
                Some(Some(json)) => {
                    names.insert(json);
                }
                Some(None) => self.json_names(&field.ty, self.message(&field.ty)?, names)?,
                None => {}
            }
        }
        Ok(())
    }
}

fn type_name(field: &Field) -> String {
    let prefix = match field.shape {
        Shape::Single => "",
        Shape::List => "[]",
        Shape::Map => "{}",
    };
    format!("{prefix}{}", special(&field.ty).map_or_else(|| short(&field.ty), str::to_owned))
}

fn field_row(field: &Field, tag: &Tag, schema: Option<&Value>) -> String {
    let pointer = if tag.pointer { "*" } else { "" };
    let name = tag.json.as_deref().unwrap_or(".");
    let mut row = format!("{} {name} {pointer}{}", field.number, type_name(field));
    let required =
        schema.is_some_and(|schema| list(schema, "required").iter().any(|required| required == name));
    let flags = [(tag.omit_empty, "?"), (tag.omit_zero, "0"), (required, "!")];
    let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| *flag).collect();
    if !flags.is_empty() {
        row += &format!(" {flags}");
    }
    if let Some(property) = schema.and_then(|schema| schema["properties"].get(name)) {
        row += &published(field, tag, property);
    }
    row
}

/// Returns what OpenAPI adds to the row of a field.
fn published(field: &Field, tag: &Tag, property: &Value) -> String {
    let mut row = String::new();
    let strategy = text(property, "x-kubernetes-patch-strategy");
    if !strategy.is_empty() {
        row += &format!(" patch={strategy}");
        let key = text(property, "x-kubernetes-patch-merge-key");
        if !key.is_empty() {
            row += &format!(":{key}");
        }
    }
    let list_type = text(property, "x-kubernetes-list-type");
    if !list_type.is_empty() {
        row += &format!(" list={list_type}");
        let keys = joined(property, "x-kubernetes-list-map-keys", ",");
        if !keys.is_empty() {
            row += &format!(":{keys}");
        }
    }
    let map_type = text(property, "x-kubernetes-map-type");
    if !map_type.is_empty() {
        row += &format!(" map={map_type}");
    }
    let implied = implied_default(field, tag);
    match property.get("default") {
        published if published == implied.as_ref() => {}
        Some(default) => row += &format!(" default={default}"),
        None => row += " default=",
    }
    for values in [property, &property["items"], &property["additionalProperties"]] {
        let values = joined(values, "enum", "|");
        if !values.is_empty() {
            row += &format!(" enum={values}");
        }
    }
    row
}

/// Returns the default that upstream publishes for most fields of this form: the zero value if the field is always
/// there, and none for types with a JSON form of their own.
fn implied_default(field: &Field, tag: &Tag) -> Option<Value> {
    if tag.pointer || field.shape != Shape::Single || special(&field.ty).is_some() {
        return None;
    }
    match field.ty.as_str() {
        "bytes" => None,
        scalar if !scalar.contains('.') && tag.omit_empty => None,
        "string" => Some(json!("")),
        "bool" => Some(json!(false)),
        "int32" | "int64" | "double" => Some(json!(0)),
        _ => Some(json!({})),
    }
}
