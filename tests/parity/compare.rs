//! What is different in two answers.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::run::Answer;
use crate::script::Step;

/// The headers that clients read.
const HEADERS: [&str; 6] = ["content-type", "warning", "retry-after", "location", "allow", "cache-control"];

/// One thing that is not the same.
#[derive(Debug)]
pub struct Difference {
    /// Where: `code`, `header.warning`, `body.metadata.name`.
    pub at: String,
    theirs: Option<Value>,
    ours: Option<Value>,
}

impl Difference {
    /// For people; empty where nothing differs.
    pub fn report(script: &str, step: &Step, differences: &[Self]) -> String {
        let mut text = String::new();
        if differences.is_empty() {
            return text;
        }
        let path: String = step.path.chars().take(200).collect();
        let body: String = step.body.chars().take(300).collect();
        writeln!(text, "{script}: {}\n  {} {path} {body}", step.title, step.method).unwrap();
        // Where one refuses and the other does not, the bodies have nothing in common.
        let codes_differ = differences.iter().any(|difference| difference.at == "code");
        let told = |at: &str| !codes_differ || matches!(at, "code" | "body" | "body.message");
        for Self { at, theirs, ours } in differences.iter().filter(|difference| told(&difference.at)) {
            let shown = |side: &Option<Value>| side.as_ref().map_or_else(|| "absent".to_owned(), short);
            writeln!(text, "    {at}\n      real: {}\n      ours: {}", shown(theirs), shown(ours)).unwrap();
        }
        text
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 700 {
        return text;
    }
    text.chars().take(700).chain("...".chars()).collect()
}

/// What stands for what: a uid of the one server for a uid of the other, and versions in the same order.
#[derive(Default)]
pub struct Pairs {
    uids: HashMap<String, String>,
    versions: Vec<(u64, u64)>,
}

impl Pairs {
    /// In what the answers of one step differ; earlier steps have said what stands for what.
    pub fn differences(&mut self, theirs: &Answer, ours: &Answer) -> Vec<Difference> {
        let mut found = Vec::new();
        self.compare("", &as_value(theirs), &as_value(ours), &mut found);
        found
    }

    /// Whether two texts are the same, uids and versions aside.
    fn same_text(&mut self, theirs: &str, ours: &str) -> bool {
        let (theirs, ours) = (parts(theirs), parts(ours));
        theirs.len() == ours.len()
            && theirs.iter().zip(&ours).all(|pair| match pair {
                (Part::Text(theirs), Part::Text(ours)) => theirs == ours,
                (Part::Uid(theirs), Part::Uid(ours)) => {
                    let known = self.uids.entry((*theirs).to_owned()).or_insert_with(|| (*ours).to_owned());
                    known == ours
                }
                (Part::Version(theirs), Part::Version(ours)) => {
                    let fits = self.versions.iter().all(|(a, b)| a.cmp(theirs) == b.cmp(ours));
                    self.versions.push((*theirs, *ours));
                    fits
                }
                _ => false,
            })
    }
}

/// A piece of a masked text.
enum Part<'a> {
    Text(&'a str),
    Uid(&'a str),
    Version(u64),
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let pieces = text.split_inclusive('>').flat_map(|piece| {
        let start = piece.rfind('<').unwrap_or(piece.len());
        [&piece[..start], &piece[start..]]
    });
    let pieces = pieces.map(|piece| {
        let masked = |name: &str| piece.strip_prefix(name).and_then(|rest| rest.strip_suffix('>'));
        match (masked("<uid "), masked("<version ").and_then(|version| version.parse().ok())) {
            (Some(uid), _) => Part::Uid(uid),
            (_, Some(version)) => Part::Version(version),
            _ => Part::Text(piece),
        }
    });
    pieces.collect()
}

fn as_value(answer: &Answer) -> Value {
    let mut headers = Map::new();
    for name in HEADERS {
        let values: Vec<Value> =
            answer.headers.get_all(name).iter().map(|value| value.to_str().unwrap().into()).collect();
        if !values.is_empty() {
            headers.insert(name.to_owned(), Value::Array(values));
        }
    }
    serde_json::json!({"code": answer.code, "header": headers, "body": answer.body})
}

impl Pairs {
    fn compare(&mut self, at: &str, theirs: &Value, ours: &Value, found: &mut Vec<Difference>) {
        match (theirs, ours) {
            (Value::Object(theirs), Value::Object(ours)) => {
                let mut names: Vec<&String> = theirs.keys().chain(ours.keys()).collect();
                names.sort();
                names.dedup();
                for name in names {
                    let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                    match (theirs.get(name), ours.get(name)) {
                        (Some(theirs), Some(ours)) => self.compare(&at, theirs, ours, found),
                        (theirs, ours) => {
                            found.push(Difference { at, theirs: theirs.cloned(), ours: ours.cloned() });
                        }
                    }
                }
            }
            (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
                for (index, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
                    self.compare(&format!("{at}.{index}"), theirs, ours, found);
                }
            }
            (Value::String(theirs), Value::String(ours)) if self.same_text(theirs, ours) => {}
            (theirs, ours) if theirs == ours && !theirs.is_string() => {}
            (theirs, ours) => found.push(Difference {
                at: at.to_owned(),
                theirs: Some(theirs.clone()),
                ours: Some(ours.clone()),
            }),
        }
    }
}
