//! What was asked of the server.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::calls::Calls;
use crate::rest::{Call, Request, Verb};

/// One request to a resource that was served.
#[derive(Clone)]
pub struct Recorded {
    /// What it wanted.
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural, such as `pods`.
    pub resource: String,
    /// Such as `status`; empty for the objects themselves.
    pub subresource: String,
    /// Empty for all namespaces and for cluster-scoped resources.
    pub namespace: String,
    /// Empty where the request names no object. A create is recorded under the name in its body.
    pub name: String,
    /// The client's own word.
    pub user_agent: String,
    /// As sent.
    pub body: Bytes,
    /// The HTTP code of the answer.
    pub code: u16,
    call: Call,
}

impl Recorded {
    /// Whether the pattern fits it.
    pub fn fits(&self, calls: &Calls) -> bool {
        calls.fit(&self.call, &self.user_agent)
    }
}

impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        for part in [&self.subresource, &self.namespace, &self.name] {
            if !part.is_empty() {
                write!(f, "/{part}")?;
            }
        }
        write!(f, " -> {}", self.code)
    }
}

/// Collects requests from when it was made until it is dropped.
pub struct Recording {
    requests: Arc<Mutex<Vec<Recorded>>>,
}

impl Recording {
    /// All so far, in the order in which they were answered. A watch counts as answered when it begins.
    pub fn requests(&self) -> Vec<Recorded> {
        self.requests.lock().clone()
    }

    /// Those so far that fit.
    pub fn matching(&self, calls: &Calls) -> Vec<Recorded> {
        self.requests.lock().iter().filter(|request| request.fits(calls)).cloned().collect()
    }

    /// How many so far fit.
    pub fn count(&self, calls: &Calls) -> usize {
        self.requests.lock().iter().filter(|request| request.fits(calls)).count()
    }

    /// All writes so far, in the order in which they were answered.
    pub fn writes(&self) -> Vec<Recorded> {
        self.requests.lock().iter().filter(|request| request.verb.is_write()).cloned().collect()
    }

    /// Forgets what was recorded so far.
    pub fn clear(&self) {
        self.requests.lock().clear();
    }
}

/// The recordings under way.
#[derive(Default)]
pub(crate) struct Recorder {
    recordings: Mutex<Vec<Weak<Mutex<Vec<Recorded>>>>>,
}

impl Recorder {
    /// Begins one.
    pub(crate) fn start(&self) -> Recording {
        let requests = Arc::default();
        self.recordings.lock().push(Arc::downgrade(&requests));
        Recording { requests }
    }

    /// Whether anybody records.
    pub(crate) fn is_on(&self) -> bool {
        self.recordings.lock().iter().any(|recording| recording.strong_count() > 0)
    }

    /// Adds a request to all recordings.
    pub(crate) fn record(&self, request: &Request, name: &str, code: u16) {
        let mut recordings = self.recordings.lock();
        recordings.retain(|recording| recording.strong_count() > 0);
        for recording in recordings.iter().filter_map(Weak::upgrade) {
            let call = Call { name: name.to_owned(), ..request.call.clone() };
            recording.lock().push(Recorded {
                verb: call.verb,
                group: call.resource.group.to_string(),
                resource: call.resource.plural.to_string(),
                subresource: call.subresource.clone(),
                namespace: call.namespace.clone(),
                name: call.name.clone(),
                user_agent: request.user_agent().to_owned(),
                body: request.body.clone(),
                code,
                call,
            });
        }
    }
}
