//! What differs between two states of an object.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Error;
use super::element::Element;
use super::set::FieldSet;
use super::types::{Form, Forms, List, Map, Relation, Type};
use super::value::same;

/// What a change did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Only the old state has it.
    pub(super) removed: FieldSet,
    /// The new state has it, and the old one has not, or with another value.
    pub(super) set: FieldSet,
}

impl Comparison {
    /// Compares two states of the same type.
    ///
    /// # Errors
    /// Items of a list can't be told from each other.
    pub(crate) fn of(ty: Type<'_>, old: &Value, new: &Value) -> Result<Self, Error> {
        let change = compare(ty, Some(old), Some(new))?;
        Ok(Self { removed: change.removed.below, set: change.set.below })
    }

    /// Whether both states are alike.
    pub(super) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.set.is_empty()
    }
}

/// What a change did to one path and below it.
#[derive(Default)]
struct Change {
    removed: Part,
    set: Part,
}

/// What a set has of one path and below it.
#[derive(Default)]
struct Part {
    here: bool,
    below: FieldSet,
}

impl Change {
    /// Two values that are each one whole.
    fn of_leaf(old: Option<&Value>, new: Option<&Value>) -> Self {
        let mut change = Self::default();
        match (old, new) {
            (Some(old), Some(new)) => change.set.here = !same(old, new),
            (Some(_), None) => change.removed.here = true,
            (None, _) => change.set.here = true,
        }
        change
    }

    /// Adds what the change did to one element.
    fn add(&mut self, element: impl FnOnce() -> Element, below: Self) {
        match (below.removed.is_none(), below.set.is_none()) {
            (true, true) => {}
            (true, false) => self.set.add(element(), below.set),
            (false, true) => self.removed.add(element(), below.removed),
            (false, false) => {
                let element = element();
                self.removed.add(element.clone(), below.removed);
                self.set.add(element, below.set);
            }
        }
    }

    fn join(&mut self, other: Self) {
        self.removed.join(&other.removed);
        self.set.join(&other.set);
    }
}

impl Part {
    fn is_none(&self) -> bool {
        !self.here && self.below.is_empty()
    }

    fn add(&mut self, element: Element, below: Self) {
        self.below.add(element, below.here, below.below);
    }

    fn join(&mut self, other: &Self) {
        self.here |= other.here;
        self.below = self.below.union(&other.below);
    }
}

/// Nothing is not null: a member may be there without a value.
fn compare(ty: Type<'_>, old: Option<&Value>, new: Option<&Value>) -> Result<Change, Error> {
    let forms = ty.forms();
    match (old, new) {
        (Some(_), Some(_)) => {
            let (before, after) = (forms.of(old), forms.of(new));
            let mut change = in_form(&forms, after, old, new)?;
            if before != after {
                change.join(in_form(&forms, before, old, new)?);
            }
            Ok(change)
        }
        _ => in_form(&forms, forms.of(old.or(new)), old, new),
    }
}

fn in_form(forms: &Forms<'_>, form: Form, old: Option<&Value>, new: Option<&Value>) -> Result<Change, Error> {
    let change = match (form, &forms.map, &forms.list) {
        (Form::Map, Some(map), _) => members(map, old, new)?,
        (Form::List, _, Some(list)) => items(list, old, new)?,
        _ => None,
    };
    let Some(mut change) = change else { return Ok(Change::of_leaf(old, new)) };
    change.set.here |= old.is_none();
    change.removed.here |= new.is_none();
    Ok(change)
}

/// `None` if the two are one whole each. Empty ones are, so that "empty" and "null" can be told apart.
fn members(map: &Map<'_>, old: Option<&Value>, new: Option<&Value>) -> Result<Option<Change>, Error> {
    let empty = serde_json::Map::new();
    let old = old.and_then(Value::as_object).unwrap_or(&empty);
    let new = new.and_then(Value::as_object).unwrap_or(&empty);
    if map.atomic || (old.is_empty() && new.is_empty()) {
        return Ok(None);
    }
    let mut change = Change::default();
    let gone =
        old.iter().filter(|(name, _)| !new.contains_key(*name)).map(|(name, old)| (name, Some(old), None));
    let rest = new.iter().map(|(name, new)| (name, old.get(name), Some(new)));
    for (name, old, new) in gone.chain(rest) {
        let below = compare(map.member(name), old, new)?;
        change.add(|| Element::field(name), below);
    }
    Ok(Some(change))
}

/// Old and new items of one element.
type Pair<'v> = (Vec<&'v Value>, Vec<&'v Value>);

/// As [`members`], for lists.
fn items(list: &List<'_>, old: Option<&Value>, new: Option<&Value>) -> Result<Option<Change>, Error> {
    let before = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let after = new.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if matches!(list.relation, Relation::Atomic) || (before.is_empty() && after.is_empty()) {
        return Ok(None);
    }
    let mut change = Change::default();
    if before == after {
        return Ok(Some(change));
    }
    let mut pairs: BTreeMap<Element, Pair<'_>> = BTreeMap::new();
    for item in before {
        pairs.entry(element(list, item)?).or_default().0.push(item);
    }
    for item in after {
        pairs.entry(element(list, item)?).or_default().1.push(item);
    }
    for (at, (before, after)) in pairs {
        let mut below = match (&before[..], &after[..]) {
            ([] | [_], [] | [_]) => compare(list.items, before.first().copied(), after.first().copied())?,
            // Items that are there twice are one whole together.
            ([_, _, ..], [_, _, ..]) => {
                let mut below = Change::default();
                let alike = before.len() == after.len() && before.iter().zip(&after).all(|(a, b)| same(a, b));
                below.set.here = !alike;
                below
            }
            ([_, _, ..], [one]) => compare(list.items, None, Some(*one))?,
            ([one], [_, _, ..]) => compare(list.items, Some(*one), None)?,
            _ => Change::default(),
        };
        below.removed.here |= before.len() > 1 && after.len() < 2;
        below.set.here |= after.len() > 1 && before.len() < 2;
        change.add(|| at, below);
    }
    Ok(Some(change))
}

fn element(list: &List<'_>, item: &Value) -> Result<Element, Error> {
    list.element(item).map_err(Error::Item)
}
