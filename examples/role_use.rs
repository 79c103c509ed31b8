//! Compares the rights of the manifests with what managers did: reads the audit logs of API servers on which the integration tests
//! ran under the ClusterRole of the manifests, and names each request that was forbidden and each right that no request needed:
//!
//!     STEERSMAN_TEST_AUDIT=/tmp/audit KUBEBUILDER_ASSETS=... cargo test --test '*'
//!     cargo run --example role_use -- /tmp/audit
//!
//! The code is 1 if a request was forbidden. Some rights stay unused for good reasons, such as those to `finalizers`, which only
//! some admission plugins ask for; and an API server that has just been restarted forbids everything until it has read its roles.
#![expect(clippy::print_stdout, reason = "a command's result belongs there")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::ExitCode;

use serde::Deserialize;

const USER: &str = "system:serviceaccount:kube-system:steersman-controller-manager";

/// Verbs that no request has: the API server asks for them while it handles another request.
const ASKED_BY_THE_SERVER: &[&str] = &["approve", "attest", "bind", "escalate", "sign"];

/// A right: the API group, the resource with its subresource, and the verb.
type Right<'a> = (&'a str, &'a str, &'a str);
type OwnedRight = (String, String, String);

/// An `audit.k8s.io/v1` Event, as far as it is read.
#[derive(Deserialize)]
struct Request {
    user: User,
    verb: String,
    #[serde(rename = "requestURI")]
    uri: String,
    #[serde(rename = "objectRef", default)]
    object: Object,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
struct Object {
    #[serde(rename = "apiGroup", default)]
    group: String,
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
}

impl Request {
    fn right(&self) -> OwnedRight {
        let Object { group, resource, subresource } = &self.object;
        let slash = if subresource.is_empty() { "" } else { "/" };
        (group.clone(), format!("{resource}{slash}{subresource}"), self.verb.clone())
    }
}

/// What the managers did.
#[derive(Default)]
struct Use {
    requests: usize,
    used: BTreeSet<OwnedRight>,
    /// Each with one example of a path.
    forbidden: BTreeMap<OwnedRight, String>,
}

impl Use {
    fn read(folder: &str) -> Result<Self, Box<dyn Error>> {
        let mut all = Self::default();
        for entry in std::fs::read_dir(folder)? {
            for line in BufReader::new(std::fs::File::open(entry?.path())?).lines() {
                let line = line?;
                // Most requests are the tests' own. The last line of a killed server may be incomplete.
                if line.contains(USER)
                    && let Ok(request) = serde_json::from_str::<Request>(&line)
                {
                    all.add(request);
                }
            }
        }
        Ok(all)
    }

    fn add(&mut self, request: Request) {
        if request.user.username != USER {
            return;
        }
        self.requests += 1;
        let forbidden =
            request.annotations.get("authorization.k8s.io/decision").is_some_and(|it| it == "forbid");
        if forbidden {
            self.forbidden.insert(request.right(), request.uri);
        } else {
            self.used.insert(request.right());
        }
    }

    fn includes(&self, (group, resource, verb): Right<'_>) -> bool {
        self.used.contains(&(group.to_owned(), resource.to_owned(), verb.to_owned()))
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("the folder with the audit logs must be named")?;
    let all = Use::read(&folder)?;
    println!("{} requests of managers, {} rights used", all.requests, all.used.len());
    if all.requests == 0 {
        return Err("no manager under the role of the manifests made a request".into());
    }

    for ((group, resource, verb), path) in &all.forbidden {
        println!("forbidden: {verb} {resource} of \"{group}\", such as {path}");
    }
    let mut unused = 0;
    for ((group, resource, verb), controllers) in granted() {
        if all.includes((group, resource, verb)) {
            continue;
        }
        let reason = if [group, resource, verb].iter().any(|part| part.contains('*')) {
            "for kinds known at run time"
        } else if ASKED_BY_THE_SERVER.contains(&verb) {
            "asked by the API server itself"
        } else {
            unused += 1;
            "not used"
        };
        println!("granted: {verb} {resource} of \"{group}\" for {controllers}: {reason}");
    }
    println!("{} forbidden, {unused} granted and not used", all.forbidden.len());
    Ok(if all.forbidden.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Each right of the ClusterRole, with the controllers that declare it.
fn granted() -> BTreeMap<Right<'static>, String> {
    let mut granted = BTreeMap::<Right<'static>, String>::new();
    let registry = steersman_controllers::builtin();
    for row in registry.rows().iter().filter(|row| row.is_here()) {
        for rule in row.rules {
            for &group in rule.groups {
                for &resource in rule.resources {
                    for &verb in rule.verbs {
                        let controllers = granted.entry((group, resource, verb)).or_default();
                        if !controllers.is_empty() {
                            controllers.push_str(", ");
                        }
                        controllers.push_str(row.name);
                    }
                }
            }
        }
    }
    granted
}
