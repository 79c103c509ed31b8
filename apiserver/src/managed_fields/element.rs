//! One step of a path into an object.

use std::cmp::Ordering;
use std::fmt::{self, Write};

use serde_json::{Map, Value};

use super::value;

/// One step of a path into an object.
///
/// Elements are ordered as upstream writes them: fields, keyed items, items of sets, indices.
#[derive(Debug, Clone)]
pub(crate) enum Element {
    /// A member of an object: `f:name`.
    Field(String),
    /// The item of a list that has these values in its key fields, which are sorted by name: `k:{"name":"web"}`.
    Key(Vec<(String, Value)>),
    /// The item of a set: `v:"example.com/keep"`.
    Value(Value),
    /// The item at that place of a list. Nothing here makes such elements, but clients may: `i:0`.
    Index(i64),
}

/// The text is no path element.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no path element")]
pub(crate) struct NoElement(String);

impl Element {
    /// The member of that name.
    pub(super) fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    /// Adds the element as `FieldsV1` has it.
    pub(super) fn encode(&self, out: &mut String) {
        match self {
            Self::Field(name) => {
                out.push_str("f:");
                out.push_str(name);
            }
            Self::Key(fields) => {
                out.push_str("k:{");
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    let _ = write!(out, "{comma}{}:{value}", Value::from(name.as_str()));
                }
                out.push('}');
            }
            Self::Value(value) => {
                let _ = write!(out, "v:{value}");
            }
            Self::Index(at) => {
                let _ = write!(out, "i:{at}");
            }
        }
    }

    /// Reads an element as `FieldsV1` has it; `None` if its type is unknown.
    ///
    /// # Errors
    /// The text is no element at all.
    pub(super) fn decode(text: &str) -> Result<Option<Self>, NoElement> {
        let bad = || NoElement(text.to_owned());
        let (kind, rest) = match text.as_bytes() {
            [kind, b':', ..] => (*kind, &text[2..]),
            _ => return Err(bad()),
        };
        Ok(Some(match kind {
            b'f' => Self::field(rest),
            b'k' => {
                let fields: Map<String, Value> = serde_json::from_str(rest).map_err(|_| bad())?;
                let mut fields: Vec<_> = fields.into_iter().collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                Self::Key(fields)
            }
            b'v' => Self::Value(serde_json::from_str(rest).map_err(|_| bad())?),
            b'i' => Self::Index(rest.parse().map_err(|_| bad())?),
            _ => return Ok(None),
        }))
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                let pairs = a.iter().zip(b);
                let mut orders =
                    pairs.map(|((an, av), (bn, bv))| an.cmp(bn).then_with(|| value::order(av, bv)));
                orders.find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            (Self::Value(a), Self::Value(b)) => value::order(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl Element {
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

/// As messages name it: `.spec`, `[name="web"]`, `[="x"]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields = fields.iter().map(|(name, value)| format!("{name}={}", value::shown(value)));
                write!(f, "[{}]", fields.collect::<Vec<_>>().join(","))
            }
            Self::Value(value) => write!(f, "[={}]", value::shown(value)),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}
