//! What is wrong with a configuration, in upstream's words.

use std::collections::BTreeSet;

use serde_json::Value;

use super::element::Element;
use super::types::{Form, List, Map, Relation, Scalar, Type};
use super::value::{as_go, as_go_syntax, go_type};

/// All that is wrong with a value that should be of that type; of each object the first member that does not belong.
pub(super) fn faults(ty: Type<'_>, value: &Value) -> Vec<String> {
    let mut check = Check { path: String::new(), faults: Vec::new() };
    check.value(ty, value);
    check.faults
}

struct Check {
    /// Where the check is, such as `.spec.ports[0]`.
    path: String,
    faults: Vec<String>,
}

impl Check {
    fn fault(&mut self, why: impl std::fmt::Display) {
        let colon = if self.path.is_empty() { "" } else { ": " };
        self.faults.push(format!("{}{colon}{why}", self.path));
    }

    fn below(&mut self, element: &Element, check: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(&element.to_string());
        check(self);
        self.path.truncate(length);
    }

    fn value(&mut self, ty: Type<'_>, value: &Value) {
        if value.is_null() {
            return;
        }
        let forms = ty.forms();
        match (forms.of(Some(value)), &forms.map, &forms.list) {
            (Form::Map, Some(map), _) => self.map(map, value),
            (Form::List, _, Some(list)) => self.list(list, value),
            _ => self.scalar(forms.scalar.unwrap_or(Scalar::Any), value),
        }
    }

    fn map(&mut self, map: &Map<'_>, value: &Value) {
        let Some(members) = value.as_object() else {
            return self.fault(format!("expected map, got &{{{}}}", as_go(value)));
        };
        for (name, value) in members {
            let listed = map.listed(name);
            let undeclared = listed.is_none() && map.closed;
            self.below(&Element::field(name), |check| {
                if undeclared {
                    check.fault("field not declared in schema");
                } else {
                    check.value(listed.unwrap_or(map.others), value);
                }
            });
            if undeclared {
                return;
            }
        }
    }

    fn list(&mut self, list: &List<'_>, value: &Value) {
        let Some(items) = value.as_array() else {
            return self.fault(format!("expected list, got &{{{}}}", as_go(value)));
        };
        let mut seen = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            let element = match list.relation {
                Relation::Atomic => Element::Index(i64::try_from(at).unwrap_or(i64::MAX)),
                _ => match list.element(item) {
                    Ok(element) => element,
                    Err(why) => return self.fault(format!("element {at}: {why}")),
                },
            };
            if seen.contains(&element) {
                self.fault(format!("duplicate entries for key {element}"));
            }
            self.below(&element, |check| check.value(list.items, item));
            seen.insert(element);
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        let (fits, why) = match scalar {
            Scalar::Number => {
                (value.is_number(), format!("expected numeric (int or float), got {}", go_type(value)))
            }
            Scalar::Text => (
                value.is_string(),
                format!("expected string, got &value.valueUnstructured{{Value:{}}}", as_go_syntax(value)),
            ),
            Scalar::Bool => (value.is_boolean(), format!("expected boolean, got &{{{}}}", as_go(value))),
            Scalar::Any => (
                !value.is_object() && !value.is_array(),
                format!("expected any scalar, got &{{{}}}", as_go(value)),
            ),
        };
        if !fits {
            self.fault(why);
        }
    }
}
