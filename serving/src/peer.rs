//! The client of a connection, and the service that answers it.

use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::Request;
use hyper::body::Incoming;
use parking_lot::Mutex;

use crate::activity::Activity;
use crate::answers::Answer;
use crate::auth::ClientCertificates;

/// The client at the other end of a connection.
pub struct Peer {
    /// The client's address.
    pub address: IpAddr,
    /// The certificates that the client showed.
    pub certificates: ClientCertificates,
    /// The activity on the connection. The service calls [`Activity::begin`] for each request, and
    /// [`Activity::admitted`] once it has authorized a request of a known user.
    pub activity: Arc<Activity>,
    /// What the connection does after an upgrade. The service sets it together with the answer that upgrades the
    /// connection.
    pub tunnel: Mutex<Option<BoxFuture<'static, ()>>>,
}

/// Answers the requests of a server.
pub trait Service: Send + Sync + 'static {
    /// Answers one request. The future is dropped if the connection ends before.
    fn answer(&self, peer: &Peer, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}
