//! What is wrong with a field, in upstream's words.

use std::fmt;

use serde_json::Value;

/// One field that breaks a rule.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldError {
    /// The path, such as `spec.ports[0].port`.
    pub(crate) field: String,
    rule: Rule,
    detail: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Rule {
    Required,
    Forbidden,
    Invalid(Value),
    NotSupported(Value),
    Duplicate(Value),
    NotFound(Value),
    InvalidWithoutValue,
    TooLong,
}

impl FieldError {
    fn new(field: impl Into<String>, rule: Rule, detail: impl Into<String>) -> Self {
        Self { field: field.into(), rule, detail: detail.into() }
    }

    /// It must be there.
    pub(crate) fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, Rule::Required, detail)
    }

    /// It may not be there, or not be changed.
    pub(crate) fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, Rule::Forbidden, detail)
    }

    /// It has a wrong value.
    pub(crate) fn invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(field, Rule::Invalid(value.into()), detail)
    }

    /// A wrong value, once for each thing that is wrong with it.
    pub(crate) fn each_invalid(field: &str, value: &str, whys: Vec<String>) -> impl Iterator<Item = Self> {
        whys.into_iter().map(move |why| Self::invalid(field, value, why))
    }

    /// It may only have one of these values.
    pub(crate) fn not_supported(
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) -> Self {
        let quoted: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        Self::new(field, Rule::NotSupported(value.into()), format!("supported values: {}", quoted.join(", ")))
    }

    /// Another item has the value already.
    pub(crate) fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, Rule::Duplicate(value.into()), "")
    }

    /// It names something that is not there.
    pub(crate) fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, Rule::NotFound(value.into()), "")
    }

    /// It has a wrong value that says nothing.
    pub(crate) fn invalid_without_value(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, Rule::InvalidWithoutValue, detail)
    }

    /// It is longer than so many bytes.
    pub(crate) fn too_long(field: impl Into<String>, limit: usize) -> Self {
        Self::new(field, Rule::TooLong, format!("may not be more than {limit} bytes"))
    }

    /// What may not change once set did.
    pub(crate) fn immutable(field: impl Into<String>, value: &Value) -> Self {
        Self::invalid(field, value.clone(), "field is immutable")
    }

    /// For programs.
    pub(crate) fn reason(&self) -> &'static str {
        match self.rule {
            Rule::Required => "FieldValueRequired",
            Rule::Forbidden => "FieldValueForbidden",
            Rule::Invalid(_) | Rule::InvalidWithoutValue => "FieldValueInvalid",
            Rule::NotFound(_) => "FieldValueNotFound",
            Rule::NotSupported(_) => "FieldValueNotSupported",
            Rule::Duplicate(_) => "FieldValueDuplicate",
            Rule::TooLong => "FieldValueTooLong",
        }
    }

    /// For people, without the path.
    pub(crate) fn body(&self) -> String {
        let head = match &self.rule {
            Rule::Required => "Required value".to_owned(),
            Rule::Forbidden => "Forbidden".to_owned(),
            Rule::Invalid(value) => format!("Invalid value: {value}"),
            Rule::NotSupported(value) => format!("Unsupported value: {value}"),
            Rule::Duplicate(value) => format!("Duplicate value: {value}"),
            Rule::NotFound(value) => format!("Not found: {value}"),
            Rule::InvalidWithoutValue => "Invalid value".to_owned(),
            Rule::TooLong => "Too long".to_owned(),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}
