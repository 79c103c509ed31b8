//! The text of a Go struct, as the hash of a static pod sees it.
//!
//! Upstream gives a static pod without a uid the FNV hash of what `spew` prints of the internal (unversioned) struct,
//! names of Go types and of unexported fields included. A node that changes its agent must give its static pods the uids
//! they had, or all of them would restart. So the same text is made here from the pod's JSON form and a table of the Go
//! types of Kubernetes 1.36.3, read off them by reflection: `go_types.txt` has a line per type, each field with its name,
//! its type, and its name in JSON where that is not the field's own in lower camel case; `-` stands for fields whose
//! members stand beside the others'. Vectors made with upstream's own functions hold it to that version.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::go_quantity::{GoQuantity, NoQuantity};

/// A Go type of the table.
enum GoType {
    Struct(Vec<Field>),
    /// Another name for a type that Go has.
    Named(&'static str),
}

struct Field {
    name: &'static str,
    kind: &'static str,
    /// `None` where the members stand in the outer object.
    json: Option<String>,
}

static TYPES: LazyLock<HashMap<&'static str, GoType>> =
    LazyLock::new(|| include_str!("go_types.txt").lines().filter_map(declaration).collect());

fn declaration(line: &'static str) -> Option<(&'static str, GoType)> {
    if let Some((name, named)) = line.split_once(" = ") {
        return Some((name, GoType::Named(named)));
    }
    let (name, fields) = line.split_once(": ")?;
    let fields = fields.split(", ").filter_map(|field| {
        let mut words = field.split(' ');
        let (name, kind) = (words.next()?, words.next()?);
        let json = match words.next() {
            Some("-") => None,
            Some(json) => Some(json.to_owned()),
            None => Some(name[..1].to_ascii_lowercase() + &name[1..]),
        };
        Some(Field { name, kind, json })
    });
    Some((name, GoType::Struct(fields.collect())))
}

/// The names of the members that a struct of the table has in JSON, its embedded structs' included.
pub(super) fn members_of(name: &str) -> Vec<&'static str> {
    let Some(GoType::Struct(fields)) = TYPES.get(name) else { return Vec::new() };
    let own = fields.iter().filter_map(|field| field.json.as_deref());
    let embedded = fields.iter().filter(|field| field.json.is_none());
    own.chain(embedded.flat_map(|field| members_of(field.kind))).collect()
}

/// The text of an internal pod, given in the internal form (see [`internal`](super::internal)).
///
/// Two things can't be told from a manifest: a stamp is printed as of a machine without a time zone, and the managed
/// fields of a manifest, which nobody writes, as they stand.
///
/// # Errors
/// A quantity that is none.
pub(super) fn dump(pod: &Value) -> Result<String, NoQuantity> {
    let mut out = String::with_capacity(16 * 1024);
    value(&mut out, "*core.Pod", Some(pod), Label::Shown)?;
    Ok(out)
}

/// Whether a value is preceded by its type: fields are, items and what pointers point to are not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Shown,
    Hidden,
}

fn value(
    out: &mut String,
    kind: &'static str,
    value: Option<&Value>,
    label: Label,
) -> Result<(), NoQuantity> {
    let value = value.filter(|value| !value.is_null());
    if let (Label::Hidden, Some(_), None) = (label, kind.strip_prefix('*'), value) {
        out.push_str("<nil>");
        return Ok(());
    }
    if label == Label::Shown {
        let _ = write!(out, "({kind})");
    }
    if let Some(target) = kind.strip_prefix('*') {
        return match value {
            None => {
                out.push_str("<nil>");
                Ok(())
            }
            some => content(out, target, some),
        };
    }
    content(out, kind, value)
}

fn content(out: &mut String, kind: &'static str, value: Option<&Value>) -> Result<(), NoQuantity> {
    if let Some(item) = kind.strip_prefix("[]") {
        return list(out, item, value);
    }
    if let Some((_, item)) = kind.strip_prefix("map[").and_then(|kind| kind.split_once(']')) {
        return map(out, item, value);
    }
    match kind {
        "string" => out.push_str(value.and_then(Value::as_str).unwrap_or_default()),
        "bool" => _ = write!(out, "{}", value.and_then(Value::as_bool).unwrap_or_default()),
        "int" | "int32" | "int64" => _ = write!(out, "{}", value.and_then(Value::as_i64).unwrap_or_default()),
        "resource.Quantity" => quantity(value)?.dump(out),
        "intstr.IntOrString" => int_or_string(out, value),
        "v1.Time" => time(out, value),
        "v1.FieldsV1" => raw(out, value),
        _ => match TYPES.get(kind) {
            Some(GoType::Named(named)) => content(out, named, value)?,
            Some(GoType::Struct(fields)) => structure(out, fields, value)?,
            // The table is closed; a test says so.
            None => {}
        },
    }
    Ok(())
}

fn structure(out: &mut String, fields: &'static [Field], object: Option<&Value>) -> Result<(), NoQuantity> {
    out.push('{');
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        out.push_str(field.name);
        out.push(':');
        let member = match &field.json {
            // The internal type's own name and version are empty.
            None if field.kind == "v1.TypeMeta" => None,
            None if field.kind == "v1.ObjectMeta" => object.and_then(|object| object.get("metadata")),
            None => object,
            Some(json) => object.and_then(|object| object.get(json)),
        };
        value(out, field.kind, member, Label::Shown)?;
    }
    out.push('}');
    Ok(())
}

fn list(out: &mut String, item: &'static str, items: Option<&Value>) -> Result<(), NoQuantity> {
    let Some(items) = items.and_then(Value::as_array) else {
        out.push_str("<nil>");
        return Ok(());
    };
    out.push('[');
    for (at, element) in items.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        value(out, item, Some(element), Label::Hidden)?;
    }
    out.push(']');
    Ok(())
}

/// Keys come in the order of their bytes.
fn map(out: &mut String, item: &'static str, members: Option<&Value>) -> Result<(), NoQuantity> {
    let Some(members) = members.and_then(Value::as_object) else {
        out.push_str("<nil>");
        return Ok(());
    };
    out.push_str("map[");
    for (at, (key, member)) in sorted(members).into_iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        let _ = write!(out, "{key}:");
        if item == "resource.Quantity" {
            let mut amount = quantity(Some(member))?;
            amount.round_up_to_milli();
            amount.dump(out);
        } else {
            value(out, item, Some(member), Label::Hidden)?;
        }
    }
    out.push(']');
    Ok(())
}

fn sorted(members: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(key, _)| *key);
    members
}

/// A number as Go's JSON writes it.
fn number(number: &serde_json::Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) => float.to_string(),
        None => number.to_string(),
    }
}

pub(super) fn quantity(value: Option<&Value>) -> Result<GoQuantity, NoQuantity> {
    match value {
        None | Some(Value::Null) => Ok(GoQuantity::unset()),
        Some(Value::String(text)) => GoQuantity::parse(text),
        Some(Value::Number(amount)) => GoQuantity::parse(&number(amount)),
        Some(other) => Err(NoQuantity(other.to_string())),
    }
}

fn int_or_string(out: &mut String, value: Option<&Value>) {
    let number = value.and_then(Value::as_i64).unwrap_or_default();
    let text = value.and_then(Value::as_str).unwrap_or_default();
    let kind = u8::from(value.is_some_and(Value::is_string));
    let _ = write!(out, "{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}");
}

fn time(out: &mut String, value: Option<&Value>) {
    /// From the year 1, Go's origin, to 1970.
    const UNTIL_1970: i64 = 62_135_596_800;
    let stamp = value.and_then(Value::as_str).and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let seconds = stamp.map_or(0, |stamp| stamp.as_second() + UNTIL_1970);
    let _ =
        write!(out, "{{Time:(time.Time){{wall:(uint64)0 ext:(int64){seconds} loc:(*time.Location)<nil>}}}}");
}

fn raw(out: &mut String, value: Option<&Value>) {
    out.push_str("{Raw:([]uint8)");
    match value {
        None => out.push_str("<nil>"),
        Some(value) => {
            let bytes = value.to_string().into_bytes();
            let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
            let _ = write!(out, "[{}]", bytes.join(" "));
        }
    }
    out.push('}');
}
