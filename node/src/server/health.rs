//! Whether the agent is well.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use steersman_serving::{Evictable, Standing};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answers::{Answer, error, not_found, text};
use super::query::Query;

/// Connections that may be open to [`serve_healthz`].
const CONNECTIONS: usize = 64;
/// How long one may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a check found.
pub(super) type Found = Result<(), String>;

/// Answers for all checks: `ok` alone, unless somebody wants to know more. Reasons are withheld, since anybody may ask.
pub(super) fn healthz(checks: &[(&str, Found)], query: &Query) -> Answer {
    let mut excluded: Vec<&str> = query.all("exclude").collect();
    let (mut report, mut failed) = (String::new(), false);
    for (name, found) in checks {
        if excluded.contains(name) {
            excluded.retain(|excluded| excluded != name);
            report += &format!("[+]{name} excluded: ok\n");
        } else if let Err(reason) = found {
            failed = true;
            tracing::info!(check = name, reason, "healthz check failed");
            report += &format!("[-]{name} failed: reason withheld\n");
        } else {
            report += &format!("[+]{name} ok\n");
        }
    }
    if failed {
        return error(StatusCode::INTERNAL_SERVER_ERROR, &format!("{report}healthz check failed"));
    }
    if query.get("verbose").is_none() {
        return text(StatusCode::OK, "ok");
    }
    if !excluded.is_empty() {
        excluded.sort_unstable();
        excluded.dedup();
        let names: Vec<_> = excluded.iter().map(|name| format!("{name:?}")).collect();
        report +=
            &format!("warn: some health checks cannot be excluded: no matches for {}\n", names.join(","));
    }
    text(StatusCode::OK, report + "healthz check passed\n")
}

/// Answers for one check, with its reason.
pub(super) fn check(found: Found) -> Answer {
    match found {
        Ok(()) => text(StatusCode::OK, "ok"),
        Err(reason) => error(StatusCode::INTERNAL_SERVER_ERROR, &format!("internal server error: {reason}")),
    }
}

/// Serves `/healthz` and `/healthz/ping` over plain HTTP, until `stop`: that of `healthzBindAddress` and `healthzPort`, by
/// default 127.0.0.1:10248. It says that the process answers, no more; [`serve`](super::serve) says how the sync loop is.
pub async fn serve_healthz(listener: TcpListener, stop: CancellationToken) {
    let start = |stream, _, _: &Arc<Notify>| {
        let evictable: Arc<dyn Evictable> = Arc::new(Anybody(Instant::now()));
        (evictable, serve_connection(stream))
    };
    steersman_serving::accept(listener, CONNECTIONS, &stop, start).await.close().await;
}

/// A client of this port, which authenticates nobody, with the time when its connection was accepted.
struct Anybody(Instant);

impl Evictable for Anybody {
    fn standing(&self) -> Standing {
        Standing::Stranger(self.0)
    }
}

async fn serve_connection(stream: TcpStream) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "Connection for healthz failed");
    }
}

async fn answer(request: Request<Incoming>) -> Result<Answer, Infallible> {
    Ok(match request.uri().path() {
        "/healthz" => healthz(&[("ping", Ok(()))], &Query::parse(request.uri().query().unwrap_or_default())),
        "/healthz/ping" => check(Ok(())),
        _ => not_found(),
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn said(answer: Answer) -> (u16, String) {
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn health_is_ok_unless_a_check_fails() {
        let (well, ill) = (("ping", Ok(())), ("syncloop", Err("it is late".to_owned())));
        for (checks, query, expected) in [
            (vec![well.clone()], "", (200, "ok".to_owned())),
            (vec![well.clone()], "verbose", (200, "[+]ping ok\nhealthz check passed\n".into())),
            (
                vec![well.clone(), ill.clone()],
                "",
                (500, "[+]ping ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n".into()),
            ),
            (vec![well.clone(), ill.clone()], "exclude=syncloop", (200, "ok".into())),
            (
                vec![well, ill],
                "exclude=syncloop&exclude=x&verbose",
                (
                    200,
                    "[+]ping ok\n[+]syncloop excluded: ok\nwarn: some health checks cannot be excluded: no \
                     matches for \"x\"\nhealthz check passed\n"
                        .into(),
                ),
            ),
        ] {
            assert_eq!(said(healthz(&checks, &Query::parse(query))).await, expected, "{query}");
        }
        assert_eq!(said(check(Ok(()))).await, (200, "ok".into()));
        let reason = Err("it is late".to_owned());
        assert_eq!(said(check(reason)).await, (500, "internal server error: it is late\n".into()));
    }

    #[tokio::test]
    async fn the_plain_server_says_that_the_process_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let ask = |path: &'static str| async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let asking = async {
            assert!(ask("/healthz").await.ends_with("\r\n\r\nok"));
            assert!(ask("/healthz/ping").await.starts_with("HTTP/1.1 200 "));
            assert!(ask("/healthz/syncloop").await.starts_with("HTTP/1.1 404 "));
            assert!(ask("/pods").await.starts_with("HTTP/1.1 404 "));
            stop.cancel();
        };
        tokio::join!(serve_healthz(listener, stop.clone()), asking);
    }
}
