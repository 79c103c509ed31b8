//! Custom resources, and the definitions that make them.

use std::sync::{Arc, OnceLock};

use arcstr::ArcStr;
use serde_json::{Value, json};
use steersman_api::schema::Scope;

use super::resource::{Resource, Subresource, api_version, qualified};
use super::strategy::{Context, Strategy, Traits};
use crate::field::FieldError;
use crate::meta;
use crate::names;
use crate::object::{self, default_text, default_to, members, members_at};
use crate::refusal::Result;
use crate::store::TableId;
use crate::table::{CustomColumns, Layout};

/// The table of the definitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The rules of objects that a definition made possible. Their schemas are not enforced: what is sent is kept.
struct Custom;

impl Strategy for Custom {
    /// Through `status` nothing else changes, not even metadata.
    fn prepare_through(&self, _: &Context<'_>, custom: &mut Value, old: &Value) {
        let mut kept = old.clone();
        object::carry_over(&mut kept, custom, "status");
        *custom = kept;
    }

    fn convert(&self, _: &Resource, to: &Resource, value: &Value) -> Value {
        let mut converted = value.clone();
        converted["apiVersion"] = to.api_version.as_str().into();
        converted
    }
}

/// The table of the objects that a definition makes possible.
pub(crate) fn table_of(definition: &Value) -> TableId {
    qualified(&object::text_at(definition, "spec.group"), &object::text_at(definition, "spec.names.plural"))
}

/// The resources that a definition makes, one for each version that is served.
pub(crate) fn resources_of(definition: &Value) -> Vec<Arc<Resource>> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |name: &str| ArcStr::from(object::text_at(names, name));
    let texts = |name: &str| -> Vec<ArcStr> {
        object::list_at(names, name).iter().filter_map(Value::as_str).map(ArcStr::from).collect()
    };
    let group = ArcStr::from(object::text_at(spec, "group"));
    let served =
        object::list_at(spec, "versions").iter().filter(|version| object::is_true(version, "served"));
    let resource = |version: &Value| {
        let name = ArcStr::from(object::text_at(version, "name"));
        let has_status = version["subresources"]["status"].is_object();
        let subresources = has_status.then(|| Subresource {
            name: "status".into(),
            group: group.clone(),
            version: name.clone(),
            kind: text("kind"),
            verbs: ["get", "patch", "update"].map(ArcStr::from).to_vec(),
        });
        Arc::new(Resource {
            api_version: api_version(&group, &name),
            group: group.clone(),
            version: name,
            plural: text("plural"),
            singular: text("singular"),
            kind: text("kind"),
            list_kind: text("listKind"),
            qualified: table_of(definition),
            scope: if spec["scope"] == "Namespaced" { Scope::Namespaced } else { Scope::Cluster },
            short_names: texts("shortNames"),
            categories: texts("categories"),
            verbs: VERBS.map(ArcStr::from).to_vec(),
            subresources: subresources.into_iter().collect(),
            table: table_of(definition),
            schema: None,
            structure: version["schema"].get("openAPIV3Schema").cloned(),
            empty: OnceLock::new(),
            traits: Traits::COUNTED,
            strategy: &Custom,
            layout: Layout::Custom(CustomColumns::of_version(version)),
        })
    };
    served.map(resource).collect()
}

/// The rules of definitions.
pub(crate) struct Definition;

impl Strategy for Definition {
    fn default(&self, definition: &mut Value) {
        let names = members_at(definition, "spec.names");
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        default_text(names, "singular", &kind.to_lowercase());
        default_text(names, "listKind", &format!("{kind}List"));
        default_to(members_at(definition, "spec"), "conversion", json!({"strategy": "None"}));
    }

    /// Served at once, where upstream has controllers that come to it.
    fn prepare_for_create(&self, context: &Context<'_>, definition: &mut Value) -> Result<()> {
        let now = meta::stamp(context.now);
        let condition = |name: &str, reason: &str, message: &str| {
            json!({
                "type": name,
                "status": "True",
                "lastTransitionTime": now,
                "reason": reason,
                "message": message,
            })
        };
        let versions = object::list_at(definition, "spec.versions");
        let stored: Vec<Value> = versions
            .iter()
            .filter(|version| object::is_true(version, "storage"))
            .map(|version| version["name"].clone())
            .collect();
        let status = json!({
            "conditions": [
                condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ],
            "acceptedNames": definition["spec"]["names"],
            "storedVersions": stored,
        });
        members(definition).insert("status".to_owned(), status);
        Ok(())
    }

    fn validate(&self, _: &Context<'_>, definition: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let spec = &definition["spec"];
        let (group, plural) = (object::text_at(spec, "group"), object::text_at(spec, "names.plural"));
        let name = object::text_at(definition, "metadata.name");
        if name != format!("{plural}.{group}") {
            let why = "must be spec.names.plural+\".\"+spec.group";
            errors.push(FieldError::invalid("metadata.name", name, why));
        }
        for (field, value) in [("group", &group), ("names.plural", &plural)] {
            if value.is_empty() {
                errors.push(FieldError::required(format!("spec.{field}"), ""));
            } else if let Some(why) = names::subdomain(value).pop() {
                errors.push(FieldError::invalid(format!("spec.{field}"), value.as_str(), why));
            }
        }
        if object::text_at(spec, "names.kind").is_empty() {
            errors.push(FieldError::required("spec.names.kind", ""));
        }
        match object::text_at(spec, "scope").as_str() {
            "Cluster" | "Namespaced" => {}
            "" => errors.push(FieldError::required("spec.scope", "")),
            other => {
                errors.push(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"]));
            }
        }
        let versions = object::list_at(spec, "versions");
        if versions.iter().filter(|version| object::is_true(version, "storage")).count() != 1 {
            let why = "must have exactly one version marked as storage version";
            errors.push(FieldError::invalid("spec.versions", spec["versions"].clone(), why));
        }
        errors
    }
}
