//! The server: what all requests share, and the way each goes.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use parking_lot::{Mutex, RwLock};
use prometheus::{TEXT_FORMAT, TextEncoder};
use tokio_util::sync::CancellationToken;

use super::admit::Routed;
use super::answer::{answer, refuse, status_format, unknown_path};
use super::bodies::Bodies;
use super::body::{Reset, ResponseBody};
use super::connect::{self, Outbound};
use super::deadline::Deadline;
use super::decoding::Decoding;
use super::in_flight::InFlight;
use super::negotiate::{self};
use super::request::{Call, Query, Request, Verb};
use super::review::Review;
use super::route::{Route, route};
use super::settings::Settings;
use super::snapshot;
use super::usage::asks_for_usage;
use crate::access::{Access, Identity, Signer};
use crate::clock::Clock;
use crate::codec::{self, Format};
use crate::discovery;
use crate::faults::{Failure, Faults};
use crate::monitoring::{Monitoring, Stored};
use crate::object;
use crate::openapi;
use crate::recorder::Recorder;
use crate::refusal::Refusal;
use crate::registry::{Context, Resource, Resources, usage_resources};
use crate::store::{EncryptionKeys, Journal, Loaded, OpenError, Store, Unsettled};

/// When a client should try again whose write was undone, in seconds.
const AFTER_UNDONE: i32 = 1;

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
    /// What the bodies of requests take.
    bodies: Bodies,
    /// How many requests are under way.
    in_flight: InFlight,
    /// What is told of requests.
    monitoring: Arc<Monitoring>,
    /// Bounds the memory of writes under way.
    decoding: Decoding,
    /// Another takes its place when the server starts again.
    running: Mutex<Running>,
}

/// For as long as the server serves.
struct Running {
    /// Cancelled when it stops, which breaks off all answers.
    all: CancellationToken,
    /// Cancelled then at the latest: what has no end of its own ends with it.
    streams: CancellationToken,
}

impl Running {
    fn begin() -> Self {
        let all = CancellationToken::new();
        Self { streams: all.child_token(), all }
    }
}

impl ApiServer {
    /// A server in memory, with the objects that are always there.
    #[cfg(test)]
    pub(crate) fn new(settings: Settings, outbound: Outbound) -> Self {
        Self::signing(settings, Signer::fleeting(), outbound)
    }

    /// As `new`, with this key for tokens.
    pub(crate) fn signing(settings: Settings, signer: Signer, outbound: Outbound) -> Self {
        let store = Store::new(settings.history);
        let monitoring = Monitoring::without_audit();
        let server = Self::with_store(settings, store, Access::Open, signer, outbound, monitoring);
        server.bootstrap();
        server
    }

    /// Takes possession of a data folder, for [`open`](Self::open). Secrets are encrypted there with `keys`.
    ///
    /// # Errors
    /// The folder can't be used; see [`OpenError`].
    pub(crate) fn opening(
        folder: &Path,
        keys: EncryptionKeys,
    ) -> std::result::Result<(Journal, Loaded), OpenError> {
        Journal::open(folder, keys)
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
        monitoring: Monitoring,
    ) -> std::result::Result<Self, OpenError> {
        let store = Store::from_revision(settings.history, loaded.revision);
        let server = Self::with_store(settings, store, access, signer, outbound, monitoring);
        server.restore(loaded, folder)?;
        let weak = Arc::downgrade(&server.shared);
        server.store().keep_in(journal, move || {
            if let Some(shared) = weak.upgrade() {
                ApiServer { shared }.serve_as_all_defined();
            }
        });
        server.bootstrap();
        Ok(server)
    }

    fn with_store(
        settings: Settings,
        store: Store,
        access: Access,
        signer: Signer,
        outbound: Outbound,
        monitoring: Monitoring,
    ) -> Self {
        let store = Arc::new(store.limited_to(settings.quota_backend_bytes));
        let mut resources = Resources::built_in();
        if settings.usage.is_some() {
            usage_resources().map(Arc::new).into_iter().for_each(|resource| resources.insert(resource));
        }
        let metrics = monitoring.metrics();
        let in_flight = InFlight::limited_to(
            (settings.max_requests_in_flight, metrics.in_flight(false)),
            (settings.max_mutating_requests_in_flight, metrics.in_flight(true)),
        );
        let server = Self {
            shared: Arc::new(Shared {
                store,
                resources: RwLock::new(Arc::new(resources)),
                bodies: Bodies::limited_to(settings.bodies_limit),
                in_flight,
                monitoring: Arc::new(monitoring),
                decoding: Decoding::new(),
                clock: settings.clock.clone().unwrap_or_else(Clock::system),
                settings,
                faults: Faults::new(),
                recorder: Recorder::default(),
                access,
                signer: Arc::new(signer),
                outbound,
                turn: Mutex::new(()),
                running: Mutex::new(Running::begin()),
            }),
        };
        let weak = Arc::downgrade(&server.shared);
        let count = move || weak.upgrade().map(|shared| Self { shared }.stored()).unwrap_or_default();
        let registry = server.monitoring().metrics().registry();
        registry
            .register(Box::new(Stored::new(count)))
            .expect("the names must be those of this collector alone");
        server
    }

    /// The bytes that all objects take, and the number of objects of each resource with its group and name.
    fn stored(&self) -> (u64, Vec<(String, String, usize)>) {
        let resources = self.resources();
        let stored = resources.stored();
        let counts = stored.into_iter().map(|resource| {
            let (group, name) = (resource.group.to_string(), resource.plural.to_string());
            (group, name, self.store().len(&resource.table))
        });
        (self.store().used(), counts.collect())
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    pub(super) fn access(&self) -> &Access {
        &self.shared.access
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

    pub(crate) fn bodies(&self) -> &Bodies {
        &self.shared.bodies
    }

    pub(super) fn in_flight(&self) -> &InFlight {
        &self.shared.in_flight
    }

    pub(crate) fn monitoring(&self) -> &Arc<Monitoring> {
        &self.shared.monitoring
    }

    pub(super) fn decoding(&self) -> &Decoding {
        &self.shared.decoding
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

    /// Cancelled when watches and what else has no end of its own are to end.
    pub(crate) fn streaming(&self) -> CancellationToken {
        self.shared.running.lock().streams.clone()
    }

    /// Ends watches, and what else has no end of its own.
    pub(crate) fn end_streams(&self) {
        self.shared.running.lock().streams.cancel();
    }

    /// Breaks off all answers under way. Data stay.
    pub(crate) fn stop(&self) {
        self.shared.running.lock().all.cancel();
    }

    /// Serves again after [`stop`](Self::stop).
    pub(crate) fn restart(&self) {
        let mut running = self.shared.running.lock();
        if running.all.is_cancelled() {
            *running = Running::begin();
        }
    }

    pub(crate) fn context<'a>(&'a self, resource: &'a Resource, subresource: &'a str) -> Context<'a> {
        Context { now: self.clock().now(), store: self.store(), resource, subresource }
    }

    /// Answers a request whose body has been read, unless the server stops first.
    pub(crate) async fn answer(&self, request: http::Request<Bytes>) -> Answer {
        let running = self.shared.running.lock().all.clone();
        tokio::select! {
            biased;
            () = running.cancelled() => Err(Reset),
            answer = self.serve(request) => answer,
        }
    }

    async fn serve(&self, request: http::Request<Bytes>) -> Answer {
        let (mut parts, body) = request.into_parts();
        let resources = self.resources();
        let path = parts.uri.path();
        let routed = parts.extensions.remove::<Routed>().unwrap_or_else(|| {
            let query = Query::parse(parts.uri.query().unwrap_or_default());
            Routed { route: route(&resources, &parts.method, path, &query), query }
        });
        let until = parts.extensions.remove::<Deadline>();
        let Routed { route: routed, query } = routed;
        // What is served may follow from a write that is not safe yet. Health, version and metrics do not.
        if matches!(routed, Ok(Route::Other))
            && ["/api", "/openapi"].iter().any(|tells| path.starts_with(tells))
        {
            match Deadline::met(until, self.store().settled()).await {
                Some(Ok(_)) => {}
                Some(Err(failed)) => return Ok(refuse(&Refusal::internal(failed), Format::Json)),
                None => return Ok(refuse(&Refusal::timed_out(), Format::Json)),
            }
        }
        let call = match routed {
            Ok(Route::Resource(call)) => call,
            Ok(Route::Other) if path.starts_with("/openapi/") => {
                let openapi =
                    openapi::Server { resources: &resources, store: self.store(), now: self.clock().now() };
                return Ok(openapi.answer(&parts.method, path, &parts.headers, &query));
            }
            Ok(Route::Other) if path == "/metrics" && parts.method == Method::GET => {
                return Ok(self.metrics_answer());
            }
            Ok(Route::Other) if path == snapshot::PATH && parts.method == Method::GET => {
                let who = parts.extensions.get::<Identity>().cloned().unwrap_or_else(Identity::anonymous);
                return Ok(self.snapshot_answer(&who).await);
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
        // Only faults and recordings need the name in a body.
        let name = if self.faults().are_set() || self.recorder().is_on() {
            self.name_of(&request)
        } else {
            request.call.name.clone()
        };
        let named = Call { name: name.clone(), ..request.call.clone() };
        let failure = self.faults().take(&named, request.user_agent());
        let head = request.method == Method::HEAD;
        let answer = match failure {
            None => {
                let answered = self.answered(&request);
                match Deadline::met(until, answered).await {
                    Some(answer) => answer,
                    None => refuse(&Refusal::timed_out(), status_format(&request)),
                }
            }
            Some(failure) => {
                let mark = self.store().mark();
                let answer = self.failed(&request, failure).await?;
                match self.store().settled_since(mark).await {
                    Ok(()) => answer,
                    Err(why) => refuse(&refusal_of(why), status_format(&request)),
                }
            }
        };
        self.recorder().record(&request, &name, answer.status().as_u16());
        Ok(if head { answer.map(|_| ResponseBody::full(Bytes::new())) } else { answer })
    }

    fn metrics_answer(&self) -> Response<ResponseBody> {
        let families = self.monitoring().metrics().registry().gather();
        match TextEncoder::new().encode_to_string(&families) {
            Ok(text) => answer(StatusCode::OK, TEXT_FORMAT, ResponseBody::full(text)),
            Err(error) => refuse(&Refusal::internal(error), Format::Json),
        }
    }

    /// Carries a request out. All that the answer tells is safe: what was written, and what was only read.
    async fn answered(&self, request: &Request) -> Response<ResponseBody> {
        loop {
            let mark = self.store().mark();
            let answer = self.carried_out(request).await;
            match self.store().settled_since(mark).await {
                Ok(()) => return answer,
                Err(Unsettled::Undone) if is_repeatable(&request.call) => {}
                Err(why) => return refuse(&refusal_of(why), status_format(request)),
            }
        }
    }

    /// What the request names: in its path, or (creates) in its body.
    fn name_of(&self, request: &Request) -> String {
        let call = &request.call;
        if !call.name.is_empty() || call.verb != Verb::Create {
            return call.name.clone();
        }
        let decoded = negotiate::body_format(&request.headers)
            .ok()
            .and_then(|format| codec::decode(format, &request.body, &call.resource.kind).ok());
        decoded.map(|object| object::text_at(&object, "metadata.name")).unwrap_or_default()
    }

    async fn carried_out(&self, request: &Request) -> Response<ResponseBody> {
        if connect::leads_out(&request.call) {
            return self.connect(request).await.unwrap_or_else(|no| refuse(&no, status_format(request)));
        }
        if let Some(usage) = self.settings().usage.as_deref().filter(|_| asks_for_usage(&request.call)) {
            let told = self.tell_usage(usage, request).await;
            return told.unwrap_or_else(|no| refuse(&no, status_format(request)));
        }
        let _room = self.room_to_decode(request).await;
        if let Some(review) = Review::of(&request.call) {
            return self.review(review, request).unwrap_or_else(|no| refuse(&no, status_format(request)));
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
        // This server does not watch the components of a cluster.
        "" if call.resource.plural == "componentstatuses" => false,
        // What can be made but not got is a question, not an object.
        "" => call.verb != Verb::Create || call.resource.allows("get"),
        "status" | "scale" | "finalize" | "approval" | "ephemeralcontainers" | "resize" => true,
        "binding" | "eviction" => call.resource.plural == "pods",
        "token" => call.resource.plural == "serviceaccounts",
        _ => false,
    }
}

/// Whether a call only reads, and what it reads is here.
fn is_repeatable(call: &Call) -> bool {
    !call.verb.is_write() && !connect::leads_out(call)
}

pub(super) fn refusal_of(why: Unsettled) -> Refusal {
    match why {
        Unsettled::Undone => Refusal::took_too_long(why, AFTER_UNDONE),
        Unsettled::Failed(failed) => Refusal::internal(failed),
    }
}

#[cfg(test)]
mod tests;
