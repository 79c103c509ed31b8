//! Admits requests: who sends one, and may they?

use http::request::Parts;

use super::connect::{self, Connection};
use super::deadline::{Deadline, Endless};
use super::request::{Call, Query, Request, Verb};
use super::route::{Route, route};
use super::server::ApiServer;
use crate::access::{self, ANONYMOUS, Access, Attributes, Identity, Impersonation, InvalidCertificate};
use crate::refusal::{Refusal, Result};

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
    /// Authenticates and authorizes a request before its body is read, and notes the client's identity.
    ///
    /// # Errors
    /// The client can't be identified, or may not do that.
    pub(crate) fn let_in(&self, parts: &mut Parts) -> Result<()> {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let route = route(&self.resources(), &parts.method, parts.uri.path(), &query);
        let longest = self.settings().request_timeout;
        if let Some(endless) = Endless::of(&route) {
            parts.extensions.insert(endless);
        } else if let Some(deadline) = Deadline::of(&query, longest).map_err(Refusal::bad_request)? {
            parts.extensions.insert(deadline);
        }
        let mut warned = None;
        let who = self.admit(parts, &route, &query, &mut warned)?;
        if let Some(warning) = warned {
            parts.extensions.insert(Warned(warning));
        }
        parts.extensions.insert(who);
        parts.extensions.insert(Routed { route, query });
        Ok(())
    }

    /// Authenticates and authorizes. `warned` becomes what the client should be warned of.
    fn admit(
        &self,
        parts: &Parts,
        route: &Result<Route>,
        query: &Query,
        warned: &mut Option<&'static str>,
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
        if who.user != ANONYMOUS {
            if let Some(connection) = parts.extensions.get::<Connection>() {
                connection.authenticated();
            }
        } else if parts.extensions.get::<InvalidCertificate>().is_some() {
            return Err(Refusal::unauthorized());
        }
        if self.is_open() {
            return Ok(Impersonation::of(&parts.headers)?.map_or(who, |other| other.identity()));
        }
        let path = parts.uri.path();
        // A path that makes no sense is told so by who answers; only who may see paths learns it.
        let (wanted, streams) = match route {
            Ok(Route::Resource(call)) => {
                (Attributes::of_request(call, query), connect::is_about_streams(call))
            }
            Ok(Route::Other | Route::Unknown) | Err(_) => (Attributes::of_path(&parts.method, path), false),
        };
        let who = match Impersonation::of(&parts.headers)? {
            None => who,
            Some(other) => {
                for right in other.rights() {
                    if !access::is_allowed(self.store(), &who, &right) {
                        return Err(other.refused(&right, &wanted).refusal(&who));
                    }
                }
                other.identity()
            }
        };
        self.check(&who, &wanted)?;
        if streams {
            self.check(&who, &Attributes { verb: Verb::Create.as_str().to_owned(), ..wanted })?;
        }
        Ok(who)
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
