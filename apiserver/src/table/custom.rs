//! The columns of custom resources, which their definitions say.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::column::NAME;
use super::format;
use super::json_path::JsonPath;
use crate::object::{list_at, text_at};

/// The columns of one version of a custom resource.
pub(crate) struct CustomColumns {
    columns: Vec<CustomColumn>,
}

struct CustomColumn {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
    /// None if it is not understood: the cells stay empty.
    path: Option<JsonPath>,
}

impl CustomColumns {
    /// From a version of a definition. Without columns of its own it shows the age.
    pub(crate) fn of_version(version: &Value) -> Self {
        let columns = list_at(version, "additionalPrinterColumns");
        if columns.is_empty() {
            let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
            return Self { columns: vec![CustomColumn::parse(&age)] };
        }
        Self { columns: columns.iter().map(CustomColumn::parse).collect() }
    }

    /// See [`Layout::cells`](super::Layout::cells).
    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let cells = self.columns.iter().map(|column| column.cell(object, now).unwrap_or_default());
        std::iter::once(format::name(object)).chain(cells).collect()
    }

    /// See [`Layout::definitions`](super::Layout::definitions).
    pub(super) fn definitions(&self) -> Vec<Value> {
        let definition = |column: &CustomColumn| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            })
        };
        std::iter::once(NAME.definition()).chain(self.columns.iter().map(definition)).collect()
    }
}

impl CustomColumn {
    fn parse(column: &Value) -> Self {
        Self {
            name: text_at(column, "name"),
            kind: text_at(column, "type"),
            format: text_at(column, "format"),
            description: text_at(column, "description"),
            priority: format::int(column, "priority"),
            path: JsonPath::parse(&text_at(column, "jsonPath")),
        }
    }

    /// `None` for an empty cell: nothing is there, or nothing of the column's type.
    fn cell(&self, object: &Value, now: Timestamp) -> Option<Value> {
        let value = self.path.as_ref()?.first(object)?;
        match self.kind.as_str() {
            "string" => Some(match value {
                Value::String(text) => text.as_str().into(),
                // As Go words it.
                Value::Null => "<no value>".into(),
                other => other.to_string().into(),
            }),
            #[expect(clippy::cast_possible_truncation, reason = "as upstream does with fractions")]
            "integer" => {
                value.as_i64().or_else(|| value.as_f64().map(|number| number as i64)).map(Value::from)
            }
            "number" => value.as_f64().map(number),
            "boolean" => value.as_bool().map(Value::from),
            "date" => {
                let text = value.as_str()?;
                Some(match text.parse::<Timestamp>() {
                    Ok(then) => format::human(now.duration_since(then)).into(),
                    Err(_) if text.is_empty() || text == "null" => "<unknown>".into(),
                    Err(_) => "<invalid>".into(),
                })
            }
            _ => None,
        }
    }
}

/// A number as Go writes it: without a fraction where there is none.
fn number(number: f64) -> Value {
    /// Beyond it not every whole number can be told.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and within the range")]
    if number.fract() == 0.0 && number.abs() < EXACT { (number as i64).into() } else { number.into() }
}
