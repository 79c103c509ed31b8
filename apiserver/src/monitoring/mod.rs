//! What a server tells of the requests that it answers: metrics, and the audit log.
//!
//! An [`Entry`] goes along with a request, from its head until the last byte of its answer is handed to the connection, or the
//! connection ends:
//!
//! ```text
//! begin ─▶ routed (what it asks for) ─▶ decided (who asks, and may they) ─▶ answered (which code) ─▶ dropped (the end)
//! ```

mod audit;
mod labels;
mod metrics;

use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use http::{Response, header};
use tokio::time::Instant;

pub use self::audit::{AuditError, AuditOptions};

use self::audit::{AuditLog, Event, Stage};
use self::labels::Labels;
use self::metrics::Metrics;
pub(crate) use self::metrics::Stored;
use crate::access::Identity;
use crate::clock::Clock;
use crate::rest::{Endless, ResponseBody, Route, Turn};

/// The length of a user agent in the audit log, in bytes: upstream's.
const USER_AGENT: usize = 1024;

/// The metrics and the audit log of a server.
pub(crate) struct Monitoring {
    metrics: Metrics,
    audit: Option<AuditLog>,
}

impl Monitoring {
    /// Opens the audit log, if there is to be one.
    ///
    /// # Errors
    /// The log can't be opened.
    pub(crate) fn new(audit: Option<AuditOptions>) -> Result<Self, AuditError> {
        let metrics = Metrics::new();
        let audit = audit.map(AuditLog::open).transpose()?;
        Ok(Self { metrics, audit })
    }

    /// Metrics, without an audit log.
    pub(crate) fn without_audit() -> Self {
        Self { metrics: Metrics::new(), audit: None }
    }

    /// The metrics.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Begins with a request whose head has come.
    pub(crate) fn begin(self: &Arc<Self>, parts: &Parts, peer: Option<IpAddr>, clock: &Clock) -> Entry {
        let event = self.audit.is_some().then(|| {
            let agent =
                parts.headers.get(header::USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()));
            let agent = agent.map(|agent| shortened(&agent)).unwrap_or_default();
            let peer = peer.map(|peer| peer.to_canonical());
            Box::new(Event::received(&parts.method, &parts.uri, agent, peer, clock.now()))
        });
        Entry {
            of: Arc::clone(self),
            clock: clock.clone(),
            began: Instant::now(),
            labels: None,
            endless: None,
            event,
            code: None,
            turn: None,
        }
    }
}

/// At most [`USER_AGENT`] bytes of a text, with upstream's note of what is cut off.
fn shortened(agent: &str) -> String {
    if agent.len() <= USER_AGENT {
        return agent.to_owned();
    }
    let end = (0..=USER_AGENT).rev().find(|end| agent.is_char_boundary(*end)).unwrap_or_default();
    format!("{}...TRUNCATED", &agent[..end])
}

/// One request, as metrics and the audit log tell it.
pub(crate) struct Entry {
    of: Arc<Monitoring>,
    clock: Clock,
    began: Instant,
    /// `None` until it is known what the request asks for.
    labels: Option<Labels>,
    endless: Option<Endless>,
    /// `None` without an audit log.
    event: Option<Box<Event>>,
    /// The code of the answer; `None` if there was none.
    code: Option<u16>,
    /// The place among the requests under way.
    turn: Option<Turn>,
}

impl Entry {
    /// The request asks for this. With `is_dry`, nothing is to be stored.
    pub(crate) fn routed(&mut self, parts: &Parts, route: &crate::refusal::Result<Route>, is_dry: bool) {
        self.labels = Labels::of(parts, route, is_dry);
        if let (Some(event), Ok(Route::Resource(call))) = (&mut self.event, route) {
            event.about(call);
        }
    }

    /// The client is this user.
    pub(crate) fn identified(&mut self, who: &Identity) {
        if let Some(event) = &mut self.event {
            event.identified(who);
        }
    }

    /// Whether this user may do that, or the user as whom `by` acts.
    pub(crate) fn decided(&mut self, who: &Identity, by: Option<&Identity>, is_allowed: bool) {
        if let Some(event) = &mut self.event {
            event.decided(who, by, is_allowed);
        }
    }

    /// The request has its place among those under way, until its answer ends.
    pub(crate) fn takes(&mut self, turn: Turn) {
        self.turn = Some(turn);
    }

    /// The answer begins. The entry is to be dropped when it ends. `endless` says why it has no end of its own.
    pub(crate) fn answered(&mut self, answer: &mut Response<ResponseBody>, endless: Option<Endless>) {
        self.code = Some(answer.status().as_u16());
        let status = answer.extensions_mut().remove();
        self.endless = endless;
        if let (Some(_), Some(labels)) = (endless, &self.labels) {
            self.of.metrics.stream_begins(labels);
        }
        if let (Some(event), Some(audit)) = (&mut self.event, &self.of.audit) {
            event.answered(answer.status().as_u16(), status);
            if let Ok(id) = event.id().parse() {
                answer.headers_mut().insert("audit-id", id);
            }
            if endless.is_some() {
                self.of.metrics.audited(audit.write(event, Stage::ResponseStarted, self.clock.now()));
            }
        }
    }
}

/// The end of the request.
impl Drop for Entry {
    fn drop(&mut self) {
        let metrics = &self.of.metrics;
        if let Some(labels) = &self.labels {
            if self.endless.is_some() {
                metrics.stream_ends(labels);
            }
            if let Some(code) = self.code {
                metrics.answered(labels, code, self.began.elapsed());
            }
        }
        if let (Some(event), Some(audit)) = (&self.event, &self.of.audit) {
            metrics.audited(audit.write(event, Stage::ResponseComplete, self.clock.now()));
        }
    }
}
