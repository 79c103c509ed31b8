//! Merges lists.

use serde_json::{Map, Value};

use super::error::{self, PatchError, go_text, go_type};
use super::scope::Scope;
use super::{PATCH, SET_ELEMENT_ORDER, object, without_directives};

type List = Vec<Value>;

/// Merges two lists. The patch's items keep the patch's order; items that only the server has keep the server's order.
pub(super) fn merge(original: List, patch: List, scope: Scope, key: &str) -> Result<List, PatchError> {
    let (mut merged, mut original, mut patch) = (Vec::new(), original, patch);
    match element_type(&[&original, &patch])? {
        None => return Ok(original),
        Some(error::OBJECT) => {
            if key.is_empty() {
                return Err(PatchError::KeylessList);
            }
            (original, patch) = apply_item_directives(original, patch, key)?;
            merged.clone_from(&original);
            merge_items(&mut merged, &patch, scope, key)?;
        }
        Some(_) => {
            for value in original.iter().chain(&patch) {
                if !merged.contains(value) {
                    merged.push(value.clone());
                }
            }
        }
    }
    in_order(merged, &patch, &original, key)
}

/// Carries out the `$patch` directives among the patch's items. Returns what remains of both lists, the original first.
fn apply_item_directives(mut original: List, patch: List, key: &str) -> Result<(List, List), PatchError> {
    let mut items = Vec::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(object) = &item else { continue };
        match object.get(PATCH).map(|directive| directive.as_str()) {
            None => items.push(item),
            Some(Some("delete")) => {
                let deleted = key_of(&item, key)?;
                original.retain(|item| item.get(key) != Some(deleted));
            }
            // Further items of the patch may be directives too.
            Some(Some("replace")) => replace = true,
            Some(Some("merge")) => return Err(PatchError::MergeInList),
            Some(_) => {
                let directive = object.get(PATCH).map(go_text).unwrap_or_default();
                return Err(PatchError::UnknownDirective { directive, object: go_text(&item) });
            }
        }
    }
    Ok(if replace { (items, Vec::new()) } else { (original, items) })
}

fn merge_items(merged: &mut List, patch: &[Value], scope: Scope, key: &str) -> Result<(), PatchError> {
    for item in patch {
        let wanted = key_of(item, key)?;
        match (merged.iter_mut().find(|item| item.get(key) == Some(wanted)), item) {
            (Some(Value::Object(before)), Value::Object(item)) => object::merge(before, item.clone(), scope)?,
            _ => merged.push(item.clone()),
        }
    }
    Ok(())
}

/// Carries out the `$setElementOrder` directives of a patch: merges and orders the lists that they name.
pub(super) fn set_element_orders(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    scope: Scope,
) -> Result<(), PatchError> {
    let directives: Vec<String> =
        patch.keys().filter(|name| name.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let order = take_list(patch, &directive)?.unwrap_or_default();
        let name = directive.strip_prefix(SET_ELEMENT_ORDER).and_then(|rest| rest.strip_prefix('/'));
        let name = name.ok_or(PatchError::SetElementOrderFormat)?;
        let before = take_list(original, name)?;
        let items = take_list(patch, name)?;
        let (scope, strategy) = scope.list(name)?;
        check_order(items.as_deref().unwrap_or_default(), &order, strategy.merge_key)?;
        let element_type =
            element_type(&[before.as_deref().unwrap_or_default(), items.as_deref().unwrap_or_default()])?;
        let server_order = before.clone().unwrap_or_default();
        let merged = match (before, items) {
            (None, None) => continue,
            (Some(before), None) => before,
            (None, Some(items)) => items.into_iter().filter_map(without_directives).collect(),
            (Some(before), Some(items)) if strategy.merge => merge(before, items, scope, strategy.merge_key)?,
            (Some(_), Some(items)) => items,
        };
        match element_type {
            None => return Err(PatchError::NoElements),
            Some(error::OBJECT) if strategy.merge_key.is_empty() => return Err(PatchError::KeylessList),
            Some(_) => {}
        }
        original.insert(name.to_owned(), in_order(merged, &order, &server_order, strategy.merge_key)?.into());
    }
    Ok(())
}

/// Removes and returns a member. Fails if it is not a list.
fn take_list(object: &mut Map<String, Value>, name: &str) -> Result<Option<List>, PatchError> {
    match object.remove(name) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(PatchError::wrong_type(error::LIST, &other)),
    }
}

/// Checks that the patch's items are in the order of its own `$setElementOrder`.
fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if order.is_empty() {
        return Ok(());
    }
    let directive = |item: &Value| item.get(PATCH).cloned();
    let mut items = patch.iter().filter(|item| directive(item) != Some("delete".into())).peekable();
    let mut order_left = order.iter();
    while let Some(item) = items.peek() {
        if order_left.len() > 0 && directive(item).is_some() {
            items.next();
            continue;
        }
        let Some(ordered) = order_left.next() else {
            let text = |list: &[Value]| go_text(&Value::Array(list.to_vec()));
            return Err(PatchError::OrderMismatch { patch: text(patch), order: text(order) });
        };
        if identity(ordered, key)? == identity(item, key)? {
            items.next();
        }
    }
    Ok(())
}

/// Orders a merged list. Items in `wanted` take its order, and all others keep the server's order. An item of the
/// others comes before the first item of `wanted` that it preceded on the server.
fn in_order(merged: List, wanted: &[Value], server: &[Value], key: &str) -> Result<List, PatchError> {
    let wanted = identities(wanted, key)?;
    let server = identities(server, key)?;
    let position = |list: &[Value], item: &Value| list.iter().position(|known| known == item);
    let mut named: Vec<(usize, Value, Value)> = Vec::new();
    let mut others: Vec<(usize, Value, Value)> = Vec::new();
    for item in merged {
        let identity = identity(&item, key)?.clone();
        match position(&wanted, &identity) {
            Some(at) => named.push((at, identity, item)),
            None => others.push((position(&server, &identity).unwrap_or(usize::MAX), identity, item)),
        }
    }
    named.sort_by_key(|(at, ..)| *at);
    others.sort_by_key(|(at, ..)| *at);
    let mut ordered = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, identity, item) in named {
        let place = position(&server, &identity);
        while let Some((_, _, other)) = others.next_if(|(at, ..)| place.is_some_and(|place| *at < place)) {
            ordered.push(other);
        }
        ordered.push(item);
    }
    ordered.extend(others.map(|(_, _, other)| other));
    Ok(ordered)
}

/// Returns the identity of an item: its key, or the item itself in a list without key.
fn identity<'a>(item: &'a Value, key: &str) -> Result<&'a Value, PatchError> {
    if key.is_empty() { Ok(item) } else { key_of(item, key) }
}

fn identities(items: &[Value], key: &str) -> Result<List, PatchError> {
    items.iter().map(|item| identity(item, key).cloned()).collect()
}

fn key_of<'a>(item: &'a Value, key: &str) -> Result<&'a Value, PatchError> {
    match item {
        Value::Object(object) => object.get(key).ok_or_else(|| PatchError::no_merge_key(object, key)),
        other => Err(PatchError::wrong_type(error::OBJECT, other)),
    }
}

/// Returns the Go type that all items have; `None` if there are no items.
pub(super) fn element_type(lists: &[&[Value]]) -> Result<Option<&'static str>, PatchError> {
    let mut found = None;
    for item in lists.iter().copied().flatten() {
        let ty = go_type(item);
        if ty == error::LIST {
            return Err(PatchError::ListOfLists);
        }
        if *found.get_or_insert(ty) != ty {
            let lists = lists.iter().map(|list| Value::Array(list.to_vec())).collect();
            return Err(PatchError::MixedList { lists: go_text(&Value::Array(lists)) });
        }
    }
    Ok(found)
}
