//! A configuration merged into the present state.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::Error;
use super::element::Element;
use super::types::{Form, Forms, List, Relation, Type};

/// The state with what the configuration says. What it does not say stays.
///
/// # Errors
/// Items of a list can't be told from each other.
pub(super) fn merge(ty: Type<'_>, state: &Value, config: &Value) -> Result<Value, Error> {
    Ok(merged(ty, Some(state), Some(config))?.unwrap_or(Value::Null))
}

fn merged(ty: Type<'_>, state: Option<&Value>, config: Option<&Value>) -> Result<Option<Value>, Error> {
    let forms = ty.forms();
    let form = forms.of(config.or(state));
    in_form(&forms, form, state, config)
}

fn in_form(
    forms: &Forms<'_>,
    form: Form,
    state: Option<&Value>,
    config: Option<&Value>,
) -> Result<Option<Value>, Error> {
    let whole = || Ok(config.or(state).cloned());
    match (form, &forms.map, &forms.list) {
        (Form::Map, Some(map), _) if !map.atomic => {
            let empty = Map::new();
            let members =
                |value: Option<&'_ Value>| value.and_then(Value::as_object).is_none_or(Map::is_empty);
            if members(state) && members(config) {
                return whole();
            }
            let state = state.and_then(Value::as_object).unwrap_or(&empty);
            let config = config.and_then(Value::as_object).unwrap_or(&empty);
            let names: BTreeSet<&String> = state.keys().chain(config.keys()).collect();
            let mut out = Map::new();
            for name in names {
                if let Some(value) = merged(map.member(name), state.get(name), config.get(name))? {
                    out.insert(name.clone(), value);
                }
            }
            Ok((!out.is_empty()).then_some(Value::Object(out)))
        }
        (Form::List, _, Some(list)) if !matches!(list.relation, Relation::Atomic) => {
            let items = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
            let (state_items, config_items) = (items(state), items(config));
            if state_items.is_empty() && config_items.is_empty() {
                return whole();
            }
            let out = merged_items(list, &state_items, &config_items)?;
            Ok((!out.is_empty()).then_some(Value::Array(out)))
        }
        _ => whole(),
    }
}

/// Items of the configuration stand in its order; the others keep their places before and after those that both have.
fn merged_items(list: &List<'_>, state: &[Value], config: &[Value]) -> Result<Vec<Value>, Error> {
    let elements = |items: &[Value]| -> Result<Vec<Element>, Error> {
        items.iter().map(|item| list.element(item).map_err(Error::Item)).collect()
    };
    let (state_at, config_at) = (elements(state)?, elements(config)?);
    // Of an item that is there twice no one can say which the configuration means: it begins anew.
    let mut there: BTreeMap<&Element, Option<&Value>> = BTreeMap::new();
    for (element, item) in state_at.iter().zip(state) {
        there.entry(element).and_modify(|item| *item = None).or_insert(Some(item));
    }
    let wanted: BTreeMap<&Element, &Value> = config_at.iter().zip(config).collect();
    let mut shared = config_at.iter().filter(|element| there.contains_key(element));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&Element> = BTreeSet::new();
    let mut out = Vec::with_capacity(state.len().max(config.len()));
    let (mut left, mut right) = (0, 0);
    while left < state.len() || right < config.len() {
        if left < state.len() && right < config.len() {
            let element = &state_at[left];
            if *element != config_at[right]
                && wanted.contains_key(element)
                && next_shared.is_some_and(|next| next != element)
            {
                // Both have it, but the configuration has another one first: it comes in its turn.
                left += 1;
                continue;
            }
        }
        if left < state.len() {
            let element = &state_at[left];
            if !wanted.contains_key(element) {
                out.extend(merged(list.items, Some(&state[left]), None)?);
                left += 1;
                continue;
            }
            if done.contains(element) || (right < config.len() && *element == config_at[right]) {
                left += 1;
            }
        }
        if right < config.len() {
            let element = &config_at[right];
            done.insert(element);
            let before = there.get(element).copied().flatten();
            out.extend(merged(list.items, before, wanted.get(element).copied())?);
            right += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    Ok(out)
}
