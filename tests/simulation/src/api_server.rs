//! The API server, its disk, and where clients find it.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use kube::client::Body;
use parking_lot::Mutex;
use steersman_apiserver::{Clock, InMemory, TestDisk, TestServer};
use tokio::time::{sleep, timeout};
use tower::Service;

/// The machine of the API server.
pub(crate) struct ApiServer {
    address: Address,
    disk: Arc<TestDisk>,
    clock: Clock,
}

/// The address of the API server: there is another server behind it after it has died.
#[derive(Clone)]
pub(crate) struct Address(Arc<Mutex<Arc<TestServer>>>);

impl ApiServer {
    pub(crate) async fn start(clock: Clock) -> Self {
        let disk = TestDisk::new(TestDisk::new_file(), usize::MAX);
        let server = start(&disk, &clock).await;
        Self { address: Address(Arc::new(Mutex::new(Arc::new(server)))), disk, clock }
    }

    pub(crate) fn address(&self) -> Address {
        self.address.clone()
    }

    /// Nobody gets an answer for a while.
    pub(crate) async fn be_away(&self, how_long: Duration) {
        let server = self.address.server();
        server.suspend();
        sleep(how_long).await;
        server.resume();
    }

    /// Somebody else takes all that is left on the disk, and gives it back after a while.
    pub(crate) async fn fill_disk(&self, how_long: Duration) {
        self.disk.fill();
        sleep(how_long).await;
        self.disk.empty();
    }

    /// The disk fails once, after so many operations.
    pub(crate) fn fail_disk_after(&self, operations: usize) {
        self.disk.fail_after(operations);
    }

    /// The power is cut after so many operations of the disk.
    pub(crate) fn cut_power_after(&self, operations: usize) {
        self.disk.cut_after(operations);
    }

    /// Waits until the server can't go on, and says whether it can't.
    pub(crate) async fn fails_within(&self, at_most: Duration) -> bool {
        let server = self.address.server();
        timeout(at_most, server.failed()).await.is_ok()
    }

    /// The machine starts again after a while without power, with what the disk has kept. `chance` decides on what that is of what was
    /// not synced.
    pub(crate) async fn restart(&mut self, chance: u64, how_long: Duration) {
        self.disk.cut();
        self.address.server().suspend();
        sleep(how_long).await;
        self.disk = TestDisk::new(self.disk.after_the_crash(chance), usize::MAX);
        let server = start(&self.disk, &self.clock).await;
        *self.address.0.lock() = Arc::new(server);
    }
}

async fn start(disk: &Arc<TestDisk>, clock: &Clock) -> TestServer {
    TestServer::builder().without_port().clock(clock.clone()).kept_on(Arc::clone(disk)).start().await
}

impl Address {
    /// The server that is there now.
    pub(crate) fn server(&self) -> Arc<TestServer> {
        Arc::clone(&self.0.lock())
    }

    /// A client that always gets through.
    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }
}

impl Service<Request<Body>> for Address {
    type Response = <InMemory as Service<Request<Body>>>::Response;
    type Error = <InMemory as Service<Request<Body>>>::Error;
    type Future = <InMemory as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.server().in_memory().call(request)
    }
}
