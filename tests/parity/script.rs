//! What is sent: scripts in the manner of `.http` files.
//!
//! ```text
//! # A comment.
//! ### The title of a step
//! POST {{core}}/configmaps?dryRun=All
//! Accept: protobuf
//! @version = metadata.resourceVersion
//!
//! {"metadata": {"name": "a"}}
//! ```
//!
//! The first line says method and path. `MERGE`, `STRATEGIC`, `JSONPATCH` and `APPLY` are patches of that type. With `& ` before it,
//! the request is a watch that goes on beside the steps after it. Headers follow; `json` and `protobuf` stand for their
//! media types (a protobuf body is written as JSON here). `@name = path` keeps a part of the answer as `{{name}}` for later
//! steps, `@events 3` ends a watch after three events, `@until 200`
//! asks again until that is the code: caches of the real server may be a little behind. A body follows an empty line.
//!
//! `{{ns}}` is the script's namespace, `{{core}}`, `{{apps}}`, `{{batch}}` ... the paths of groups in it; `{{times 3 ab}}` is `ababab` (with `%7D` for a
//! closing brace), `{{bytes ff00}}` is those bytes.

use std::collections::HashMap;

/// A file of steps.
pub struct Script {
    pub namespace: String,
    pub steps: Vec<Step>,
}

/// One request.
#[derive(Debug, Default)]
pub struct Step {
    pub title: String,
    /// It goes on while later steps are taken.
    pub beside: bool,
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    /// Parts of the answer that are kept: name and path.
    pub kept: Vec<(String, String)>,
    /// After so many events a watch is given up.
    pub events: Option<usize>,
    /// It is asked again until this is the code of the answer.
    pub until: Option<u16>,
    pub body: String,
}

impl Script {
    /// # Panics
    /// Where a step makes no sense.
    pub fn parse(name: &str, text: &str) -> Self {
        let mut steps: Vec<Step> = text.split("\n### ").skip(1).map(Step::parse).collect();
        for step in &mut steps {
            step.title = step.title.trim().to_owned();
        }
        let mut titles: Vec<&str> = steps.iter().map(|step| step.title.as_str()).collect();
        titles.sort_unstable();
        let twice = titles.windows(2).find(|pair| pair[0] == pair[1]);
        assert!(twice.is_none(), "{name}: two steps of one title: {twice:?}");
        Self { namespace: format!("parity-{}", name.replace('_', "-")), steps }
    }
}

impl Step {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
        let mut lines = head.lines().filter(|line| !line.starts_with("# "));
        let title = lines.next().unwrap_or_default().to_owned();
        let mut request = lines.next().unwrap_or_else(|| panic!("{title}: no request"));
        let beside = request.starts_with("& ");
        request = request.trim_start_matches("& ");
        let (method, path) = request.split_once(' ').unwrap_or_else(|| panic!("{title}: no path"));
        let body: Vec<&str> = body.lines().filter(|line| !line.starts_with("# ")).collect();
        let mut step = Self {
            title,
            beside,
            path: path.to_owned(),
            body: body.join("\n").trim().to_owned(),
            ..Self::default()
        };
        let patch_type = match method {
            "MERGE" => Some("application/merge-patch+json"),
            "STRATEGIC" => Some("application/strategic-merge-patch+json"),
            "JSONPATCH" => Some("application/json-patch+json"),
            "APPLY" => Some("application/apply-patch+yaml"),
            _ => None,
        };
        step.method = if patch_type.is_some() { "PATCH".to_owned() } else { method.to_owned() };
        step.headers.extend(patch_type.map(|patch| ("Content-Type".to_owned(), patch.to_owned())));
        for line in lines {
            step.option(line);
        }
        for (name, value) in [("Accept", "json"), ("Content-Type", "json")] {
            if !step.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                step.headers.push((name.to_owned(), value.to_owned()));
            }
        }
        for (_, value) in &mut step.headers {
            let media_type = match value.as_str() {
                "json" => "application/json",
                "protobuf" => "application/vnd.kubernetes.protobuf",
                _ => continue,
            };
            media_type.clone_into(value);
        }
        step
    }

    fn option(&mut self, line: &str) {
        if let Some(count) = line.strip_prefix("@events ") {
            self.events = Some(count.parse().unwrap());
        } else if let Some(code) = line.strip_prefix("@until ") {
            self.until = Some(code.parse().unwrap());
        } else if let Some(kept) = line.strip_prefix('@') {
            let (name, path) = kept.split_once('=').unwrap_or_else(|| panic!("{}: {line}", self.title));
            self.kept.push((name.trim().to_owned(), path.trim().to_owned()));
        } else {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{}: {line}", self.title));
            self.headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }

    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    pub fn is_watch(&self) -> bool {
        let asked = self.path.contains("watch=") && !self.path.contains("watch=false");
        self.method == "GET" && (asked || self.path.contains("/watch/"))
    }
}

/// What stands for something else in a script.
pub struct Names {
    known: HashMap<String, String>,
}

impl Names {
    pub fn new(namespace: &str) -> Self {
        let mut known = HashMap::from([("ns".to_owned(), namespace.to_owned())]);
        known.insert("core".to_owned(), format!("/api/v1/namespaces/{namespace}"));
        for (name, group) in [
            ("apps", "apps/v1"),
            ("batch", "batch/v1"),
            ("autoscaling", "autoscaling/v2"),
            ("policy", "policy/v1"),
            ("discovery", "discovery.k8s.io/v1"),
            ("coordination", "coordination.k8s.io/v1"),
            ("networking", "networking.k8s.io/v1"),
            ("events", "events.k8s.io/v1"),
            ("rbac", "rbac.authorization.k8s.io/v1"),
        ] {
            known.insert(name.to_owned(), format!("/apis/{group}/namespaces/{namespace}"));
        }
        Self { known }
    }

    pub fn keep(&mut self, name: &str, value: String) {
        self.known.insert(name.to_owned(), value);
    }

    /// The text with every name in place.
    ///
    /// # Panics
    /// Where a name is unknown.
    pub fn fill(&self, text: &str) -> Vec<u8> {
        let mut filled = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}").unwrap_or_else(|| panic!("no end: {after}"));
            filled.extend_from_slice(before.as_bytes());
            let mut words = name.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some("times"), Some(count), Some(of)) => {
                    let of = of.replace("%7D", "}");
                    filled.extend_from_slice(of.repeat(count.parse().unwrap()).as_bytes());
                }
                (Some("bytes"), Some(hex), None) => {
                    let bytes = hex.as_bytes().chunks(2);
                    filled.extend(
                        bytes.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()),
                    );
                }
                (Some(name), None, None) => {
                    let value = self.known.get(name).unwrap_or_else(|| panic!("what is {name}?"));
                    filled.extend_from_slice(value.as_bytes());
                }
                _ => panic!("what is {name}?"),
            }
            rest = after;
        }
        filled.extend_from_slice(rest.as_bytes());
        filled
    }
}
