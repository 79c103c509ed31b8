//! Faults on demand.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use steersman_api::Status;
use tokio::sync::watch;

use crate::calls::Calls;
use crate::codec;
use crate::rest::Call;
use crate::store::Object;

/// What happens to a request instead of, or after, what it asks for.
#[derive(Debug, Clone)]
pub enum Failure {
    /// Answered with 410, reason Expired, and not carried out.
    Expired,
    /// Answered with 429, and not carried out.
    TooManyRequests {
        /// The header that says when to come again, if any; in whole seconds.
        retry_after: Option<Duration>,
    },
    /// Answered with 500, and not carried out.
    InternalError,
    /// Answered with this, and not carried out.
    Status(Box<Status>),
    /// The connection breaks before the request is carried out.
    Reset,
    /// Never answered, and not carried out.
    Hang,
    /// Carried out; then the connection breaks: the client can't know.
    ResetAfterwards,
    /// Carried out, and answered with 504.
    TimeoutAfterwards,
    /// Carried out, and never answered.
    HangAfterwards,
}

/// Makes requests fail. Cheap to clone; all clones are the same.
///
/// Rules are tried in the order in which they were made; a request uses up the first one that fits it.
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

struct Shared {
    rules: Mutex<Rules>,
    /// Grows with each order to cut, and is touched when a delay changes; wakes all watches.
    orders: watch::Sender<Vec<Calls>>,
}

#[derive(Default)]
struct Rules {
    failures: Vec<(usize, Calls, Failure)>,
    cuts: Vec<(usize, Calls, usize)>,
    delays: Vec<(Calls, Duration)>,
    spoiled: Vec<(Calls, String)>,
}

impl Faults {
    pub(crate) fn new() -> Self {
        let orders = watch::Sender::new(Vec::new());
        Self { shared: Arc::new(Shared { rules: Mutex::default(), orders }) }
    }

    /// The next `times` requests that fit fail so.
    pub fn fail(&self, times: usize, calls: Calls, failure: Failure) {
        self.shared.rules.lock().failures.push((times, calls, failure));
    }

    /// Each of the next `times` watches that fit ends after that many events; with zero it ends at once.
    pub fn cut_watches_after(&self, times: usize, calls: Calls, events: usize) {
        self.shared.rules.lock().cuts.push((times, calls, events));
    }

    /// Ends all watches under way that fit.
    pub fn cut_watches(&self, calls: Calls) {
        self.shared.orders.send_modify(|orders| orders.push(calls));
    }

    /// Watches that fit, those under way too, tell of each change only that long after it was written. Takes the place
    /// of an earlier delay for the same watches; zero ends it.
    pub fn delay_watches(&self, calls: Calls, by: Duration) {
        self.shared.rules.lock().delays.insert(0, (calls, by));
        self.shared.orders.send_modify(|_| ());
    }

    /// In the lists and watches that fit, the object of that name has a body that does not decode; its metadata does.
    pub fn spoil(&self, calls: Calls, name: &str) {
        self.shared.rules.lock().spoiled.push((calls, name.to_owned()));
    }

    /// Forgets all rules.
    pub fn clear(&self) {
        *self.shared.rules.lock() = Rules::default();
        self.shared.orders.send_modify(|_| ());
    }

    /// How many failures are yet to happen.
    pub fn pending(&self) -> usize {
        self.shared.rules.lock().failures.iter().map(|(times, ..)| times).sum()
    }

    /// Whether requests may fail at all.
    pub(crate) fn are_set(&self) -> bool {
        !self.shared.rules.lock().failures.is_empty()
    }

    /// What shall happen to a request.
    pub(crate) fn take(&self, call: &Call, user_agent: &str) -> Option<Failure> {
        let mut rules = self.shared.rules.lock();
        use_up(&mut rules.failures, |calls| calls.fit(call, user_agent))
    }

    pub(crate) fn of_watch(&self, call: &Call, user_agent: &str) -> WatchFaults {
        let orders = self.shared.orders.subscribe();
        let seen = orders.borrow().len();
        let mut rules = self.shared.rules.lock();
        WatchFaults {
            left: use_up(&mut rules.cuts, |calls| calls.fit(call, user_agent)),
            seen,
            orders,
            call: call.clone(),
            user_agent: user_agent.to_owned(),
            faults: self.clone(),
        }
    }

    pub(crate) fn spoiled(&self, call: &Call, user_agent: &str) -> Spoiled {
        let rules = self.shared.rules.lock();
        let hit = rules.spoiled.iter().filter(|(calls, _)| calls.fit(call, user_agent));
        Spoiled { names: hit.map(|(_, name)| name.clone()).collect() }
    }
}

/// Takes one use of the first rule that fits.
fn use_up<T: Clone>(rules: &mut Vec<(usize, Calls, T)>, fits: impl Fn(&Calls) -> bool) -> Option<T> {
    let at = rules.iter().position(|(times, calls, _)| *times > 0 && fits(calls))?;
    let (times, _, outcome) = &mut rules[at];
    *times -= 1;
    let outcome = outcome.clone();
    rules.retain(|(times, ..)| *times > 0);
    Some(outcome)
}

/// What shall happen to one watch.
pub(crate) struct WatchFaults {
    /// How many events it may still tell of; `None` for any number.
    left: Option<usize>,
    orders: watch::Receiver<Vec<Calls>>,
    /// Orders up to here were given before it began, or were for others.
    seen: usize,
    call: Call,
    user_agent: String,
    faults: Faults,
}

impl WatchFaults {
    /// An event was told.
    pub(crate) fn count(&mut self) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
        }
    }

    /// Whether the watch shall end now.
    pub(crate) fn is_cut(&mut self) -> bool {
        let orders = self.orders.borrow_and_update();
        let ordered = orders.iter().skip(self.seen).any(|calls| calls.fit(&self.call, &self.user_agent));
        self.seen = orders.len();
        drop(orders);
        if ordered {
            self.left = Some(0);
        }
        self.left == Some(0)
    }

    /// Resolves when there is a new order, perhaps for this watch.
    pub(crate) async fn changed(&mut self) {
        if self.orders.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// How long after a write its event is told.
    pub(crate) fn lag(&self) -> Duration {
        let rules = self.faults.shared.rules.lock();
        let rule = rules.delays.iter().find(|(calls, _)| calls.fit(&self.call, &self.user_agent));
        rule.map_or(Duration::ZERO, |(_, by)| *by)
    }
}

/// Objects that a client shall not be able to read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spoiled {
    names: Vec<String>,
}

impl Spoiled {
    /// Whether this is one of them.
    pub(crate) fn hits(&self, object: &Object) -> bool {
        self.names.iter().any(|name| *name == object.key.name.as_str())
    }

    /// The object's members with all but its metadata made unreadable.
    pub(crate) fn json(&self, object: &Object) -> Bytes {
        let mut members = Map::new();
        for (name, value) in object.parsed().as_object().into_iter().flatten() {
            let readable = matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
            members.insert(name.clone(), if readable { value.clone() } else { Value::from("spoiled") });
        }
        members.insert("spec".to_owned(), "spoiled".into());
        codec::json_without_type(&Value::Object(members))
    }

    /// A message with the object's metadata and then a field that breaks off.
    pub(crate) fn protobuf(&self, object: &Object) -> Result<Bytes, codec::Error> {
        let mut bytes = codec::metadata_to_protobuf(object.metadata())?.to_vec();
        // Field 2 (spec, mostly), one byte long, which is no message.
        bytes.extend_from_slice(&[0x12, 1, 0xff]);
        Ok(bytes.into())
    }
}
