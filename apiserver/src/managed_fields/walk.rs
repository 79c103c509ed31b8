//! What can be done with a value by its type: which fields it sets, what is left of it without some.

use serde_json::{Map, Value};

use super::Error;
use super::element::Element;
use super::set::FieldSet;
use super::types::{Form, Relation, Type};

/// The fields that an object sets.
///
/// # Errors
/// Items of a list can't be told from each other.
pub(super) fn fields_of(ty: Type<'_>, object: &Value) -> Result<FieldSet, Error> {
    Ok(owned(ty, object)?.1)
}

/// Whether the value is one whole, and what it sets below.
fn owned(ty: Type<'_>, value: &Value) -> Result<(bool, FieldSet), Error> {
    let forms = ty.forms();
    let mut below = FieldSet::default();
    match (forms.of(Some(value)), &forms.map, &forms.list) {
        (Form::Map, Some(map), _) if !map.atomic => {
            for (name, value) in value.as_object().into_iter().flatten() {
                let listed = map.listed(name);
                let (whole, inner) = owned(listed.unwrap_or(map.others), value)?;
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                below.add(Element::field(name), whole || empty || listed.is_none(), inner);
            }
            Ok((false, below))
        }
        (Form::List, _, Some(list)) if !matches!(list.relation, Relation::Atomic) => {
            let items = value.as_array().map_or(&[][..], Vec::as_slice);
            let elements: Vec<Element> =
                items.iter().map(|item| list.element(item).map_err(Error::Item)).collect::<Result<_, _>>()?;
            let mut sorted: Vec<&Element> = elements.iter().collect();
            sorted.sort();
            for (element, item) in elements.iter().zip(items) {
                // Items that are there twice are one whole together.
                let first = sorted.partition_point(|other| *other < element);
                let twice = sorted.get(first + 1) == Some(&element);
                let inner = if twice { FieldSet::default() } else { owned(list.items, item)?.1 };
                below.add(element.clone(), true, inner);
            }
            Ok((false, below))
        }
        _ => Ok((true, below)),
    }
}

/// The value without what is in the set. What loses all its content becomes null.
///
/// # Errors
/// Items of a list can't be told from each other.
pub(super) fn removed(ty: Type<'_>, value: &Value, set: &FieldSet) -> Result<Value, Error> {
    if set.is_empty() {
        return Ok(value.clone());
    }
    let forms = ty.forms();
    match (forms.of(Some(value)), &forms.map, &forms.list) {
        (Form::Map, Some(map), _) => {
            let members = value.as_object().filter(|members| !members.is_empty() && !map.atomic);
            let mut left = Map::new();
            for (name, value) in members.into_iter().flatten() {
                let value = match set.get(&Element::field(name)) {
                    Some(node) if node.member => continue,
                    Some(node) => removed(map.member(name), value, &node.below)?,
                    None => value.clone(),
                };
                left.insert(name.clone(), value);
            }
            Ok(if left.is_empty() { Value::Null } else { Value::Object(left) })
        }
        (Form::List, _, Some(list)) => {
            let items = value.as_array().filter(|_| !matches!(list.relation, Relation::Atomic));
            let mut left = Vec::new();
            for item in items.into_iter().flatten() {
                match set.get(&list.element(item).map_err(Error::Item)?) {
                    Some(node) if node.member => {}
                    Some(node) => left.push(removed(list.items, item, &node.below)?),
                    None => left.push(item.clone()),
                }
            }
            Ok(if left.is_empty() { Value::Null } else { Value::Array(left) })
        }
        _ => Ok(value.clone()),
    }
}

/// The set with every listed field that has something below in it: who gives up all below gives up the field.
pub(super) fn with_listed(ty: Type<'_>, set: &FieldSet) -> FieldSet {
    let forms = ty.forms();
    set.filter_map(|node| {
        let (listed, inner) = match (&node.element, &forms.map, &forms.list) {
            (Element::Field(name), Some(map), _) => (map.listed(name), Some(map.member(name))),
            (Element::Key(_), _, Some(list)) => (None, Some(list.items)),
            _ => (None, None),
        };
        let below = inner.map_or_else(|| node.below.clone(), |inner| with_listed(inner, &node.below));
        Some((node.member || (listed.is_some() && !node.below.is_empty()), below))
    })
}
