//! What somebody wants to do, as rules see it.

use serde_json::Value;
use steersman_api::status::StatusDetails;
use steersman_api::{FieldSelector, Status};

use super::Identity;
use crate::names::NameRule;
use crate::object;
use crate::refusal::Refusal;
use crate::rest::{Call, Query, Verb};

/// A wish, to be allowed or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Such as `list`; for paths an HTTP method in lower case.
    pub(crate) verb: String,
    /// To what.
    pub(crate) target: Target,
    /// What the objects must have for the request to be about them, as field and value: from its field selector.
    pub(crate) fields: Vec<(String, String)>,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// Something that is no resource, such as `/version`.
    Path(String),
    /// Objects.
    Resource {
        /// API group; empty for the core group.
        group: String,
        /// Plural.
        resource: String,
        /// Empty for the object itself.
        subresource: String,
        /// Empty for all, and for what has none.
        namespace: String,
        /// Empty for all.
        name: String,
    },
}

impl Default for Target {
    fn default() -> Self {
        Self::Path(String::new())
    }
}

impl Attributes {
    /// Whatever the objects have.
    pub(crate) fn new(verb: impl Into<String>, target: Target) -> Self {
        Self { verb: verb.into(), target, fields: Vec::new() }
    }

    /// Those of a request to a resource.
    pub(crate) fn of_call(call: &Call) -> Self {
        // A namespace is within itself, for rules that speak of it.
        let of_namespace = call.resource.group.is_empty() && call.resource.plural == "namespaces";
        let namespace = if of_namespace { call.name.clone() } else { call.namespace.clone() };
        let target = Target::Resource {
            group: call.resource.group.to_string(),
            resource: call.resource.plural.to_string(),
            subresource: call.subresource.clone(),
            namespace,
            name: call.name.clone(),
        };
        Self::new(call.verb.as_str(), target)
    }

    /// Those of a request to a resource with that query: who lists or watches one object by a field selector names it.
    pub(crate) fn of_request(call: &Call, query: &Query) -> Self {
        let mut wanted = Self::of_call(call);
        if matches!(call.verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
            && let Some(selector) =
                query.get("fieldSelector").and_then(|text| text.parse::<FieldSelector>().ok())
        {
            wanted.fields = demands(&selector);
        }
        if let Target::Resource { name, .. } = &mut wanted.target
            && name.is_empty()
            && matches!(call.verb, Verb::List | Verb::Watch)
            && let Some((_, only)) = wanted.fields.iter().find(|(field, _)| field == "metadata.name")
            && NameRule::PathSegment.check(only).is_empty()
        {
            name.clone_from(only);
        }
        wanted
    }

    /// Those of a request to a path.
    pub(crate) fn of_path(method: &http::Method, path: &str) -> Self {
        Self::new(method.as_str().to_ascii_lowercase(), Target::Path(path.to_owned()))
    }

    /// Those of the `spec` of an access review; `None` if it asks about nothing.
    pub(crate) fn of_review(spec: &Value) -> Option<Self> {
        if let Some(of) = spec.get("resourceAttributes").filter(|of| of.is_object()) {
            let target = Target::Resource {
                group: object::text_at(of, "group"),
                resource: object::text_at(of, "resource"),
                subresource: object::text_at(of, "subresource"),
                namespace: object::text_at(of, "namespace"),
                name: object::text_at(of, "name"),
            };
            let mut wanted = Self::new(object::text_at(of, "verb"), target);
            wanted.fields = of.get("fieldSelector").map(demands_of_review).unwrap_or_default();
            return Some(wanted);
        }
        let of = spec.get("nonResourceAttributes").filter(|of| of.is_object())?;
        Some(Self::new(object::text_at(of, "verb"), Target::Path(object::text_at(of, "path"))))
    }

    /// The answer to who may not.
    pub(crate) fn refusal(&self, who: &Identity) -> Refusal {
        let why = self.why_not(who);
        let (message, details) = match &self.target {
            Target::Path(_) => (format!("forbidden: {why}"), StatusDetails::default()),
            Target::Resource { group, resource, name, .. } => {
                let qualified =
                    if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
                let what = if name.is_empty() { qualified } else { format!("{qualified} {name:?}") };
                let (name, group, kind) = (name.clone(), group.clone(), resource.clone());
                (
                    format!("{what} is forbidden: {why}"),
                    StatusDetails { name, group, kind, ..StatusDetails::default() },
                )
            }
        };
        Status { details: Some(details), ..Status::failure(403, "Forbidden", message) }.into()
    }

    /// Why: what is said to who may not, and by access reviews.
    pub(crate) fn why_not(&self, who: &Identity) -> String {
        let (user, verb) = (&who.user, &self.verb);
        match &self.target {
            Target::Path(path) => format!("User {user:?} cannot {verb} path {path:?}"),
            Target::Resource { group, resource, subresource, namespace, .. } => {
                let whole = match subresource.as_str() {
                    "" => resource.clone(),
                    subresource => format!("{resource}/{subresource}"),
                };
                let scope = match namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                format!("User {user:?} cannot {verb} resource {whole:?} in API group {group:?} {scope}")
            }
        }
    }
}

/// The fields for which a selector demands one value.
fn demands(selector: &FieldSelector) -> Vec<(String, String)> {
    let equal = selector.terms().iter().filter(|term| term.equal);
    equal.map(|term| (term.field.clone(), term.value.clone())).collect()
}

/// The same of the `fieldSelector` of an access review, which is a text or a list of requirements.
fn demands_of_review(selector: &Value) -> Vec<(String, String)> {
    if let Some(raw) = object::str_at(selector, "rawSelector").filter(|raw| !raw.is_empty()) {
        return raw.parse::<FieldSelector>().map(|selector| demands(&selector)).unwrap_or_default();
    }
    let requirements = object::list_at(selector, "requirements").iter();
    let demand = |requirement: &Value| match object::list_at(requirement, "values") {
        [Value::String(only)] if object::str_at(requirement, "operator") == Some("In") => {
            Some((object::text_at(requirement, "key"), only.clone()))
        }
        _ => None,
    };
    requirements.filter_map(demand).collect()
}
