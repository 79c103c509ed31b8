//! The server: what all requests share, and the way each goes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

use super::body::ResponseBody;
use super::connect::{self, Outbound};
use super::negotiate::{self, Answered, HasSchema, JSON, PROTOBUF, Shape};
use super::request::{Call, Query, Request, Verb};
use super::review::Review;
use super::route::{Route, route};
use crate::access::{self, Access, Attributes, Identity, Signer, Wanted};
use crate::clock::Clock;
use crate::codec::{self, Format};
use crate::discovery;
use crate::faults::{Failure, Faults};
use crate::object;
use crate::openapi;
use crate::recorder::Recorder;
use crate::refusal::{Refusal, Result};
use crate::registry::{Context, ENVELOPE_TAIL, Resource, Resources, envelope_head};
use crate::store::{Journal, Loaded, OpenError, Store};
use crate::table::Include;

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many changes of each resource are remembered, as far as their states are not more than 32 MiB: watches and
    /// paged lists that need older ones get 410. Default: 10,000.
    pub history: usize,
    /// Between the bookmarks of a watch. Default: one minute, as upstream.
    pub bookmark_interval: Duration,
    /// How long a watch goes on whose client does not say: between this and twice as long. Default: 30 minutes.
    pub min_watch_timeout: Duration,
    /// The largest body that is read, in bytes. Default: 3 MiB, as upstream.
    pub body_limit: usize,
    /// What objects are stamped with. Default: a clock that follows tokio's.
    pub clock: Option<Clock>,
    /// Whether new pods get their service account and a token of it, as upstream's admission plugin `ServiceAccount` has it.
    /// Default: they do; with a [`TestServer`](crate::TestServer) they do not.
    pub service_account_tokens: bool,
    /// The authority (PEM) that nodes' certificates must be of. Default: none, and they are not looked at.
    pub kubelet_certificate_authority: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            history: 10_000,
            bookmark_interval: Duration::from_secs(60),
            min_watch_timeout: Duration::from_secs(1800),
            body_limit: 3 * 1024 * 1024,
            clock: None,
            service_account_tokens: true,
            kubelet_certificate_authority: None,
        }
    }
}

/// The connection broke, or the server is down: the client can't know what became of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection reset by the server")]
pub struct Reset;

/// Where a request goes, as it was when it was seen that it may: what is not there yet then it does not reach later.
#[derive(Clone)]
struct Routed(Result<Route>);

/// What a client gets.
pub(crate) type Answer = std::result::Result<Response<ResponseBody>, Reset>;

/// The server behind all connections. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub(crate) struct ApiServer {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<Store>,
    resources: RwLock<Arc<Resources>>,
    settings: Settings,
    clock: Clock,
    faults: Faults,
    recorder: Recorder,
    access: Access,
    /// Signs the tokens of service accounts.
    signer: Arc<Signer>,
    /// How nodes and pods are spoken to.
    outbound: Outbound,
    /// Held from choosing what may be had only once (an address, a port) until it is stored.
    turn: Mutex<()>,
    /// Cancelled when the server stops; another takes its place when it starts again.
    running: Mutex<CancellationToken>,
}

impl ApiServer {
    /// A server in memory, with the objects that are always there.
    pub(crate) fn new(settings: Settings, outbound: Outbound) -> Self {
        let store = Store::new(settings.history);
        let server = Self::with_store(settings, store, Access::Open, Signer::fleeting(), outbound);
        server.bootstrap();
        server
    }

    /// Takes possession of a data folder, for [`open`](Self::open).
    ///
    /// # Errors
    /// The folder can't be used; see [`OpenError`].
    pub(crate) fn opening(folder: &Path) -> std::result::Result<(Journal, Loaded), OpenError> {
        Journal::open(folder)
    }

    /// A server whose objects last: those of the data folder, and those that are always there.
    ///
    /// # Errors
    /// The folder can't be used; see [`OpenError`].
    pub(crate) fn open(
        settings: Settings,
        folder: &Path,
        (journal, loaded): (Journal, Loaded),
        access: Access,
        signer: Signer,
        outbound: Outbound,
    ) -> std::result::Result<Self, OpenError> {
        let store = Store::from_revision(settings.history, loaded.revision);
        let server = Self::with_store(settings, store, access, signer, outbound);
        server.restore(loaded, folder)?;
        server.store().keep_in(journal);
        server.bootstrap();
        Ok(server)
    }

    fn with_store(
        settings: Settings,
        store: Store,
        access: Access,
        signer: Signer,
        outbound: Outbound,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                store: Arc::new(store),
                resources: RwLock::new(Arc::new(Resources::built_in())),
                clock: settings.clock.clone().unwrap_or_else(Clock::following_tokio),
                settings,
                faults: Faults::new(),
                recorder: Recorder::default(),
                access,
                signer: Arc::new(signer),
                outbound,
                turn: Mutex::new(()),
                running: Mutex::new(CancellationToken::new()),
            }),
        }
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    pub(crate) fn signer(&self) -> &Signer {
        &self.shared.signer
    }

    pub(super) fn outbound(&self) -> &Outbound {
        &self.shared.outbound
    }

    pub(crate) fn turn(&self) -> &Mutex<()> {
        &self.shared.turn
    }

    /// What is served now.
    pub(crate) fn resources(&self) -> Arc<Resources> {
        Arc::clone(&self.shared.resources.read())
    }

    /// Changes what is served.
    pub(crate) fn change_resources(&self, change: impl FnOnce(&mut Resources)) {
        let mut resources = self.shared.resources.write();
        change(Arc::make_mut(&mut resources));
    }

    /// Does something while what is served stays as it is. `act` may not ask what is served by other ways.
    pub(super) fn with_resources<T>(&self, act: impl FnOnce(&Resources) -> T) -> T {
        act(&self.shared.resources.read())
    }

    /// Cancelled when the server stops.
    pub(crate) fn running(&self) -> CancellationToken {
        self.shared.running.lock().clone()
    }

    /// Breaks off all answers under way. Data stay.
    pub(crate) fn stop(&self) {
        self.shared.running.lock().cancel();
    }

    /// Serves again after [`stop`](Self::stop).
    pub(crate) fn restart(&self) {
        let mut running = self.shared.running.lock();
        if running.is_cancelled() {
            *running = CancellationToken::new();
        }
    }

    pub(crate) fn context<'a>(&'a self, resource: &'a Resource, subresource: &'a str) -> Context<'a> {
        Context { now: self.clock().now(), store: self.store(), resource, subresource }
    }

    /// Answers a request whose body has been read, unless the server stops first.
    pub(crate) async fn answer(&self, request: http::Request<Bytes>) -> Answer {
        let running = self.running();
        tokio::select! {
            biased;
            () = running.cancelled() => Err(Reset),
            answer = self.serve(request) => answer,
        }
    }

    /// Lets a request in whose body has not been read yet, and notes who asks.
    ///
    /// # Errors
    /// Nobody knows who asks, or who asks may not.
    pub(crate) fn let_in(&self, parts: &mut Parts) -> Result<()> {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let routed = Routed(route(&self.resources(), &parts.method, parts.uri.path(), &query));
        let who = self.admit(parts, &routed)?;
        parts.extensions.insert(who);
        parts.extensions.insert(routed);
        Ok(())
    }

    fn admit(&self, parts: &Parts, Routed(routed): &Routed) -> Result<Identity> {
        let shared = &self.shared;
        let now = self.clock().now().as_second();
        let with_connection = parts.extensions.get::<Identity>();
        let who = access::authenticate(
            &shared.access,
            &shared.signer,
            self.store(),
            with_connection,
            &parts.headers,
            now,
        )?;
        if matches!(shared.access, Access::Open) {
            return Ok(who);
        }
        let path = parts.uri.path();
        // A path that makes no sense is told so by who answers; only who may see paths learns it.
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let (wanted, streams) = match routed {
            Ok(Route::Resource(call)) => {
                (Attributes::of_request(call, &query), connect::is_about_streams(call))
            }
            Ok(Route::Other | Route::Unknown) | Err(_) => (Attributes::of_path(&parts.method, path), false),
        };
        let who = match Wanted::of(&parts.headers)? {
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
        matches!(self.shared.access, Access::Open)
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

    async fn serve(&self, request: http::Request<Bytes>) -> Answer {
        let (mut parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let resources = self.resources();
        let routed = parts.extensions.remove::<Routed>().map(|Routed(routed)| routed);
        let path = parts.uri.path();
        let routed = routed.unwrap_or_else(|| route(&resources, &parts.method, path, &query));
        // What is served may follow from a write that is not safe yet.
        if matches!(routed, Ok(Route::Other))
            && let Err(failed) = self.store().settled().await
        {
            return Ok(refuse(&Refusal::internal(failed), Format::Json));
        }
        let call = match routed {
            Ok(Route::Resource(call)) => call,
            Ok(Route::Other) if path.starts_with("/openapi/") => {
                let openapi =
                    openapi::Server { resources: &resources, store: self.store(), now: self.clock().now() };
                return Ok(openapi.answer(&parts.method, path, &parts.headers, &query));
            }
            Ok(Route::Other) => {
                return Ok(discovery::answer_other(&resources, &parts.method, path, &parts.headers, &query));
            }
            Ok(Route::Unknown) => return Ok(unknown_path()),
            Err(refusal) => return Ok(refuse(&refusal, Format::Json)),
        };
        let who = parts.extensions.get::<Identity>().cloned().unwrap_or_else(Identity::anonymous);
        let http::request::Parts { method, uri, headers, extensions, .. } = parts;
        let request = Request { call, method, uri, query, headers, body, who, extensions };
        // Who must know the name within a body? Nobody, mostly.
        let name = if self.faults().are_set() || self.recorder().is_on() {
            self.name_of(&request)
        } else {
            request.call.name.clone()
        };
        let named = Call { name: name.clone(), ..request.call.clone() };
        let failure = self.faults().take(&named, request.user_agent());
        let head = request.method == Method::HEAD;
        let answer = match failure {
            None => self.carried_out(&request).await,
            Some(failure) => self.failed(&request, failure).await?,
        };
        // Whatever the answer tells must be safe first: what was written, and what was only read.
        let answer = match self.store().settled().await {
            Ok(()) => answer,
            Err(failed) => refuse(&Refusal::internal(failed), status_format(&request)),
        };
        self.recorder().record(&request, &name, answer.status().as_u16());
        Ok(if head { answer.map(|_| ResponseBody::full(Bytes::new())) } else { answer })
    }

    /// What the request names: in its path, or (creates) in its body.
    fn name_of(&self, request: &Request) -> String {
        let call = &request.call;
        if !call.name.is_empty() || call.verb != Verb::Create {
            return call.name.clone();
        }
        let decoded = negotiate::body_format(&request.headers)
            .ok()
            .and_then(|format| codec::decode(format, &request.body).ok());
        decoded.map(|object| object::text_at(&object, "metadata.name")).unwrap_or_default()
    }

    async fn carried_out(&self, request: &Request) -> Response<ResponseBody> {
        if let Some(review) = Review::of(&request.call) {
            return self.review(review, request).unwrap_or_else(|no| refuse(&no, status_format(request)));
        }
        if connect::leads_out(&request.call) {
            return self.connect(request).await.unwrap_or_else(|no| refuse(&no, status_format(request)));
        }
        if !is_served(&request.call) {
            return refuse(&Refusal::not_implemented(&request.call), status_format(request));
        }
        let answered = match request.call.verb {
            Verb::Get => self.get(request).await,
            Verb::List => self.list(request).await,
            Verb::Watch => self.watch(request).await,
            Verb::Create => self.create(request),
            Verb::Update => self.update(request),
            Verb::Patch => self.patch(request),
            Verb::Delete => self.delete(request),
            Verb::DeleteCollection => self.delete_collection(request).await,
        };
        answered.unwrap_or_else(|refusal| refuse(&refusal, status_format(request)))
    }

    async fn failed(&self, request: &Request, failure: Failure) -> Answer {
        let refusal = match failure {
            Failure::Expired => Refusal::fault_expired(),
            Failure::TooManyRequests { retry_after } => Refusal::too_many_requests(
                retry_after.map(|after| i32::try_from(after.as_secs()).unwrap_or(i32::MAX)),
            ),
            Failure::InternalError => Refusal::internal("fault on demand"),
            Failure::Status(status) => Refusal::from(*status),
            Failure::Reset => return Err(Reset),
            Failure::Hang => return std::future::pending().await,
            Failure::ResetAfterwards => {
                let answer = self.carried_out(request).await;
                self.recorder().record(request, &self.name_of(request), answer.status().as_u16());
                return Err(Reset);
            }
            Failure::TimeoutAfterwards => {
                self.carried_out(request).await;
                Refusal::timed_out()
            }
            Failure::HangAfterwards => {
                let answer = self.carried_out(request).await;
                self.recorder().record(request, &self.name_of(request), answer.status().as_u16());
                return std::future::pending().await;
            }
        };
        Ok(refuse(&refusal, status_format(request)))
    }
}

/// Whether this server does what discovery promises.
fn is_served(call: &Call) -> bool {
    match call.subresource.as_str() {
        // What can be made but not got is a question, not an object.
        // Nobody here knows how the components of a cluster are.
        "" if call.resource.plural == "componentstatuses" => false,
        "" => call.verb != Verb::Create || call.resource.allows("get"),
        "status" | "scale" | "finalize" | "approval" | "ephemeralcontainers" | "resize" => true,
        "binding" | "eviction" => call.resource.plural == "pods",
        "token" => call.resource.plural == "serviceaccounts",
        _ => false,
    }
}

/// How the answer to a request is written.
pub(super) fn shape_of(request: &Request, answered: Answered) -> Result<Shape> {
    let call = &request.call;
    let kind_has_schema = call.resource.schema.is_some() || call.subresource == "scale";
    let has_schema = if kind_has_schema { HasSchema::Yes } else { HasSchema::No };
    let mut shape = negotiate::answer_shape(&request.headers, has_schema, answered)?;
    if let Some(table) = &mut shape.table {
        table.include = Include::parse(request.query.get("includeObject"))?;
    }
    Ok(shape)
}

/// Refusals are protobuf where the client asked for it.
fn status_format(request: &Request) -> Format {
    negotiate::answer_shape(&request.headers, HasSchema::Yes, Answered::Other)
        .map_or(Format::Json, |shape| shape.format)
}

/// An answer that was given.
pub(crate) fn answer(
    code: StatusCode,
    media_type: &'static str,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// An answer that says no.
pub(crate) fn refuse(refusal: &Refusal, format: Format) -> Response<ResponseBody> {
    let status = &refusal.status;
    let code = u16::try_from(status.code).ok().and_then(|code| StatusCode::from_u16(code).ok());
    let code = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = match format {
        Format::Json => answer(code, JSON, ResponseBody::full(codec::json(&refusal.to_json()))),
        Format::Protobuf => {
            let raw = status.to_protobuf();
            let head = envelope_head("v1", "Status", raw.len());
            let pieces = vec![head, raw.into(), Bytes::from_static(ENVELOPE_TAIL)];
            answer(code, PROTOBUF, ResponseBody::pieces(pieces))
        }
    };
    if let Some(after) = status.retry_after() {
        answer.headers_mut().insert(header::RETRY_AFTER, after.as_secs().into());
    }
    answer
}

/// A success that is a Status.
pub(crate) fn success(resource: &Resource, name: &str, uid: &str, shape: Shape) -> Response<ResponseBody> {
    let status = steersman_api::Status {
        status: "Success".to_owned(),
        details: Some(steersman_api::status::StatusDetails {
            name: name.to_owned(),
            group: resource.group.to_string(),
            kind: resource.plural.to_string(),
            uid: uid.to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut answer = refuse(&status.into(), shape.format);
    *answer.status_mut() = StatusCode::OK;
    answer
}

/// What upstream's router says of a path that nothing is under.
pub(crate) fn unknown_path() -> Response<ResponseBody> {
    let body = ResponseBody::full(Bytes::from_static(b"404 page not found\n"));
    answer(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", body)
}
