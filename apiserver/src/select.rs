//! Which objects a list or a watch is about.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use steersman_api::{FieldSelector, LabelSelector};

use crate::object;
use crate::refusal::{Refusal, Result};
use crate::registry::Resource;
use crate::store::Object;

/// A `metav1.LabelSelector`; `None` selects nothing, as do one that is absent and one that makes no sense.
pub(crate) fn selector_of(selector: Option<&Value>) -> Option<LabelSelector> {
    let selector = selector.filter(|selector| selector.is_object())?;
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let labels = labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    let mut selects = LabelSelector::from_labels(labels);
    for expression in object::list_at(selector, "matchExpressions") {
        let (key, operator) = (object::text_at(expression, "key"), object::text_at(expression, "operator"));
        let values = object::list_at(expression, "values").iter().filter_map(Value::as_str);
        selects.require(&key, &operator, values).ok()?;
    }
    Some(selects)
}

/// A namespace, labels and fields: all must fit.
#[derive(Clone)]
pub(crate) struct Selection {
    /// Empty for all.
    pub(crate) namespace: String,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// # Errors
    /// A field that objects of the kind can't be selected by.
    pub(crate) fn new(
        resource: &Arc<Resource>,
        namespace: &str,
        labels: LabelSelector,
        fields: FieldSelector,
    ) -> Result<Self> {
        let own = resource.strategy.selectable_fields();
        for term in fields.terms() {
            let field = term.field.as_str();
            let known = field == "metadata.name"
                || field == "metadata.namespace" && resource.namespaced()
                || resource.strategy.selects_by(resource, field);
            if known {
                continue;
            }
            let why = if resource.group == "batch" && !own.is_empty() {
                format!("field label {field:?} not supported for {}", resource.kind)
            } else if own.is_empty() {
                format!(
                    "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                )
            } else {
                format!("field label not supported: {field}")
            };
            return Err(Refusal::bad_request(why));
        }
        Ok(Self { namespace: namespace.to_owned(), labels, fields })
    }

    /// Whether it takes every object of its namespace.
    pub(crate) fn takes_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is meant.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        if !self.namespace.is_empty() && object.key.namespace != self.namespace {
            return false;
        }
        self.labels.matches_with(|key| object.label(key))
            && self.fields.matches_with(|field| match field {
                "metadata.name" => Cow::Borrowed(object.key.name.as_str()),
                "metadata.namespace" => Cow::Borrowed(object.key.namespace.as_str()),
                // Of the form that is stored: other versions of a group have the same fields under the same names.
                field => object.field(field),
            })
    }
}
