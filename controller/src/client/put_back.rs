//! Objects that are read in JSON, changed, and put back.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use steersman_api::{ObjectKey, ResourceVersion, Status, Uid};
use steersman_informer::wire::Kind;

use super::{Changed, Client, Subresource};
use crate::call::{Content, JSON};
use crate::controller::SyncError;

/// How many bytes of answers are kept at most.
const MOST: usize = 256 * 1024;

/// The answers to the last updates of objects of one kind, in JSON. Writers that share them need no read before an update of
/// an object whose newest state they have written themselves: a controller often writes an object and then its status.
///
/// Holds at most 256 KiB. The oldest answers go first.
#[derive(Debug, Default)]
pub struct LastAnswers(Mutex<Answers>);

#[derive(Debug, Default)]
struct Answers {
    /// The oldest comes first. At most one of each key.
    kept: VecDeque<Kept>,
    /// The length of all bodies.
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    key: ObjectKey,
    uid: Uid,
    version: ResourceVersion,
    body: Bytes,
}

impl LastAnswers {
    /// Forgets the answer about an object. Returns it if it shows the object in this version.
    fn take(&self, key: &ObjectKey, uid: &Uid, version: ResourceVersion) -> Option<Value> {
        let mut answers = self.0.lock();
        let at = answers.kept.iter().position(|kept| kept.key == *key)?;
        let kept = answers.kept.remove(at)?;
        answers.bytes -= kept.body.len();
        drop(answers);
        let is_it = kept.uid == *uid && kept.version == version;
        is_it.then(|| serde_json::from_slice(&kept.body).ok()).flatten()
    }

    fn put(&self, kept: Kept) {
        let mut answers = self.0.lock();
        answers.bytes += kept.body.len();
        answers.kept.push_back(kept);
        while answers.bytes > MOST {
            let Some(oldest) = answers.kept.pop_front() else { break };
            answers.bytes -= oldest.body.len();
        }
    }
}

/// The state of an object that a change was decided on.
pub(super) enum Base {
    /// The object in that state.
    Object(Value),
    Gone,
    /// The object is in another state.
    Conflict(Box<Status>),
}

impl Base {
    /// Compares the object that the API server has with the state that a change was decided on.
    pub(super) fn of(object: Option<Value>, uid: &Uid, version: ResourceVersion) -> Self {
        let Some(object) = object else { return Self::Gone };
        let (meta, wanted) = (&object["metadata"], version.to_string());
        if meta["uid"] == uid.to_string() && meta["resourceVersion"] == wanted {
            return Self::Object(object);
        }
        let found = meta["resourceVersion"].as_str().unwrap_or_default();
        let message = format!("the object has been modified: it has version {found}, not {wanted}");
        Self::Conflict(Status::failure(409, "Conflict", message).into())
    }
}

/// Reads objects and puts them back.
pub(super) struct PutBack<K> {
    client: Client<K>,
    answers: Option<Arc<LastAnswers>>,
}

impl<K: Kind> PutBack<K> {
    /// Reads each object before it is put back.
    pub(super) fn new(client: Client<K>) -> Self {
        Self { client, answers: None }
    }

    /// Reads an object only if these answers do not show it.
    pub(super) fn remember(&mut self, answers: &Arc<LastAnswers>) {
        self.answers = Some(Arc::clone(answers));
    }

    /// The state of an object that a change was decided on.
    pub(super) async fn base(
        &self,
        key: &ObjectKey,
        uid: &Uid,
        version: ResourceVersion,
    ) -> Result<Base, SyncError> {
        if let Some(known) = self.answers.as_ref().and_then(|answers| answers.take(key, uid, version)) {
            return Ok(Base::Object(known));
        }
        Ok(Base::of(self.client.resource().get_json(key).await?, uid, version))
    }

    /// Puts an object, or a part of it, back.
    pub(super) async fn put(
        &self,
        key: &ObjectKey,
        part: Subresource,
        object: &Value,
    ) -> Result<Changed<K>, SyncError> {
        let content = Content::json(JSON, object);
        let Some(answers) = &self.answers else { return self.client.update_part(key, part, content).await };
        let answer = self.client.resource().update_json(key, part, content).await;
        Changed::of(answer, |answer| {
            let object = self.client.decode(answer)?;
            let meta = object.meta();
            let (uid, version) = (meta.uid.clone(), meta.resource_version);
            answers.put(Kept { key: key.clone(), uid, version, body: answer.body().clone() });
            Ok(object)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(name: &str, version: u64, length: usize) -> Kept {
        let body = ["{}", &" ".repeat(length - 2)].concat().into();
        Kept { key: ObjectKey::cluster(name), uid: "u".into(), version: ResourceVersion(version), body }
    }

    #[test]
    fn an_answer_serves_one_write_of_the_version_that_it_shows() {
        let answers = LastAnswers::default();
        let take = |name: &str, uid: &str, version: u64| {
            answers.take(&ObjectKey::cluster(name), &uid.into(), ResourceVersion(version)).is_some()
        };
        answers.put(kept("a", 1, 10));
        assert!(!take("b", "u", 1), "another object");
        assert!(take("a", "u", 1));
        assert!(!take("a", "u", 1), "its version is past now");
        for (uid, version) in [("u", 2), ("other", 1)] {
            answers.put(kept("a", 1, 10));
            assert!(!take("a", uid, version), "{uid} {version}");
        }
    }

    #[test]
    fn answers_are_bounded_and_the_oldest_go_first() {
        let answers = LastAnswers::default();
        for version in 0..9 {
            answers.put(kept(&version.to_string(), version, 40_000));
        }
        let inner = answers.0.lock();
        assert_eq!(inner.bytes, 240_000);
        assert_eq!(inner.kept.front().map(|kept| kept.version), Some(ResourceVersion(3)));
        drop(inner);
        answers.put(kept("huge", 9, MOST + 1));
        assert!(answers.0.lock().kept.is_empty());
        assert_eq!(answers.0.lock().bytes, 0);
    }
}
