//! Measures what a client itself spends on a request: processor time and allocations, without any network.
//!
//!     cargo run --release -p steersman-client --example calls [CALLS]
//!
//! Sends small POSTs through a gated and limited client to a service that answers at once. The limit is never reached.
//! For comparison, the same requests go straight to the service: the difference is the client's own cost.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, pending, ready};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use rustix::time::{ClockId, clock_gettime};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use steersman_client::clients::Options;
use steersman_client::{Clients, GateClosed, Limits, WriteGate};
use tokio::runtime::{Builder, Runtime};
use tower::{ServiceExt, service_fn};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// A gate that never closes.
struct Open;

impl WriteGate for Open {
    fn admit(&self) -> Result<(), GateClosed> {
        Ok(())
    }

    fn closed(&self) -> BoxFuture<'static, ()> {
        Box::pin(pending())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let calls: u32 = std::env::args().nth(1).map_or(Ok(100_000), |calls| calls.parse())?;
    let one_thread = Builder::new_current_thread().enable_all().build()?;
    let two_workers = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for (name, runtime) in [("one thread", one_thread), ("two workers", two_workers)] {
        writeln!(std::io::stdout(), "{name}:")?;
        measure_all(&runtime, calls)?;
    }
    Ok(())
}

fn measure_all(runtime: &Runtime, calls: u32) -> std::io::Result<()> {
    let _entered = runtime.enter();
    let service = service_fn(|_: Request<Body>| {
        ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"{}")))))
    });
    let options = Options { limits: Limits::new(1e6, 1_000_000), ..Options::default() };
    let clients = Clients::over_with(service, options).gated(Arc::new(Open));
    let content = Bytes::from(vec![b'x'; 1024]);

    measure(runtime, "no client", calls, || async {
        let response = service.oneshot(request(&content).map(Body::from)).await.expect("it always answers");
        response.into_body().collect().await.expect("a full body must be readable");
    })?;
    let sender = clients.sender("measured");
    measure(runtime, "Sender", calls, || async {
        let response = sender.send(request(&content)).await.expect("the service always answers");
        response.into_body().collect().await.expect("a full body must be readable");
    })?;
    let client = sender.client();
    measure(runtime, "kube::Client", calls, || async {
        let response =
            client.send(request(&content).map(Body::from)).await.expect("the service always answers");
        response.into_body().collect().await.expect("a full body must be readable");
    })
}

/// A request as controllers make them.
fn request(content: &Bytes) -> Request<Bytes> {
    Request::builder()
        .method(Method::POST)
        .uri("/api/v1/namespaces/default/pods")
        .header(ACCEPT, "application/vnd.kubernetes.protobuf,application/json")
        .header(CONTENT_TYPE, "application/vnd.kubernetes.protobuf")
        .body(content.clone())
        .expect("a constant request must be valid")
}

/// Makes the call so many times, one after the other, and prints what one costs.
fn measure<F: Future<Output = ()>>(
    runtime: &Runtime,
    name: &str,
    calls: u32,
    call: impl Fn() -> F,
) -> std::io::Result<()> {
    runtime.block_on(async {
        for _ in 0..calls / 10 {
            call().await;
        }
        let (allocations, started) = (Region::new(ALLOCATOR), processor_time());
        for _ in 0..calls {
            call().await;
        }
        let (spent, allocated) = (processor_time() - started, allocations.change());
        let calls = f64::from(calls);
        writeln!(
            std::io::stdout(),
            "  {name:<14}{:>7.2} microseconds{:>7.1} allocations{:>8.0} bytes allocated",
            spent.as_secs_f64() * 1e6 / calls,
            count(allocated.allocations) / calls,
            count(allocated.bytes_allocated) / calls,
        )
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn count(number: usize) -> f64 {
    number as f64
}

/// The processor time of this process.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().expect("processor time must be positive")
}
