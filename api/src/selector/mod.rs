//! Label and field selectors: which objects are meant.

mod parse;

use std::fmt;
use std::str::FromStr;

use arcstr::ArcStr;

use crate::meta::Labels;

/// A label selector: all of its requirements must hold.
///
/// The empty selector selects everything. An absent `metav1.LabelSelector` selects nothing; that is the caller's
/// `Option` to handle, as in upstream's `LabelSelectorAsSelector`.
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

/// A selector that can't be read: what is wrong with it, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSelector(String);

impl LabelSelector {
    /// Selects everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Each of these labels must have its value, as in a service's selector or `matchLabels`.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut selector = Self::default();
        for (key, value) in labels {
            selector.requirements.push(Requirement { key: key.into(), test: Test::In(vec![value.into()]) });
        }
        selector
    }

    /// Adds an entry of `matchExpressions`.
    ///
    /// # Errors
    /// An operator other than In, NotIn, Exists and DoesNotExist, or values where there must be none, or none where
    /// there must be some.
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

    /// The keys of its requirements, each with the values that it is compared with as texts.
    pub fn terms(&self) -> impl Iterator<Item = (&str, &[ArcStr])> {
        self.requirements.iter().map(|Requirement { key, test }| match test {
            Test::In(values) | Test::NotIn(values) => (key.as_str(), &values[..]),
            _ => (key.as_str(), &[][..]),
        })
    }

    /// Whether it selects whatever it is asked about.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object with these labels is meant.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_with(|key| labels.get(key).map(ArcStr::as_str))
    }

    /// Whether an object is meant whose labels `get` looks up.
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

/// As the `labelSelector` query parameter has it: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
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

/// A field selector: `spec.nodeName=a,status.phase!=Failed`. Which fields a kind can be selected by is the server's to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

/// One term of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// Such as `spec.nodeName`.
    pub field: String,
    /// What it must, or must not, be.
    pub value: String,
    /// True for `=` and `==`, false for `!=`.
    pub equal: bool,
}

impl FieldSelector {
    /// Objects of that name.
    pub fn name(name: &str) -> Self {
        Self::equal("metadata.name", name)
    }

    /// Objects whose field has that value.
    pub fn equal(field: &str, value: &str) -> Self {
        Self { terms: vec![FieldTerm { field: field.to_owned(), value: value.to_owned(), equal: true }] }
    }

    /// Its terms; all must hold.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Whether it selects whatever it is asked about.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether an object is meant whose fields `get` looks up (an absent field is the empty text).
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

/// A backslash may only stand before a comma, an equals sign or a backslash.
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
