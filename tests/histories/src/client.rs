//! A client that sends random requests.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ObjectList;
use kube::{Api, Resource, ResourceExt};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::history::{History, KEYS, Recorded, Seen, States};
use crate::register::{Act, Outcome};

/// One that calls the server, a call after the other. What it does is up to a seed and to what it has seen.
pub struct Client {
    number: usize,
    api: Api<ConfigMap>,
    history: Arc<History>,
    random: StdRng,
    /// What it saw last of each object.
    seen: [Option<Seen>; KEYS],
}

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a replacement is asked for.
#[derive(Clone, Copy)]
enum Way {
    Put,
    Patch,
}

/// What came of a call.
enum Answer {
    Known(Outcome, Option<Seen>),
    /// It was not done, and nothing was shown.
    Refused,
}

impl Client {
    /// Creates a client of the ConfigMaps in the client's namespace.
    pub fn new(number: usize, client: &kube::Client, history: Arc<History>, seed: u64) -> Self {
        let api = Api::default_namespaced(client.clone());
        let random = StdRng::seed_from_u64(seed ^ (number as u64) << 32);
        Self { number, api, history, random, seen: [None; KEYS] }
    }

    /// Makes one call. Now and then it does not wait for the answer.
    ///
    /// Returns whether there was an answer.
    pub async fn call(&mut self) -> bool {
        let is_impatient = self.random.random_ratio(1, 24);
        let patience = match is_impatient {
            true => Duration::from_micros(self.random.random_range(0..2000)),
            false => PATIENCE,
        };
        if self.random.random_ratio(1, 8) {
            return self.list(patience).await;
        }
        let key = self.random.random_range(0..KEYS);
        let (act, way) = self.choose(key);
        let began = self.history.moment();
        let answer = tokio::time::timeout(patience, self.ask(key, act, way)).await;
        let (outcome, seen) = match answer {
            Ok(Answer::Known(outcome, seen)) => (outcome, seen),
            Ok(Answer::Refused) => return true,
            Err(_) => {
                assert!(is_impatient, "{act:?} was not answered in {PATIENCE:?}");
                (Outcome::Unknown, None)
            }
        };
        if outcome == Outcome::Unknown && act == Act::Get {
            return false;
        }
        let ended = (outcome != Outcome::Unknown).then(|| self.history.moment());
        self.seen[key] = match (outcome, seen) {
            (Outcome::Missing, _) | (Outcome::Done, None) => None,
            (_, Some(seen)) => Some(seen),
            (_, None) => self.seen[key],
        };
        self.history.note(Recorded { client: self.number, key, began, ended, act, outcome, seen });
        outcome != Outcome::Unknown
    }

    fn choose(&mut self, key: usize) -> (Act, Way) {
        let value = self.history.moment();
        // What it has seen may not be so any more.
        let is_careful = self.random.random_ratio(2, 3);
        let expected = self.seen[key].map(|seen| seen.value).filter(|_| is_careful);
        let way = if self.random.random() { Way::Put } else { Way::Patch };
        let act = match self.random.random_range(0..10) {
            0 | 1 => Act::Create(value),
            2..=4 => Act::Replace { expected, value },
            5 => Act::Set(value),
            6 => Act::Delete { expected },
            _ => Act::Get,
        };
        (act, way)
    }

    async fn ask(&self, key: usize, act: Act, way: Way) -> Answer {
        let name = format!("object-{key}");
        let version =
            |expected: Option<u64>| expected.and(self.seen[key]).map(|seen| seen.version.to_string());
        let post = PostParams::default();
        let written = match (act, way) {
            (Act::Create(value), _) => self.api.create(&post, &object(&name, value, None)).await,
            (Act::Replace { expected, value }, Way::Put) => {
                self.api.replace(&name, &post, &object(&name, value, version(expected))).await
            }
            (Act::Replace { expected, value }, Way::Patch) => {
                let patch = Patch::Merge(manifest(&name, value, version(expected)));
                self.api.patch(&name, &PatchParams::default(), &patch).await
            }
            (Act::Set(value), _) => {
                let patch = Patch::Apply(manifest(&name, value, None));
                self.api.patch(&name, &PatchParams::apply("histories").force(), &patch).await
            }
            (Act::Delete { expected }, _) => {
                let preconditions = version(expected)
                    .map(|version| Preconditions { resource_version: Some(version), uid: None });
                let params = DeleteParams { preconditions, ..DeleteParams::default() };
                return match self.api.delete(&name, &params).await {
                    Ok(_) => Answer::Known(Outcome::Done, None),
                    Err(error) => failed(&error),
                };
            }
            (Act::Get, _) => {
                return match self.api.get(&name).await {
                    Ok(object) => {
                        let seen = seen_of(&object);
                        Answer::Known(Outcome::Is(seen.value), Some(seen))
                    }
                    Err(error) => failed(&error),
                };
            }
        };
        match written {
            Ok(object) => Answer::Known(Outcome::Done, Some(seen_of(&object))),
            Err(error) => match (failed(&error), act) {
                // The server gave up after others had overtaken it several times.
                (Answer::Known(Outcome::Conflict, _), Act::Set(_) | Act::Replace { expected: None, .. }) => {
                    Answer::Refused
                }
                (answer, _) => answer,
            },
        }
    }

    async fn list(&mut self, patience: Duration) -> bool {
        let began = self.history.moment();
        let listed = tokio::time::timeout(patience, self.api.list(&ListParams::default())).await;
        assert!(listed.is_ok() || patience < PATIENCE, "a list was not answered in {PATIENCE:?}");
        let Ok(Ok(listed)) = listed else { return false };
        let (version, states) = states_of(&listed);
        self.seen = std::array::from_fn(|key| states.get(&key).copied());
        self.history.note_list(self.number, began, version, states);
        true
    }
}

fn failed(error: &kube::Error) -> Answer {
    let kube::Error::Api(status) = error else { return Answer::Known(Outcome::Unknown, None) };
    let outcome = match (status.code, status.reason.as_str()) {
        (404, _) => Outcome::Missing,
        (409, "AlreadyExists") => Outcome::Exists,
        (409, "Conflict") => Outcome::Conflict,
        // A full disk.
        _ if status.message.contains("database space exceeded") => return Answer::Refused,
        _ => Outcome::Unknown,
    };
    Answer::Known(outcome, None)
}

fn manifest(name: &str, value: u64, version: Option<String>) -> Value {
    let mut manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name }, "data": { "value": value.to_string() },
    });
    if let Some(version) = version {
        manifest["metadata"]["resourceVersion"] = version.into();
    }
    manifest
}

fn object(name: &str, value: u64, version: Option<String>) -> ConfigMap {
    serde_json::from_value(manifest(name, value, version)).unwrap()
}

/// The number of an object that clients use.
pub(crate) fn key_of(object: &ConfigMap) -> Option<usize> {
    object.meta().name.as_deref()?.strip_prefix("object-")?.parse().ok()
}

pub(crate) fn version_of(object: &ConfigMap) -> u64 {
    object.resource_version().unwrap().parse().unwrap()
}

/// The state of an object that clients use.
pub(crate) fn seen_of(object: &ConfigMap) -> Seen {
    let value = object.data.as_ref().unwrap()["value"].parse().unwrap();
    Seen { version: version_of(object), value }
}

/// A list's version, and the objects that clients use.
pub(crate) fn states_of(list: &ObjectList<ConfigMap>) -> (u64, States) {
    let version = list.metadata.resource_version.as_deref().unwrap().parse().unwrap();
    (version, list.iter().filter_map(|object| Some((key_of(object)?, seen_of(object)))).collect())
}
