//! How cells word what is in an object.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use steersman_api::Quantity;

use crate::object;

/// The object's name.
pub(super) fn name(object: &Value) -> Value {
    text(object, "metadata.name")
}

/// The text at a path; empty if there is none.
pub(super) fn text(object: &Value, path: &str) -> Value {
    object::text_at(object, path).into()
}

/// The text at a path, or what to say if there is none or an empty one.
pub(super) fn text_or(object: &Value, path: &str, otherwise: &str) -> Value {
    object::str_at(object, path).filter(|text| !text.is_empty()).unwrap_or(otherwise).into()
}

/// The number at a path; zero if there is none.
pub(super) fn count(object: &Value, path: &str) -> Value {
    int(object, path).into()
}

/// The number at a path; zero if there is none.
pub(super) fn int(object: &Value, path: &str) -> i64 {
    object::int_at(object, path).unwrap_or(0)
}

/// How many items the list at a path has.
pub(super) fn length(object: &Value, path: &str) -> Value {
    object::list_at(object, path).len().into()
}

/// The truth value at a path.
pub(super) fn switch(object: &Value, path: &str, otherwise: bool) -> Value {
    object::at(object, path).and_then(Value::as_bool).unwrap_or(otherwise).into()
}

/// Texts at one path in each item of a list.
pub(super) fn texts<'a>(list: &'a [Value], path: &str) -> Vec<&'a str> {
    list.iter().map(|item| object::str_at(item, path).unwrap_or_default()).collect()
}

/// How long ago the object was made.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(object, "metadata.creationTimestamp", now).into()
}

/// How long ago the moment at a path was.
pub(super) fn since(object: &Value, path: &str, now: Timestamp) -> String {
    match moment(object, path) {
        Some(then) => human(now.duration_since(then)),
        None => "<unknown>".to_owned(),
    }
}

/// The moment at a path.
pub(super) fn moment(object: &Value, path: &str) -> Option<Timestamp> {
    object::str_at(object, path)?.parse().ok()
}

/// A span in two or three significant figures, as upstream words it.
pub(super) fn human(span: SignedDuration) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    /// The larger unit, and the smaller one where it is not zero.
    fn two(seconds: i64, large: (i64, char), small: (i64, char)) -> String {
        let rest = seconds % large.0 / small.0;
        let head = format!("{}{}", seconds / large.0, large.1);
        if rest == 0 { head } else { format!("{head}{rest}{}", small.1) }
    }
    // Clocks differ a little: a moment that is just ahead is now.
    let seconds = span.as_secs();
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(seconds, (MINUTE, 'm'), (1, 's')),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(seconds, (HOUR, 'h'), (MINUTE, 'm')),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(seconds, (DAY, 'd'), (HOUR, 'h')),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(seconds, (YEAR, 'y'), (DAY, 'd')),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// The labels at a path, sorted.
pub(super) fn labels(object: &Value, path: &str) -> String {
    let Some(Value::Object(labels)) = object::at(object, path) else { return "<none>".to_owned() };
    if labels.is_empty() { "<none>".to_owned() } else { pairs(labels).join(",") }
}

fn pairs(labels: &Map<String, Value>) -> Vec<String> {
    let mut pairs: Vec<(&String, &Value)> = labels.iter().collect();
    pairs.sort_by_key(|(key, _)| *key);
    pairs.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect()
}

/// The LabelSelector at a path.
pub(super) fn selector(object: &Value, path: &str) -> Value {
    match object::at(object, path).map(selector_terms) {
        None => "<none>".into(),
        Some(None) => "<error>".into(),
        Some(Some(terms)) if terms.is_empty() => "<none>".into(),
        Some(Some(terms)) => terms.into(),
    }
}

/// A LabelSelector as one text; `None` if it makes no sense.
pub(super) fn selector_terms(selector: &Value) -> Option<String> {
    let mut terms: Vec<(&str, String)> = Vec::new();
    if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
        for (key, value) in labels {
            terms.push((key, format!("{key}={}", value.as_str().unwrap_or_default())));
        }
    }
    for expression in object::list_at(selector, "matchExpressions") {
        let key = object::str_at(expression, "key")?;
        let mut values: Vec<&str> =
            object::list_at(expression, "values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let term = match (object::str_at(expression, "operator")?, values.is_empty()) {
            ("In", false) => format!("{key} in ({})", values.join(",")),
            ("NotIn", false) => format!("{key} notin ({})", values.join(",")),
            ("Exists", true) => key.to_owned(),
            ("DoesNotExist", true) => format!("!{key}"),
            _ => return None,
        };
        terms.push((key, term));
    }
    terms.sort_by_key(|(key, _)| *key);
    Some(terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(","))
}

/// The amount at a path in its canonical form; zero if there is none.
pub(super) fn quantity(object: &Value, path: &str) -> String {
    object::at(object, path).map_or_else(|| "0".to_owned(), amount)
}

/// An amount in its canonical form.
pub(super) fn amount(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.parse::<Quantity>().map_or(text, |quantity| quantity.to_string())
}

/// The first of several, and how many more there are.
pub(super) fn first_three(list: &[String], otherwise: &str) -> String {
    const SHOWN: usize = 3;
    match list.len() {
        0 => otherwise.to_owned(),
        1..=SHOWN => list.join(","),
        all => format!("{} + {} more...", list[..SHOWN].join(","), all - SHOWN),
    }
}

/// Names and images of a pod template's containers.
pub(super) fn containers(object: &Value, path: &str) -> [Value; 2] {
    let containers = object::list_at(object, path);
    ["name", "image"].map(|field| texts(containers, field).join(",").into())
}

/// Whether a condition of that type is `True`; the first of its type counts.
pub(super) fn has_condition(object: &Value, condition: &str) -> bool {
    let conditions = object::list_at(object, "status.conditions");
    let found = conditions.iter().find(|found| found["type"] == condition);
    found.is_some_and(|found| found["status"] == "True")
}

/// The value of an annotation.
pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"].get("annotations")?.get(key)?.as_str()
}

/// Whether the object is to be deleted.
pub(super) fn is_deleting(object: &Value) -> bool {
    object::at(object, "metadata.deletionTimestamp").is_some()
}
