//! Label and field selectors.

mod parse;

use std::fmt;
use std::str::FromStr;

use arcstr::ArcStr;

use crate::meta::Labels;

/// A label selector. It selects objects whose labels meet all of its requirements.
///
/// The empty selector selects everything. A missing `metav1.LabelSelector`, however, selects nothing (upstream's
/// `LabelSelectorAsSelector`); the caller represents it by `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: ArcStr,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<ArcStr>),
    NotIn(Vec<ArcStr>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

/// The error for an invalid selector. The message is upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSelector(String);

impl InvalidSelector {
    /// The error for an object that must have a selector and has none.
    pub fn missing() -> Self {
        Self("there is no selector".to_owned())
    }
}

impl LabelSelector {
    /// Selects everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects objects that have all of these labels, as do `matchLabels` and the selector of a service.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut selector = Self::default();
        for (key, value) in labels {
            selector.requirements.push(Requirement { key: key.into(), test: Test::In(vec![value.into()]) });
        }
        selector
    }

    /// Adds a requirement: an entry of `matchExpressions`.
    ///
    /// # Errors
    /// The operator is none of `In`, `NotIn`, `Exists` and `DoesNotExist`; `In` or `NotIn` has no values; `Exists` or
    /// `DoesNotExist` has some.
    pub fn require<'a>(
        &mut self,
        key: &str,
        operator: &str,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), InvalidSelector> {
        let mut values: Vec<ArcStr> = values.into_iter().map(ArcStr::from).collect();
        values.sort();
        let fail = |why| Err(InvalidSelector(format!("unable to parse requirement {key} {operator}: {why}")));
        let test = match (operator, values.is_empty()) {
            ("In", false) => Test::In(values),
            ("NotIn", false) => Test::NotIn(values),
            ("In" | "NotIn", true) => return fail("must have values"),
            ("Exists", true) => Test::Exists,
            ("DoesNotExist", true) => Test::DoesNotExist,
            ("Exists" | "DoesNotExist", false) => return fail("may not have values"),
            _ => return fail("is not a valid label selector operator"),
        };
        self.requirements.push(Requirement { key: key.into(), test });
        self.requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(())
    }

    /// Returns the key of each requirement, with the values of `In` and `NotIn`.
    pub fn terms(&self) -> impl Iterator<Item = (&str, &[ArcStr])> {
        self.requirements.iter().map(|Requirement { key, test }| match test {
            Test::In(values) | Test::NotIn(values) => (key.as_str(), &values[..]),
            _ => (key.as_str(), &[][..]),
        })
    }

    /// A label that every selected object has, with its value. An index of selectors by this label finds those that may
    /// select an object by the object's labels. `None` if the selector demands no single value of any label.
    ///
    /// If there are several such labels, returns the one with the longest value, which is likely to be the rarest: a hash or
    /// a uid, not the name of an application.
    pub fn demanded_label(&self) -> Option<(&str, &ArcStr)> {
        let single = self.requirements.iter().filter_map(|requirement| match &requirement.test {
            Test::In(values) => match &values[..] {
                [value] => Some((requirement.key.as_str(), value)),
                _ => None,
            },
            _ => None,
        });
        single.max_by(|a, b| a.1.len().cmp(&b.1.len()).then(b.0.cmp(a.0)))
    }

    /// Whether the selector has no requirements, so that it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the selector selects an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_with(|key| labels.get(key).map(ArcStr::as_str))
    }

    /// Whether the selector selects the object whose labels `get` looks up.
    pub fn matches_with<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = get(&requirement.key);
            let number = || value.and_then(|v| v.parse::<i64>().ok());
            match &requirement.test {
                Test::In(values) => value.is_some_and(|v| values.iter().any(|x| x == v)),
                Test::NotIn(values) => value.is_none_or(|v| !values.iter().any(|x| x == v)),
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
                Test::GreaterThan(bound) => number().is_some_and(|n| n > *bound),
                Test::LessThan(bound) => number().is_some_and(|n| n < *bound),
            }
        })
    }
}

/// Parses the form of the query parameter `labelSelector`: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
impl FromStr for LabelSelector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::label_selector(text).map(|requirements| Self { requirements })
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Requirement { key, test }) in self.requirements.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0])?,
                Test::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Test::Exists => f.write_str(key)?,
                Test::DoesNotExist => write!(f, "!{key}")?,
                Test::GreaterThan(bound) => write!(f, "{key}>{bound}")?,
                Test::LessThan(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

/// A field selector: `spec.nodeName=a,status.phase!=Failed`. The API server decides which fields of a kind it supports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

/// One term of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field, such as `spec.nodeName`.
    pub field: String,
    /// The value that the field must have, or must not have.
    pub value: String,
    /// True for `=` and `==`, false for `!=`.
    pub equal: bool,
}

impl FieldSelector {
    /// Selects the objects with this name.
    pub fn name(name: &str) -> Self {
        Self::equal("metadata.name", name)
    }

    /// Selects the objects whose field has this value.
    pub fn equal(field: &str, value: &str) -> Self {
        Self { terms: vec![FieldTerm { field: field.to_owned(), value: value.to_owned(), equal: true }] }
    }

    /// The terms. An object must meet all of them.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Whether the selector has no requirements, so that it selects everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether the selector selects the object whose fields `get` looks up. `get` returns the empty text for a missing
    /// field.
    pub fn matches_with<T: AsRef<str>>(&self, get: impl Fn(&str) -> T) -> bool {
        self.terms.iter().all(|term| (get(&term.field).as_ref() == term.value) == term.equal)
    }
}

impl FromStr for FieldSelector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut terms = Vec::new();
        for part in split_unescaped(text) {
            if part.is_empty() {
                continue;
            }
            let at = part.find('=').ok_or_else(|| {
                InvalidSelector(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            let (field, equal) = match part[..at].strip_suffix('!') {
                Some(field) => (field, false),
                None => (&part[..at], true),
            };
            let value = &part[at + 1..];
            let value = if equal { value.strip_prefix('=').unwrap_or(value) } else { value };
            let value = unescape(value).map_err(|sequence| {
                InvalidSelector(format!("invalid field selector: invalid escape sequence: {sequence}"))
            })?;
            terms.push(FieldTerm { field: field.to_owned(), value, equal });
        }
        Ok(Self { terms })
    }
}

fn split_unescaped(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    })
}

/// Removes the backslashes before commas, equals signs and backslashes. Fails with any other escape sequence.
fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => escaped,
                Some(other) => return Err(format!("\\{other}")),
                None => return Err("\\".to_owned()),
            },
            c => c,
        });
    }
    Ok(out)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, term) in self.terms.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let operator = if term.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}", term.field)?;
            for c in term.value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&'static str, &'static str)]) -> bool {
        selector.parse::<LabelSelector>().unwrap().matches(&labels.iter().copied().collect())
    }

    #[test]
    fn a_demanded_label_is_one_that_every_selected_object_has() {
        for (selector, expected) in [
            ("", None),
            ("app=web", Some(("app", "web"))),
            ("app=web,pod-template-hash=6c5f67b5f7", Some(("pod-template-hash", "6c5f67b5f7"))),
            ("app in (web)", Some(("app", "web"))),
            ("app in (web,db)", None),
            ("app,!tier", None),
            ("tier notin (frontend)", None),
            ("app=web,tier notin (frontend)", Some(("app", "web"))),
        ] {
            let parsed: LabelSelector = selector.parse().unwrap();
            let demanded = parsed.demanded_label().map(|(key, value)| (key, value.as_str()));
            assert_eq!(demanded, expected, "{selector}");
        }
    }

    #[test]
    fn each_operator_selects_as_upstreams() {
        for (selector, labels, expected) in [
            ("", &[][..], true),
            ("a=b", &[("a", "b")], true),
            ("a==b", &[("a", "c")], false),
            ("a!=b", &[], true),
            ("a!=b", &[("a", "b")], false),
            ("a in (b, c),d", &[("a", "c"), ("d", "")], true),
            ("a in (b,c),d", &[("a", "c")], false),
            ("a notin (b)", &[], true),
            ("!a", &[("a", "")], false),
            ("a>1", &[("a", "2")], true),
            ("a<1", &[("a", "x")], false),
            ("a in (,b)", &[("a", "")], true),
            ("a in ()", &[("a", "")], true),
            ("a in (in)", &[("a", "in")], true),
            ("a  =  b", &[("a", "b")], true),
            ("a=", &[("a", "")], true),
            ("a=", &[], false),
        ] {
            assert_eq!(selects(selector, labels), expected, "{selector} of {labels:?}");
        }
    }

    #[test]
    fn a_selector_reads_back_as_it_was_written() {
        for text in ["a=b,c in (d,e),f notin (g),h,!i,j>1,k<2", ""] {
            assert_eq!(text.parse::<LabelSelector>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_wrong_selector_is_told_what_was_expected() {
        for (text, expected) in [
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("=b", "found '=', expected: !, identifier, or 'end of string'"),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in (b)c", "found 'c', expected: ',' or 'end of string'"),
            ("a of (b)", "unable to parse requirement: found 'of', expected: in, notin, =, ==, !=, gt, lt"),
            ("x=a b", "found 'b', expected: ',' or 'end of string'"),
            ("!,", "unable to parse requirement: found ',', expected: identifier"),
        ] {
            assert_eq!(text.parse::<LabelSelector>().unwrap_err().to_string(), expected, "{text}");
        }
        assert!("a>x".parse::<LabelSelector>().is_err());
    }

    #[test]
    fn expressions_need_the_values_their_operator_wants() {
        let mut selector = LabelSelector::everything();
        assert!(selector.require("a", "In", []).is_err());
        assert!(selector.require("a", "Exists", ["b"]).is_err());
        assert!(selector.require("a", "Like", ["b"]).is_err());
        selector.require("a", "NotIn", ["b"]).unwrap();
        assert_eq!(selector.to_string(), "a notin (b)");
    }

    #[test]
    fn field_selectors_escape_and_compare() {
        let selector: FieldSelector = r"spec.nodeName=a\,b,status.phase!=Failed".parse().unwrap();
        assert_eq!(selector.to_string(), r"spec.nodeName=a\,b,status.phase!=Failed");
        assert!(selector.matches_with(|f| if f == "spec.nodeName" { "a,b" } else { "Running" }));
        assert!(!selector.matches_with(|f| if f == "spec.nodeName" { "a,b" } else { "Failed" }));
        assert!("spec.nodeName".parse::<FieldSelector>().is_err());
        assert!(r"a=\b".parse::<FieldSelector>().is_err());
    }
}
