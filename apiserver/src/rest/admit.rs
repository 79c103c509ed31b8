//! Admits requests: who sends one, and may they?

use http::request::Parts;

use super::connect::{self, Connection};
use super::deadline::{Deadline, Endless};
use super::request::{Call, Query, Request, Verb};
use super::route::{Route, route};
use super::server::ApiServer;
use crate::access::{self, ANONYMOUS, Access, Attributes, Identity, Impersonation, InvalidCertificate};
use crate::in_memory::OfComponent;
use crate::monitoring::Entry;
use crate::refusal::{Refusal, Result};

/// When a client should try again that has too many requests under way, in seconds. Upstream's figure.
const AFTER_TOO_MANY: i32 = 1;

/// The route of a request, as it was when the request was authorized: it reaches nothing that is served only later.
#[derive(Clone)]
pub(super) struct Routed {
    pub(super) route: Result<Route>,
    pub(super) query: Query,
}

/// What the client is warned of, whatever the answer to its request.
#[derive(Clone, Copy)]
pub(crate) struct Warned(pub(crate) &'static str);

/// Whether the body of a request that was let in is of any use: reads have none, but for what a proxy passes on.
pub(crate) fn takes_body(parts: &Parts) -> bool {
    let Some(Routed { route: Ok(Route::Resource(call)), .. }) = parts.extensions.get() else { return false };
    if connect::leads_out(call) { connect::passes_bodies_on(call) } else { call.verb.is_write() }
}

impl ApiServer {
    /// Authenticates and authorizes a request before its body is read, and notes the client's identity. `entry` gets what there
    /// is to tell of the request, and its place among those under way.
    ///
    /// # Errors
    /// The client can't be identified, may not do that, or has too many requests under way.
    pub(crate) fn let_in(&self, parts: &mut Parts, entry: &mut Entry) -> Result<()> {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let route = route(&self.resources(), &parts.method, parts.uri.path(), &query);
        let longest = self.settings().request_timeout;
        entry.routed(parts, &route, query.all("dryRun").any(|value| value == "All"));
        if let Some(endless) = Endless::of(&route) {
            parts.extensions.insert(endless);
        } else if let Some(deadline) = Deadline::of(&query, longest).map_err(Refusal::bad_request)? {
            parts.extensions.insert(deadline);
        }
        let mut warned = None;
        let who = self.admit(parts, &route, &query, &mut warned, entry)?;
        let is_probe = access::is_always_allowed(parts.uri.path());
        let is_component = parts.extensions.get::<OfComponent>().is_some();
        let counts = parts.extensions.get::<Endless>().is_none() && !is_probe && !is_component;
        if counts && !self.is_open() {
            let is_write = match &route {
                Ok(Route::Resource(call)) => call.verb.is_write(),
                Ok(Route::Other | Route::Unknown) | Err(_) => false,
            };
            let turn = self.in_flight().begin(&who, is_write);
            entry.takes(turn.ok_or_else(|| Refusal::too_many_requests(Some(AFTER_TOO_MANY)))?);
        }
        if let Some(warning) = warned {
            parts.extensions.insert(Warned(warning));
        }
        parts.extensions.insert(who);
        parts.extensions.insert(Routed { route, query });
        Ok(())
    }

    /// Authenticates and authorizes. `warned` becomes what the client should be warned of. `entry` gets the decision.
    fn admit(
        &self,
        parts: &Parts,
        route: &Result<Route>,
        query: &Query,
        warned: &mut Option<&'static str>,
        entry: &mut Entry,
    ) -> Result<Identity> {
        let now = self.clock().now().as_second();
        let with_connection = parts.extensions.get::<Identity>();
        let who = access::authenticate(
            self.access(),
            self.signer(),
            self.store(),
            with_connection,
            &parts.headers,
            now,
            |token| {
                self.note_use(token);
                let warns = token.generated && token.identity.is_ok();
                *warned = warns.then_some(access::GENERATED);
            },
        )?;
        entry.identified(&who);
        if who.user != ANONYMOUS {
            if let Some(connection) = parts.extensions.get::<Connection>() {
                connection.authenticated();
            }
        } else if parts.extensions.get::<InvalidCertificate>().is_some() {
            return Err(Refusal::unauthorized());
        }
        if self.is_open() {
            let who = Impersonation::of(&parts.headers)?.map_or(who, |other| other.identity());
            entry.decided(&who, None, true);
            return Ok(who);
        }
        let path = parts.uri.path();
        // A path that makes no sense is told so by who answers; only who may see paths learns it.
        let (wanted, streams) = match route {
            Ok(Route::Resource(call)) => {
                (Attributes::of_request(call, query), connect::is_about_streams(call))
            }
            Ok(Route::Other | Route::Unknown) | Err(_) => (Attributes::of_path(&parts.method, path), false),
        };
        let (who, by) = match Impersonation::of(&parts.headers)? {
            None => (who, None),
            Some(other) => {
                for right in other.rights() {
                    if !access::is_allowed(self.store(), &who, &right) {
                        entry.decided(&who, None, false);
                        return Err(other.refused(&right, &wanted).refusal(&who));
                    }
                }
                (other.identity(), Some(who))
            }
        };
        let mut checked = self.check(&who, &wanted);
        if checked.is_ok() && streams {
            checked = self.check(&who, &Attributes { verb: Verb::Create.as_str().to_owned(), ..wanted });
        }
        entry.decided(&who, by.as_ref(), checked.is_ok());
        checked.map(|()| who)
    }

    /// Whether everybody may do everything.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.access(), Access::Open)
    }

    /// Whether who sent a request may do that as well: writes may turn out to be creates.
    pub(super) fn check_also(&self, request: &Request, verb: Verb) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        self.check(&request.who, &Attributes::of_call(&Call { verb, ..request.call.clone() }))
    }

    fn check(&self, who: &Identity, wanted: &Attributes) -> Result<()> {
        if access::is_allowed(self.store(), who, wanted) {
            return Ok(());
        }
        Err(wanted.refusal(who))
    }
}
