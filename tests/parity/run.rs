//! One script against one server.

use std::time::Duration;

use http::HeaderMap;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use steersman_api::schema;
use steersman_api::wire::{Reader, WireError};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::script::{Names, Script, Step};

/// How long any answer may take, watches too.
const LONGEST: Duration = Duration::from_secs(60);

/// What a server said.
#[derive(Debug, Clone)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    /// JSON, whatever it was sent as; of a watch, a list of its events; otherwise text.
    pub body: Value,
}

/// Takes all steps.
///
/// # Panics
/// Where a server does not answer, or with what can't be read.
pub async fn run(script: &Script, config: kube::Config) -> Vec<Answer> {
    let client = kube::Client::try_from(config).unwrap();
    let mut names = Names::new(&script.namespace);
    let namespace = Step {
        title: "the namespace of the script".to_owned(),
        method: "POST".to_owned(),
        path: "/api/v1/namespaces".to_owned(),
        headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
        body: json!({"metadata": {"name": script.namespace}}).to_string(),
        ..Step::default()
    };
    let made = begin(&client, &namespace, &names).await;
    assert_eq!(made.status(), 201, "{}", script.namespace);
    let mut answers: Vec<Option<Answer>> = Vec::new();
    // What goes on beside the steps, each with its place among them.
    let mut beside = JoinSet::new();
    for (place, step) in script.steps.iter().enumerate() {
        let response = begin_until(&client, step, &names).await;
        let answer = read_in_time(step, response);
        if step.beside {
            beside.spawn(async move { (place, answer.await) });
            answers.push(None);
            continue;
        }
        let answer = answer.await;
        for (name, path) in &step.kept {
            let found = path.split('.').fold(&answer.body, |value, part| match part.parse::<usize>() {
                Ok(index) => &value[index],
                Err(_) => &value[part],
            });
            let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            assert!(!found.is_null(), "{}: no {path} in {answer:#?}", step.title);
            names.keep(name, text);
        }
        answers.push(Some(answer));
    }
    for (place, answer) in beside.join_all().await {
        answers[place] = Some(answer);
    }
    answers.into_iter().map(|answer| answer.unwrap()).collect()
}

/// What a step's answer turns out to be.
fn read_in_time(step: &Step, response: http::Response<Body>) -> impl Future<Output = Answer> + Send + use<> {
    let (title, events, is_watch) = (step.title.clone(), step.events, step.is_watch());
    async move {
        let read = tokio::time::timeout(LONGEST, read(response, is_watch, events)).await;
        read.unwrap_or_else(|_| panic!("{title}: no end"))
    }
}

/// Asks until the answer has the code that the step waits for.
async fn begin_until(client: &kube::Client, step: &Step, names: &Names) -> http::Response<Body> {
    let began = Instant::now();
    loop {
        let response = begin(client, step, names).await;
        let code = response.status();
        if step.until.is_none_or(|until| code == until) {
            return response;
        }
        let late = began.elapsed() > LONGEST;
        assert!(!late, "{}: still {:#?}", step.title, read(response, false, None).await);
    }
}

async fn begin(client: &kube::Client, step: &Step, names: &Names) -> http::Response<Body> {
    let path = String::from_utf8(names.fill(&step.path)).unwrap();
    let mut body = names.fill(&step.body);
    if step.header("content-type") == "application/vnd.kubernetes.protobuf" && body.starts_with(b"{") {
        let object = serde_json::from_slice(&body).unwrap();
        // What says of no kind what it is goes as it stands.
        body = schema::encode(&object).unwrap_or(body);
    }
    let mut request = http::Request::builder().method(step.method.as_str()).uri(path);
    for (name, value) in step.headers.iter().filter(|(_, value)| value != "none") {
        request = request.header(name, names.fill(value));
    }
    let request = request.body(Body::from(body)).unwrap_or_else(|error| panic!("{}: {error}", step.title));
    let answer = tokio::time::timeout(LONGEST, client.send(request)).await;
    answer
        .unwrap_or_else(|_| panic!("{}: no answer", step.title))
        .unwrap_or_else(|error| panic!("{}: {error}", step.title))
}

async fn read(response: http::Response<Body>, is_watch: bool, events: Option<usize>) -> Answer {
    let (head, mut body) = response.into_parts();
    let media_type = head.headers.get("content-type").map_or("", |value| value.to_str().unwrap()).to_owned();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
            Err(error) => panic!("broken off: {error}"),
        }
        let enough = events.is_some_and(|events| frames(&media_type, &bytes).len() >= events);
        if is_watch && head.status == 200 && enough {
            break;
        }
    }
    let body = if is_watch && head.status == 200 {
        Value::Array(frames(&media_type, &bytes).into_iter().take(events.unwrap_or(usize::MAX)).collect())
    } else {
        one(&media_type, &bytes)
    };
    Answer { code: head.status.as_u16(), headers: head.headers, body }
}

/// An object, or text.
fn one(media_type: &str, bytes: &[u8]) -> Value {
    let text = || Value::String(String::from_utf8_lossy(bytes).into_owned());
    if media_type.starts_with("application/vnd.kubernetes.protobuf") {
        return schema::decode(bytes).unwrap_or_else(|error| panic!("{error}: {:?}", text()));
    }
    serde_json::from_slice(bytes).unwrap_or_else(|_| text())
}

/// The whole events of a watch, so far.
fn frames(media_type: &str, mut bytes: &[u8]) -> Vec<Value> {
    if !media_type.starts_with("application/vnd.kubernetes.protobuf") {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        return lines.map(|line| one("", line)).collect();
    }
    let mut events = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<4>() {
        let len = usize::try_from(u32::from_be_bytes(*len)).unwrap();
        let Some((event, rest)) = rest.split_at_checked(len) else { break };
        events.push(watch_event(event).unwrap());
        bytes = rest;
    }
    events
}

/// A `metav1.WatchEvent`.
fn watch_event(bytes: &[u8]) -> Result<Value, WireError> {
    let (mut kind, mut object) = (String::new(), Value::Null);
    let mut event = Reader::new(bytes);
    while let Some(field) = event.field()? {
        match field.number {
            1 => kind = field.text()?.to_owned(),
            2 => {
                let mut extension = field.message()?;
                while let Some(field) = extension.field()? {
                    object = one("application/vnd.kubernetes.protobuf", field.bytes()?);
                }
            }
            _ => {}
        }
    }
    Ok(json!({"type": kind, "object": object}))
}
