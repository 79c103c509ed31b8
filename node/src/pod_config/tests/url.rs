//! The source URL over a small server on the loopback.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::pod_config::{PodConfig, PodOperation, PodUpdate, Source};

const ONE: &str =
    "{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: c, image: i}]}}";
const TWO: &str = "{apiVersion: v1, kind: PodList, items: [{metadata: {name: two}, spec: {containers: [{name: c, image: i}]}}]}";

/// Serves answers in their order, the last one for ever, and remembers the requests.
async fn serve(answers: Vec<String>) -> (String, Arc<Mutex<Vec<String>>>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/manifest", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut answers = VecDeque::from(answers);
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.unwrap());
            }
            seen.lock().push(String::from_utf8(request).unwrap());
            let answer = if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (url, requests, tasks)
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

async fn next(updates: &mut tokio::sync::mpsc::Receiver<PodUpdate>) -> (PodOperation, Vec<String>) {
    let update = tokio::time::timeout(Duration::from_secs(10), updates.recv()).await;
    let update = update.expect("an update must come").expect("the source must be alive");
    (update.op, update.pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect())
}

#[tokio::test]
async fn what_an_address_says_becomes_pods_and_a_bad_answer_changes_nothing() {
    let moved =
        "HTTP/1.1 302 Found\r\nconnection: close\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"
            .to_owned();
    let answers = vec![
        answer("200 OK", ""),
        answer("200 OK", ONE),
        answer("500 Internal Server Error", "no"),
        answer("200 OK", "{kind: Nothing}"),
        moved,
        answer("200 OK", TWO),
    ];
    let (url, requests, _server) = serve(answers).await;
    let (config, mut updates) = PodConfig::new(None);
    let stop = CancellationToken::new();
    let mut headers = HeaderMap::new();
    headers.insert("x-secret", "word".parse().unwrap());
    let asked = Config { url, headers, period: Duration::from_millis(1) };
    let handle = config.source(Source::Http);
    let mut source = JoinSet::new();
    let token = stop.clone();
    source.spawn(async move { run(asked, "n", handle, token).await });
    assert_eq!(next(&mut updates).await, (PodOperation::Add, vec![]), "an empty answer was heard");
    assert_eq!(next(&mut updates).await, (PodOperation::Add, vec!["one-n".to_owned()]));
    assert_eq!(next(&mut updates).await, (PodOperation::Remove, vec!["one-n".to_owned()]));
    assert_eq!(next(&mut updates).await, (PodOperation::Add, vec!["two-n".to_owned()]));
    stop.cancel();
    assert!(source.join_next().await.unwrap().unwrap().is_ok());
    let requests = requests.lock();
    assert!(
        requests[0].starts_with("GET /manifest HTTP/1.1\r\n") && requests[0].contains("x-secret: word\r\n")
    );
    assert!(requests[5].starts_with("GET /elsewhere "), "{}", requests[5]);
}

#[tokio::test]
async fn an_answer_that_did_not_change_is_not_read_again() {
    let (url, _, _server) = serve(vec![answer("200 OK", ONE)]).await;
    let config = Config { url, headers: HeaderMap::new(), period: CHECK_FREQUENCY };
    let mut address = Address::new(config, "n").unwrap();
    assert_eq!(address.ask().await.unwrap().unwrap().len(), 1);
    assert!(address.ask().await.unwrap().is_none());
}

#[test]
fn secret_headers_go_to_the_configured_server_alone() {
    let first: Uri = "https://manifests:8443/pods".parse().unwrap();
    for (location, expected) in [
        ("/elsewhere", true),
        ("https://manifests:8443/elsewhere", true),
        ("http://manifests:8443/pods", false),
        ("https://manifests/pods", false),
        ("https://others:8443/pods", false),
    ] {
        assert_eq!(is_same_origin(&resolved(&first, location).unwrap(), &first), expected, "{location}");
    }
}
