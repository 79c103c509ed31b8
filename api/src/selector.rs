//! Label and field selectors: which objects are meant.

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

/// A selector that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse requirement {requirement:?}: {why}")]
pub struct InvalidSelector {
    /// The part that is wrong.
    pub requirement: String,
    /// What is wrong with it.
    pub why: &'static str,
}

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
        let values: Vec<ArcStr> = values.into_iter().map(ArcStr::from).collect();
        let fail = |why| Err(InvalidSelector { requirement: format!("{key} {operator}"), why });
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
        Ok(())
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
        let mut requirements = Vec::new();
        for part in split_outside_parentheses(text) {
            let part = part.trim();
            if part.is_empty() {
                if text.trim().is_empty() {
                    break;
                }
                return Err(InvalidSelector { requirement: text.to_owned(), why: "a requirement is empty" });
            }
            requirements.push(requirement(part)?);
        }
        Ok(Self { requirements })
    }
}

fn split_outside_parentheses(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

fn requirement(part: &str) -> Result<Requirement, InvalidSelector> {
    let fail = |why| InvalidSelector { requirement: part.to_owned(), why };
    let (key, test) = if let Some(key) = part.strip_prefix('!') {
        (key, Test::DoesNotExist)
    } else if let Some(open) = part.find('(') {
        let values = part[open + 1..].trim_end().strip_suffix(')').ok_or(fail("expected ')'"))?;
        let values = values.split(',').map(|v| ArcStr::from(v.trim())).collect();
        let mut words = part[..open].split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => (key, Test::In(values)),
            (Some(key), Some("notin"), None) => (key, Test::NotIn(values)),
            _ => return Err(fail("expected: 'in' or 'notin' before the values")),
        }
    } else if let Some((key, value)) = part.split_once("!=") {
        (key, Test::NotIn(vec![value.trim().into()]))
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (key, Test::In(vec![value.trim().into()]))
    } else if let Some((key, bound)) = part.split_once('>') {
        (
            key,
            Test::GreaterThan(
                bound.trim().parse().map_err(|_| fail("for 'Gt', 'Lt' the value must be an integer"))?,
            ),
        )
    } else if let Some((key, bound)) = part.split_once('<') {
        (
            key,
            Test::LessThan(
                bound.trim().parse().map_err(|_| fail("for 'Gt', 'Lt' the value must be an integer"))?,
            ),
        )
    } else {
        (part, Test::Exists)
    };
    let key = key.trim();
    if key.is_empty() || key.contains(|c: char| c.is_whitespace() || "=!<>(),".contains(c)) {
        return Err(fail("invalid label key"));
    }
    if let Test::In(values) | Test::NotIn(values) = &test
        && values
            .iter()
            .any(|v| v.len() > 63 || v.contains(|c: char| c.is_whitespace() || "=!<>(),".contains(c)))
    {
        return Err(fail("invalid label value"));
    }
    Ok(Requirement { key: key.into(), test })
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
    pub fn matches_with(&self, get: impl Fn(&str) -> String) -> bool {
        self.terms.iter().all(|term| (get(&term.field) == term.value) == term.equal)
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
            let fail = |why| InvalidSelector { requirement: part.to_owned(), why };
            let at = part.find('=').ok_or(fail("expected '=', '==' or '!='"))?;
            let (field, equal) = match part[..at].strip_suffix('!') {
                Some(field) => (field, false),
                None => (&part[..at], true),
            };
            let value = &part[at + 1..];
            let value = if equal { value.strip_prefix('=').unwrap_or(value) } else { value };
            let value =
                unescape(value).ok_or(fail("a backslash may only stand before ',', '=' or a backslash"))?;
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

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => chars.next().filter(|c| matches!(c, '\\' | ',' | '='))?,
            c => c,
        });
    }
    Some(out)
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
    fn a_wrong_selector_names_its_requirement() {
        for text in ["a in b", "=b", "a,,b", "a in (b", "a>x", "a b", "a of (b)", "x=a b"] {
            assert!(text.parse::<LabelSelector>().is_err(), "{text}");
        }
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
        assert!(selector.matches_with(|f| if f == "spec.nodeName" {
            "a,b".into()
        } else {
            "Running".into()
        }));
        assert!(!selector.matches_with(|f| if f == "spec.nodeName" {
            "a,b".into()
        } else {
            "Failed".into()
        }));
        assert!("spec.nodeName".parse::<FieldSelector>().is_err());
        assert!(r"a=\b".parse::<FieldSelector>().is_err());
    }
}
