//! What can't be equal in two answers, made equal as far as it may be.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::run::Answer;
use crate::script::{Script, Step};

/// The answers of a whole script. Uids become numbers in the order in which they appear, versions of objects their rank:
/// the comparison still sees what is equal and what is newer.
pub fn mask(script: &Script, answers: Vec<Answer>) -> Vec<Answer> {
    let mut versions = BTreeSet::new();
    for answer in &answers {
        collect_versions(&answer.body, &mut versions);
    }
    let ranks = versions.into_iter().zip(1..).collect();
    let mut masks = Masks { ranks, uids: HashMap::new(), now: Timestamp::now() };
    let steps = script.steps.iter().zip(answers);
    steps.map(|(step, answer)| Answer { body: masks.body(step, answer.body), ..answer }).collect()
}

struct Masks {
    ranks: HashMap<u64, usize>,
    uids: HashMap<String, usize>,
    now: Timestamp,
}

/// Versions of objects; those of lists and bookmarks depend on what else the server does.
fn collect_versions(value: &Value, versions: &mut BTreeSet<u64>) {
    match value {
        Value::Object(members) if members.get("type").is_some_and(|kind| kind == "BOOKMARK") => {}
        Value::Object(members) => {
            let is_list = is_list(members);
            for (name, member) in members {
                match (name.as_str(), member) {
                    ("metadata", _) if is_list => {}
                    ("metadata", Value::Object(metadata)) => {
                        let version = metadata.get("resourceVersion").and_then(Value::as_str);
                        versions.extend(version.and_then(|version| version.parse::<u64>().ok()));
                    }
                    _ => collect_versions(member, versions),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_versions(item, versions)),
        _ => {}
    }
}

fn is_list(members: &Map<String, Value>) -> bool {
    let kind = members.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind == "Table" || kind.ends_with("List")
}

impl Masks {
    fn body(&mut self, step: &Step, mut body: Value) -> Value {
        // A list of a certain version must have just that; any other has the newest.
        let exact = step.path.contains("resourceVersionMatch=Exact");
        self.value(step, &mut body, if exact { Lists::Ranked } else { Lists::Newest });
        body
    }

    fn value(&mut self, step: &Step, value: &mut Value, lists: Lists) {
        match value {
            Value::Object(members) => {
                let is_bookmark = members.get("type").is_some_and(|kind| kind == "BOOKMARK");
                let lists = if is_bookmark { Lists::Bookmark } else { lists };
                let is_list = is_list(members) || is_bookmark;
                if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
                    let newest = is_list && lists == Lists::Newest || lists == Lists::Bookmark;
                    self.metadata(metadata, newest);
                }
                for (name, member) in members.iter_mut() {
                    let lists = if is_bookmark && name == "object" { Lists::Bookmark } else { lists };
                    self.member(step, name, member, lists);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(step, item, lists)),
            Value::String(text) => *text = without_generated(step, &self.text(text)),
            _ => {}
        }
    }

    fn metadata(&mut self, metadata: &mut Map<String, Value>, newest: bool) {
        let version = metadata.get("resourceVersion").and_then(Value::as_str).map(str::to_owned);
        if let Some(version) = version {
            let rank = version.parse().ok().and_then(|version| self.ranks.get(&version));
            let masked = match rank {
                _ if newest && version.parse::<u64>().is_ok() => "<newest>".to_owned(),
                Some(rank) => format!("<version {rank}>"),
                None => version,
            };
            metadata.insert("resourceVersion".to_owned(), masked.into());
        }
        // By the second of their writes first, which is not the same second at both.
        if let Some(Value::Array(entries)) = metadata.get_mut("managedFields") {
            let rank = |entry: &Value, member: &str| entry[member].as_str().unwrap_or_default().to_owned();
            entries.sort_by_key(|entry| {
                ["operation", "manager", "subresource"].map(|member| rank(entry, member))
            });
        }
        if let Some(token) = metadata.get("continue").and_then(Value::as_str) {
            let decoded = URL_SAFE_NO_PAD.decode(token).ok();
            let decoded = decoded.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            let Some(mut decoded) = decoded else { return };
            if decoded["rv"].as_i64().is_some_and(|version| version > 0) {
                decoded["rv"] = "<version>".into();
            }
            metadata.insert("continue".to_owned(), decoded);
        }
    }

    fn member(&mut self, step: &Step, name: &str, member: &mut Value, lists: Lists) {
        let address = |value: &Value| value.as_str().is_some_and(|text| text.parse::<IpAddr>().is_ok());
        match name {
            "clusterIP" if address(member) && !step.body.contains(member.as_str().unwrap_or_default()) => {
                *member = "<address>".into();
            }
            "clusterIPs" if !step.body.contains("clusterIP") => {
                for item in member.as_array_mut().into_iter().flatten().filter(|item| address(item)) {
                    *item = "<address>".into();
                }
            }
            "nodePort" | "healthCheckNodePort"
                if member.as_i64().is_some_and(|port| !step.body.contains(&port.to_string())) =>
            {
                *member = "<port>".into();
            }
            _ => self.value(step, member, lists),
        }
    }

    /// A text with its uids and its time masked.
    fn text(&mut self, text: &str) -> String {
        if let Ok(time) = text.parse::<Timestamp>() {
            let age = self.now.as_second() - time.as_second();
            let fraction = if text.contains('.') { "precise " } else { "" };
            // Times that a script names lie far from now.
            return if age.abs() < 7200 { format!("<{fraction}time>") } else { text.to_owned() };
        }
        let mut masked = String::new();
        let mut rest = text;
        while let Some(found) = (0..rest.len()).find(|start| is_uuid_at(rest, *start)) {
            let (before, after) = rest.split_at(found);
            let (uid, after) = after.split_at(36);
            let next = self.uids.len() + 1;
            let number = self.uids.entry(uid.to_owned()).or_insert(next);
            masked += &format!("{before}<uid {number}>");
            rest = after;
        }
        masked += rest;
        for lead in [", current: ", "ResourceVersion in record ("] {
            if let Some((before, after)) = masked.split_once(lead) {
                let rest = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
                masked = format!("{before}{lead}<version>{rest}");
            }
        }
        masked
    }
}

/// A text without the five letters that a server adds to `generateName`.
fn without_generated(step: &Step, text: &str) -> String {
    let Some((_, rest)) = step.body.split_once("\"generateName\": \"") else { return text.to_owned() };
    let base = rest.split('"').next().unwrap_or_default();
    // A longer base is cut to fit; scripts repeat a letter there.
    let base = if base.contains("{{") { "g".repeat(58) } else { base.to_owned() };
    let mut masked = String::new();
    let mut rest = text;
    while let Some(found) = rest.find(&base) {
        let (before, after) = rest.split_at(found + base.len());
        let added = after.get(..5).filter(|added| added.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        masked += before;
        if added.is_some() {
            masked += "<generated>";
        }
        rest = &after[added.map_or(0, str::len)..];
    }
    masked + rest
}

/// What the version of a list or a bookmark is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// Whatever the server has come to.
    Newest,
    /// One that an object has.
    Ranked,
    /// As `Newest`, of an object.
    Bookmark,
}

fn is_uuid_at(text: &str, start: usize) -> bool {
    let Some(uuid) = text.as_bytes().get(start..start + 36) else { return false };
    uuid.iter().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}
