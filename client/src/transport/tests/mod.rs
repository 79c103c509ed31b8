use std::sync::atomic::AtomicU32;

use futures::FutureExt as _;
use http::Method;
use http_body_util::BodyExt;
use kube::Config;
use tokio::time::timeout;

use self::server::{Authority, Folder, Server, Speaks, Wire, der, eventually};
use super::*;
use crate::{Clients, clients, fault::Fault, testing::request};

mod server;
mod sick_http2;

/// Long enough for anything on one machine.
const SOON: Duration = Duration::from_secs(60);

fn config(url: Uri, authority: &Authority) -> Config {
    let mut config = Config::new(url);
    config.root_cert = Some(vec![der(&authority.pem()).unwrap()]);
    config
}

fn start(config: Config, options: Options) -> (Transport, BaseService) {
    connect(config, options).unwrap()
}

async fn get(service: &BaseService, path: &str) -> Result<Response<RawBody>, BoxError> {
    timeout(SOON, service.clone().oneshot(request(Method::GET, path))).await.unwrap()
}

async fn body(answer: Response<RawBody>) -> String {
    let bytes = timeout(SOON, answer.into_body().collect()).await.unwrap().unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A watch whose first line has been read.
async fn watch(service: &BaseService, path: &str) -> RawBody {
    let mut body = get(service, &format!("{path}?watch=true")).await.unwrap().into_body();
    let line = timeout(SOON, body.frame()).await.unwrap().unwrap().unwrap();
    assert_eq!(line.into_data().unwrap(), "ok\n");
    body
}

/// Waits until a watch breaks off.
async fn broken(mut watch: RawBody) {
    let end = timeout(SOON, watch.frame()).await.expect("a watch must not hang");
    assert!(matches!(end, Some(Err(_))), "{end:?}");
}

#[tokio::test]
async fn watches_are_spread_and_other_traffic_has_connections_of_its_own() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http2(100)).await;
    let options = Options { batched_watches: vec!["/leases"], ..Options::default() };
    let (transport, service) = start(config(server.url(), &authority), options);
    let watches = futures::future::join_all((0..250).map(|_| watch(&service, "/watch"))).await;
    assert_eq!(transport.connections(Traffic::Watch), 4);

    body(get(&service, "/read").await.unwrap()).await;
    service.clone().oneshot(request(Method::PUT, "/write")).await.unwrap();
    service.clone().oneshot(lease_call()).await.unwrap();
    watch(&service, "/leases").await;

    let served: Vec<Vec<String>> = server.connections().into_iter().map(|served| served.paths).collect();
    let watched: Vec<usize> = served.iter().filter(|paths| paths[0] == "/watch").map(Vec::len).collect();
    assert_eq!(watched, [80, 80, 80, 10]);
    assert_eq!(served[4..], [["/read"], ["/write"], ["/lease"], ["/leases"]]);

    // Returned streams are used again.
    drop(watches);
    let again = futures::future::join_all((0..100).map(|_| watch(&service, "/watch"))).await;
    assert_eq!(server.connections().len(), 8);
    drop(again);
}

#[tokio::test]
async fn a_server_that_allows_fewer_streams_is_heeded() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http2(5)).await;
    let (transport, service) = start(config(server.url(), &authority), Options::default());
    let mut watches = Vec::new();
    for _ in 0..12 {
        watches.push(watch(&service, "/watch").await);
    }
    assert_eq!(transport.connections(Traffic::Watch), 3);
}

/// Whether the server has received a request for this path.
fn has_come(server: &Server, path: &str) -> bool {
    server.connections().iter().any(|served| served.paths.iter().any(|known| known == path))
}

#[tokio::test]
async fn a_connection_whose_other_end_is_gone_is_found_by_pings_and_replaced() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http2(100)).await;
    let wire = Wire::to(&server).await;
    let options = Options {
        read_idle: Duration::from_millis(50),
        ping_timeout: Duration::from_millis(50),
        ..Options::default()
    };
    let (transport, service) = start(config(wire.url(), &authority), options);
    let first = watch(&service, "/watch").await;
    body(get(&service, "/idle").await.unwrap()).await;
    let write = service.clone().oneshot(request(Method::PUT, "/slow"));
    let mut write = std::pin::pin!(write);
    tokio::select! {
        answer = &mut write => panic!("the server must not answer yet: {answer:?}"),
        () = eventually("the write has come", || has_come(&server, "/slow")) => {}
    }
    wire.freeze();
    broken(first).await;
    let error = timeout(SOON, write).await.expect("a write must not hang").unwrap_err();
    assert_eq!(Fault::of(&*error), Fault::Broken, "{error}");
    // Pings detect the other connection too, although it has no open stream, so this request does not hang on it.
    eventually("the idle connection is given up", || transport.connections(Traffic::Read) == 0).await;
    body(get(&service, "/read").await.unwrap()).await;
    drop(watch(&service, "/watch").await);
    let served: Vec<_> = server.connections().into_iter().map(|served| served.paths).collect();
    assert_eq!(served, [["/watch"], ["/idle"], ["/slow"], ["/read"], ["/watch"]]);
}

fn lease_call() -> Request<Body> {
    let mut request = request(Method::PUT, "/lease");
    request.extensions_mut().insert(Traffic::Lease);
    request
}

#[tokio::test]
async fn a_connection_of_leases_whose_other_end_is_gone_is_found_within_a_third_of_the_lease() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http2(100)).await;
    let wire = Wire::to(&server).await;
    let options = Options { lease_duration: Duration::from_secs(3), ..Options::default() };
    let (transport, service) = start(config(wire.url(), &authority), options);
    body(service.oneshot(lease_call()).await.unwrap()).await;
    assert_eq!(transport.connections(Traffic::Lease), 1);
    wire.freeze();
    eventually("the connection of leases is given up", || transport.connections(Traffic::Lease) == 0).await;
}

#[test]
fn only_connections_of_leases_are_held_to_the_leases_duration() {
    let options = Options::default();
    for (traffic, lease, connecting, noticing) in [
        (Traffic::Lease, 15, 5, 5),
        (Traffic::Lease, 60, 20, 20),
        // The limits are never above those of other connections.
        (Traffic::Lease, 3600, 30, 45),
        (Traffic::Watch, 15, 30, 45),
        (Traffic::Read, 15, 30, 45),
        (Traffic::Write, 15, 30, 45),
    ] {
        let options = Options { lease_duration: Duration::from_secs(lease), ..options.clone() }.of(traffic);
        let found = (options.connect_timeout.as_secs(), (options.read_idle + options.ping_timeout).as_secs());
        assert_eq!(found, (connecting, noticing), "{traffic:?} {lease}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_kernel_discards_a_write_that_is_not_taken_in_time() {
    // A server whose receive buffer fills up: it acknowledges no more, as behind a network that is cut.
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Uri = format!("http://{}", server.local_addr().unwrap()).parse().unwrap();
    let options = Options { write_unacknowledged: Duration::from_millis(300), ..Options::default() };
    let (transport, service) = start(Config::new(url), options);
    let large = Body::from(vec![b' '; 32 << 20]);
    let write = Request::builder().method(Method::POST).uri("/api/v1/namespaces/a/pods").body(large).unwrap();
    let write = timeout(SOON, service.oneshot(write));
    let (outcome, _taken) = tokio::join!(write, server.accept());
    let error = outcome.expect("the write must not hang").unwrap_err();
    assert_eq!(Fault::of(&*error), Fault::Broken, "{error}");
    transport.close().await;
}

#[tokio::test]
async fn a_call_of_a_lease_that_timed_out_sends_the_next_one_over_another_connection() {
    for speaks in [Speaks::Http2(100), Speaks::Http1] {
        let authority = Authority::new();
        let server = Server::start(&authority, speaks).await;
        let wire = Wire::to(&server).await;
        let (_transport, service) = start(config(wire.url(), &authority), Options::default());
        body(service.clone().oneshot(lease_call()).await.unwrap()).await;
        wire.freeze();
        let hung = timeout(Duration::from_millis(50), service.clone().oneshot(lease_call())).await;
        assert!(hung.is_err(), "{speaks:?}: a frozen connection answers");
        let next = timeout(SOON, service.clone().oneshot(lease_call())).await;
        body(next.unwrap_or_else(|_| panic!("{speaks:?}: the next call hangs as well")).unwrap()).await;
    }
}

#[tokio::test]
async fn a_call_of_a_lease_whose_body_never_ends_sends_the_next_one_over_another_connection() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http2(100)).await;
    let (_transport, service) = start(config(server.url(), &authority), Options::default());
    let mut endless = request(Method::GET, "/watch");
    endless.extensions_mut().insert(Traffic::Lease);
    let answer = service.clone().oneshot(endless).await.unwrap();
    assert!(timeout(Duration::from_millis(50), answer.into_body().collect()).await.is_err());
    for _ in 0..3 {
        body(timeout(SOON, service.clone().oneshot(lease_call())).await.unwrap().unwrap()).await;
    }
    let served: Vec<_> = server.connections().into_iter().map(|served| served.paths).collect();
    assert_eq!(served, [vec!["/watch"], vec!["/lease"; 3]], "calls that were answered retire nothing");
}

#[tokio::test]
async fn a_healthy_quiet_connection_survives_its_pings() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http2(100)).await;
    let options = Options { read_idle: Duration::from_millis(10), ..Options::default() };
    let (_transport, service) = start(config(server.url(), &authority), options);
    let mut quiet = watch(&service, "/watch").await;
    assert!(
        timeout(Duration::from_millis(200), quiet.frame()).await.is_err(),
        "a watch that was left in peace ended"
    );
}

#[tokio::test]
async fn after_a_goodbye_streams_go_on_and_requests_go_elsewhere() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http2(100)).await;
    let (_transport, service) = start(config(server.url(), &authority), Options::default());
    let slow = get(&service, "/slow");
    let mut slow = std::pin::pin!(slow);
    assert!(futures::poll!(&mut slow).is_pending());
    body(get(&service, "/one").await.unwrap()).await;
    let there = || has_come(&server, "/slow");
    tokio::select! {
        _ = &mut slow => panic!("it was not told to hurry"),
        () = eventually("the slow request is there", there) => {}
    }
    server.say_goodbye();
    // A request is answered whether it is sent before or after the GOAWAY arrives.
    for _ in 0..50 {
        body(get(&service, "/two").await.unwrap()).await;
        tokio::task::yield_now().await;
    }
    eventually("another connection is made", || server.connections().len() == 2).await;
    server.hurry();
    assert_eq!(body(slow.await.unwrap()).await, "ok\n");
}

#[tokio::test]
async fn http_1_1_is_spoken_where_the_server_wants_it() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http1).await;
    let (_transport, service) = start(config(server.url(), &authority), Options::default());
    for _ in 0..20 {
        assert_eq!(body(get(&service, "/read").await.unwrap()).await, "ok\n");
        tokio::task::yield_now().await;
    }
    let kept = server.connections().len();
    assert!(kept <= 3, "{kept} connections for one request at a time");
    let watches = futures::future::join_all((0..10).map(|_| watch(&service, "/watch"))).await;
    assert_eq!(server.connections().len(), kept + 10);
    drop(watches);
}

#[tokio::test]
async fn a_rotated_client_certificate_replaces_connections_without_breaking_requests_under_way() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let server = Server::start(&authority, Speaks::Http2(100)).await;
    let (old, new) = (authority.issue(), authority.issue());
    let mut config = config(server.url(), &authority);
    config.auth_info.client_certificate = Some(folder.write("tls.crt", &old.certificate));
    config.auth_info.client_key = Some(folder.write("tls.key", &old.key));
    let options = Options { certificate_poll: Duration::from_millis(20), ..Options::default() };
    let (_transport, service) = start(config, options);
    let watched = watch(&service, "/watch").await;
    let slow = service.clone().oneshot(request(Method::PUT, "/slow"));
    let mut slow = std::pin::pin!(slow);
    tokio::select! {
        answer = &mut slow => panic!("the server must not answer yet: {answer:?}"),
        () = eventually("the slow request has come", || has_come(&server, "/slow")) => {}
    }

    folder.write("tls.crt", &new.certificate);
    folder.write("tls.key", &new.key);
    broken(watched).await;
    drop(watch(&service, "/watch").await);
    service.clone().oneshot(request(Method::PUT, "/write")).await.unwrap();
    server.hurry();
    assert_eq!(body(slow.await.unwrap()).await, "ok\n");

    let client_of = |path: &str| {
        let served = server.connections();
        served.into_iter().rfind(|served| served.paths.iter().any(|known| known == path)).unwrap().client
    };
    assert_eq!(client_of("/slow"), der(&old.certificate));
    assert_eq!(client_of("/watch"), der(&new.certificate));
    assert_eq!(client_of("/write"), der(&new.certificate));
}

#[tokio::test]
async fn a_refusal_makes_the_client_look_for_a_renewed_certificate_at_once() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http2(100)).await;
    let (folder, expired, renewed) = (Folder::new(), authority.issue(), authority.issue());
    let mut config = config(server.url(), &authority);
    config.auth_info.client_certificate = Some(folder.write("tls.crt", &expired.certificate));
    config.auth_info.client_key = Some(folder.write("tls.key", &expired.key));
    let (transport, service) = start(config, Options::default());
    let watch = watch(&service, "/watch").await;
    body(get(&service, "/refused").await.unwrap()).await;
    assert_eq!(transport.connections(Traffic::Read), 1, "the file has not changed");

    folder.write("tls.crt", &renewed.certificate);
    folder.write("tls.key", &renewed.key);
    let looked = async {
        while server.connections().iter().all(|served| served.client != der(&renewed.certificate)) {
            body(get(&service, "/refused").await.unwrap()).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, looked).await.expect("the renewed certificate must come into use");
    broken(watch).await;
}

#[tokio::test]
async fn a_certificate_whose_key_is_not_there_yet_is_not_used() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let (old, new) = (authority.issue(), authority.issue());
    let mut config = config("https://127.0.0.1:1".parse().unwrap(), &authority);
    config.auth_info.client_certificate = Some(folder.write("tls.crt", &old.certificate));
    config.auth_info.client_key = Some(folder.write("tls.key", &old.key));
    let tls = Tls::new(config, &Options::default()).unwrap();
    let generation = tls.generation();
    for (file, text, expected) in [
        ("tls.crt", new.certificate.as_str(), 0),
        ("tls.crt", "", 0),
        ("tls.crt", old.certificate.as_str(), 0),
        ("tls.crt", new.certificate.as_str(), 0),
        ("tls.key", new.key.as_str(), 1),
    ] {
        folder.write(file, text);
        tls.refresh();
        assert_eq!(*generation.borrow(), expected, "{file}: {text}");
    }
}

#[tokio::test]
async fn a_rotated_authority_is_trusted_from_the_next_connection_on() {
    let (old, new, folder) = (Authority::new(), Authority::new(), Folder::new());
    let server = Server::start(&old, Speaks::Http2(100)).await;
    let mut config = config(server.url(), &old);
    config.root_cert_file = Some(folder.write("ca.crt", &old.pem()).into());
    let (transport, service) = start(config, Options::default());
    let watched = watch(&service, "/watch").await;

    server.certify(&new);
    let error = get(&service, "/read").await.unwrap_err();
    assert!(error.to_string().contains("can't connect to 127.0.0.1"), "{error}");
    assert_eq!(Fault::of(&*error), Fault::Other, "waiting does not help");

    folder.write("ca.crt", &new.pem());
    body(get(&service, "/read").await.unwrap()).await;
    assert_eq!(transport.connections(Traffic::Watch), 1, "what stands was verified");
    drop(watched);
}

#[tokio::test]
async fn a_refused_connection_fails_all_who_wait_for_it_before_anything_is_sent() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let (_transport, service) = start(config(url, &Authority::new()), Options::default());
    for outcome in futures::future::join_all((0..20).map(|_| get(&service, "/read"))).await {
        let error = outcome.unwrap_err();
        assert_eq!(Fault::of(&*error), Fault::Unreachable, "{error}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_at_once_is_not_asked_for_ever() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            drop(connection);
        }
    });
    let (_transport, service) = start(Config::new(url), Options::default());
    get(&service, "/read").await.unwrap_err();
    assert!(calls.load(std::sync::atomic::Ordering::Relaxed) <= 10);
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http2(100)).await;
    let options = Options { idle_timeout: Duration::from_millis(60), ..Options::default() };
    let (transport, service) = start(config(server.url(), &authority), options);
    let watched = watch(&service, "/watch").await;
    body(get(&service, "/read").await.unwrap()).await;
    eventually("the idle connection is closed", || transport.connections(Traffic::Read) == 0).await;
    let ended = || server.connections().iter().map(|served| served.ended).collect::<Vec<_>>();
    eventually("the server sees it", || ended() == [false, true]).await;
    assert_eq!(transport.connections(Traffic::Watch), 1);
    drop(watched);
}

#[tokio::test]
async fn a_connection_ends_with_its_last_reader_once_the_transport_is_gone() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http2(100)).await;
    let (transport, service) = start(config(server.url(), &authority), Options::default());
    let mut watched = watch(&service, "/watch").await;
    body(get(&service, "/read").await.unwrap()).await;
    drop((transport, service));
    let ended = || server.connections().iter().map(|served| served.ended).collect::<Vec<_>>();
    eventually("the one without readers ends", || ended() == [false, true]).await;
    assert!(watched.frame().now_or_never().is_none(), "the watch must go on");
    drop(watched);
    eventually("the other one ends, too", || ended() == [true, true]).await;
}

async fn put(service: &BaseService, path: &str, length: usize) -> Response<RawBody> {
    let mut request = request(Method::PUT, path);
    *request.body_mut() = Body::from(vec![b'x'; length]);
    timeout(SOON, service.clone().oneshot(request)).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_body_larger_than_the_window_of_the_server_arrives_whole() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http2(100)).await;
    let (_transport, service) = start(config(server.url(), &authority), Options::default());
    for length in [0, 1, 5 << 20] {
        assert_eq!(body(put(&service, "/count", length).await).await, format!("{length}\n"));
    }
    assert_eq!(server.connections()[0].paths, ["/count"; 3]);
}

#[tokio::test]
async fn a_server_may_answer_before_it_has_read_the_body() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http2(100)).await;
    let (transport, service) = start(config(server.url(), &authority), Options::default());
    for _ in 0..3 {
        assert_eq!(body(put(&service, "/early", 5 << 20).await).await, "ok\n");
    }
    assert_eq!(transport.connections(Traffic::Write), 1);
    assert_eq!(server.connections().len(), 1);
}

#[tokio::test]
async fn after_close_no_task_is_left_and_nothing_is_sent() {
    let authority = Authority::new();
    let server = Server::start(&authority, Speaks::Http2(100)).await;
    let clients = Clients::connect(config(server.url(), &authority), clients::Options::default()).unwrap();
    let client = clients.component("test");
    let watched = clients.watch_client().send(request(Method::GET, "/watch?watch=1")).await.unwrap();
    timeout(SOON, clients.close()).await.expect("tasks must end");
    timeout(SOON, watched.into_body().collect_bytes()).await.unwrap().unwrap_err();
    let error = client.send(request(Method::POST, "/write")).await.unwrap_err();
    assert!(error.to_string().contains("closed") && crate::fault::surely_not_done(&error), "{error}");
    assert_eq!(server.connections().len(), 1);
}

#[tokio::test]
async fn what_cannot_work_is_said_at_once() {
    let mut config = Config::new("https://a:1".parse().unwrap());
    config.proxy_url = Some("http://proxy:3128".parse().unwrap());
    assert!(matches!(connect(config.clone(), Options::default()), Err(Error::Proxy(_))));
    config.proxy_url = None;
    config.auth_info.token_file = Some("/nowhere/token".to_owned());
    let error = connect(config.clone(), Options::default()).err().unwrap();
    assert!(error.to_string().contains("/nowhere/token"), "{error}");
    config.auth_info.token_file = None;
    config.auth_info.client_certificate = Some("/nowhere/tls.crt".to_owned());
    let error = connect(config, Options::default()).err().unwrap();
    assert!(error.to_string().contains("/nowhere/tls.crt"), "{error}");
}
