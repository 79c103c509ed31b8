//! What must hold at every moment, and the story of how it came to be otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use http::request::Parts;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use steersman_api::{GroupVersionResource, ObjectKey};
use tokio::time::Instant;

use crate::api_server::Address;
use crate::process::LEASE;

/// Watches over a run.
pub(crate) struct Invariants {
    server: Address,
    /// Whether requests are part of the story.
    tells_requests: bool,
    began: Instant,
    story: Mutex<Vec<String>>,
    broken: Mutex<Vec<String>>,
    pods: Mutex<Pods>,
    /// How many writes were looked at.
    writes: AtomicUsize,
    /// The latest version of an object that was seen.
    latest: AtomicU64,
}

/// The pods of Indexed Jobs.
#[derive(Default)]
struct Pods {
    /// Those that are neither being deleted nor finished, by their uids.
    active: BTreeMap<String, Index>,
    succeeded: BTreeMap<Index, BTreeSet<String>>,
}

/// The Job's uid, and the index.
type Index = (String, String);

impl Invariants {
    pub(crate) fn new(server: Address, tells_requests: bool) -> Self {
        Self {
            server,
            tells_requests,
            began: Instant::now(),
            story: Mutex::default(),
            broken: Mutex::default(),
            pods: Mutex::default(),
            writes: AtomicUsize::new(0),
            latest: AtomicU64::new(0),
        }
    }

    /// Tells what happens, for the story.
    pub(crate) fn tell(&self, what: impl std::fmt::Display) {
        self.story.lock().push(format!("{:>8.3} s  {what}", self.began.elapsed().as_secs_f64()));
    }

    /// Tells of a request and its answer, where it is part of the story.
    pub(crate) fn trace(&self, process: &str, request: &Parts, answer: Option<StatusCode>) {
        if self.tells_requests {
            let (method, uri) = (&request.method, &request.uri);
            self.tell(format_args!("{process}: {method} {uri}: {answer:?}"));
        }
    }

    fn break_with(&self, what: impl std::fmt::Display) {
        self.tell(format_args!("BROKEN: {what}"));
        self.broken.lock().push(what.to_string());
    }

    /// What was broken.
    pub(crate) fn broken(&self) -> Vec<String> {
        self.broken.lock().clone()
    }

    /// All that happened, a line each.
    pub(crate) fn story(&self) -> String {
        self.story.lock().iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{line}");
            text
        })
    }

    /// Leases and events may be written by everybody, and everybody may ask for tokens and reviews; the rest is written by who leads.
    pub(crate) fn check_write(&self, process: &str, request: &Parts) {
        let path = request.uri.path();
        let is_free =
            ["/leases", "/events", "accessreviews", "/token"].iter().any(|part| path.contains(part));
        if is_free || matches!(request.method, Method::GET | Method::HEAD) {
            return;
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
        let lease = GroupVersionResource::new("coordination.k8s.io", "v1", "leases");
        let lease = self.server.server().peek(&lease, &ObjectKey::new(LEASE.0, LEASE.1)).unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if holder != process {
            self.break_with(format_args!(
                "{process} writes while {holder:?} leads: {} {path}",
                request.method
            ));
        }
    }

    /// Whether there was anything to look at: writes, and pods of Indexed Jobs.
    pub(crate) fn have_seen_something(&self) -> bool {
        self.writes.load(Ordering::Relaxed) > 0 && !self.pods.lock().succeeded.is_empty()
    }

    /// Somebody was told of this state of an object.
    pub(crate) fn see(&self, object: &Value) {
        let version = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        self.latest.fetch_max(version.unwrap_or_default(), Ordering::Relaxed);
    }

    /// The latest version that somebody was told of: no earlier one may be lost.
    pub(crate) fn latest_version(&self) -> u64 {
        self.latest.load(Ordering::Relaxed)
    }

    /// There are no other pods than these, by their uids.
    pub(crate) fn see_only(&self, uids: &BTreeSet<String>) {
        self.pods.lock().active.retain(|uid, _| uids.contains(uid));
    }

    /// No index runs twice at the same time, and none succeeds twice.
    pub(crate) fn see_pod(&self, pod: &Value, exists: bool) {
        self.see(pod);
        let meta = &pod["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let Some(number) = meta["annotations"]["batch.kubernetes.io/job-completion-index"].as_str() else {
            return;
        };
        let (name, uid) = (text(&meta["name"]), text(&meta["uid"]));
        let index = (text(&meta["ownerReferences"][0]["uid"]), number.to_owned());
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        let has_ended = matches!(phase, "Succeeded" | "Failed");
        let mut pods = self.pods.lock();
        if phase == "Succeeded" {
            let succeeded = pods.succeeded.entry(index.clone()).or_default();
            if succeeded.insert(uid.clone()) && succeeded.len() > 1 {
                self.break_with(format_args!("index {number} succeeds once more, in {name}"));
            }
        }
        if !exists || has_ended || !meta["deletionTimestamp"].is_null() {
            pods.active.remove(&uid);
            return;
        }
        if pods.active.insert(uid, index.clone()).is_none() {
            let running = pods.active.values().filter(|other| **other == index).count();
            if running > 1 {
                self.break_with(format_args!(
                    "index {number} runs {running} times at once, in {name} as well"
                ));
            }
        }
    }
}
