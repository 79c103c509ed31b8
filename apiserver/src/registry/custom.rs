//! Custom resources.

use std::sync::{Arc, OnceLock};

use arcstr::ArcStr;
use serde_json::{Value, json};
use steersman_api::schema::Scope;

use super::resource::{Resource, Subresource, api_version, qualified};
use super::strategy::{Context, Strategy, Traits};
use crate::object;
use crate::store::TableId;
use crate::table::{CustomColumns, Layout};

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

/// The resource of a table whose objects are kept and not served: their definition says so, or does not exist.
pub(crate) fn unserved(table: &str) -> Arc<Resource> {
    let (plural, group) = table.split_once('.').unwrap_or((table, ""));
    let version = json!({"name": "v1", "served": true});
    let definition = json!({"spec": {"group": group, "names": {"plural": plural}, "versions": [version]}});
    resources_of(&definition).pop().expect("a version that is served must make a resource")
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
    let closing = object::at(definition, "metadata.deletionTimestamp").is_some_and(Value::is_string);
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
            closing,
            empty: OnceLock::new(),
            traits: Traits::COUNTED,
            strategy: &Custom,
            layout: Layout::Custom(CustomColumns::of_version(version)),
        })
    };
    served.map(resource).collect()
}
