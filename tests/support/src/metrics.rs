//! A server of metrics that the API server has as an extension: `metrics.k8s.io`, `custom.metrics.k8s.io` and
//! `external.metrics.k8s.io`, with the values that a test sets.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_api::Time;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use super::eventually;

/// The group and version of each API.
pub const RESOURCES: (&str, &str) = ("metrics.k8s.io", "v1beta1");
pub const CUSTOM: (&str, &str) = ("custom.metrics.k8s.io", "v1beta2");
pub const EXTERNAL: (&str, &str) = ("external.metrics.k8s.io", "v1beta1");

/// The server, which ends when this is dropped.
pub struct MetricsServer {
    state: Arc<Mutex<State>>,
    port: u16,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct State {
    /// The answers by path.
    answers: HashMap<String, Value>,
    /// The paths and queries of the requests so far, without those of discovery.
    requests: Vec<String>,
}

impl MetricsServer {
    /// Starts the server.
    pub async fn start() -> Self {
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let certificate = key.cert.der().clone();
        let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], private.into())
            .expect("the certificate must fit the key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port must be free");
        let port = listener.local_addr().expect("it is bound").port();
        let state = Arc::<Mutex<State>>::default();
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&state);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, state) = (acceptor.clone(), Arc::clone(&shared));
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let answer = service_fn(move |request: http::Request<Incoming>| {
                        let response = state.lock().answer(request.uri());
                        async move { Ok::<_, Infallible>(response) }
                    });
                    let server = auto::Builder::new(TokioExecutor::new());
                    drop(server.serve_connection(TokioIo::new(stream), answer).await);
                });
            }
        });
        Self { state, port, _tasks: tasks }
    }

    /// Makes the real API server send requests of an API here. Waits until it does.
    pub async fn register(&self, client: &kube::Client, namespace: &str, (group, version): (&str, &str)) {
        let service = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Service"));
        let services = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &service);
        let manager = PatchParams::apply("test").force();
        let manifest = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        services.patch("metrics", &manager, &Patch::Apply(manifest)).await.expect("a service");
        let kind = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
        let extensions = Api::<DynamicObject>::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        let name = format!("{version}.{group}");
        let manifest = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name},
            "spec": {
                "group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100,
                "insecureSkipTLSVerify": true,
                "service": {"namespace": namespace, "name": "metrics", "port": self.port},
            },
        });
        extensions.patch(&name, &manager, &Patch::Apply(manifest)).await.expect("an extension");
        let path = format!("/apis/{group}/{version}/ready-{}", self.port);
        self.answer_with(&path, json!({"kind": "Ready"}));
        eventually("the API server has the extension", || async {
            let request = http::Request::get(&path).body(Vec::new()).expect("it is a request");
            client.request_text(request).await.ok()
        })
        .await;
        self.state.lock().answers.remove(&path);
    }

    /// Removes an API from the API server.
    pub async fn unregister(client: &kube::Client, (group, version): (&str, &str)) {
        let kind = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
        let extensions = Api::<DynamicObject>::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        drop(extensions.delete(&format!("{version}.{group}"), &Default::default()).await);
        eventually("the API server lacks the extension", || async {
            let request = http::Request::get(format!("/apis/{group}/{version}")).body(Vec::new());
            client.request_text(request.expect("it is a request")).await.err()
        })
        .await;
    }

    /// Sets the answer at a path. The text `NOW` in it stands for the time of the answer.
    pub fn answer_with(&self, path: &str, answer: Value) {
        self.state.lock().answers.insert(path.to_owned(), answer);
    }

    /// Sets what the pods of a namespace use: the name of a pod, and its containers with their usage.
    pub fn usage(&self, namespace: &str, pods: &[(&str, Value)]) {
        let item = |(name, containers): &(&str, Value)| {
            let containers = containers.as_object().expect("containers by name").iter();
            let containers: Vec<Value> =
                containers.map(|(name, usage)| json!({"name": name, "usage": usage})).collect();
            json!({
                "metadata": {"name": name, "namespace": namespace}, "timestamp": "NOW", "window": "15s",
                "containers": containers,
            })
        };
        let items: Vec<Value> = pods.iter().map(item).collect();
        let list = json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items});
        self.answer_with(&format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"), list);
    }

    /// Sets the values of a custom metric. `resource` is like `pods/*`, `values` are by the names of objects.
    pub fn custom(&self, namespace: &str, resource: &str, kind: &str, metric: &str, values: &[(&str, &str)]) {
        let item = |(name, value): &(&str, &str)| {
            json!({
                "describedObject": {"kind": kind, "namespace": namespace, "name": name, "apiVersion": "v1"},
                "metric": {"name": metric, "selector": null}, "timestamp": "NOW", "value": value,
            })
        };
        let items: Vec<Value> = values.iter().map(item).collect();
        let list = json!({"kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2", "metadata": {}, "items": items});
        let path = format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/{resource}/{metric}");
        self.answer_with(&path, list);
    }

    /// Sets the values of the series of an external metric.
    pub fn external(&self, namespace: &str, metric: &str, values: &[&str]) {
        let item = |value: &&str| json!({"metricName": metric, "metricLabels": {}, "timestamp": "NOW", "value": value});
        let items: Vec<Value> = values.iter().map(item).collect();
        let list = json!({"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {}, "items": items});
        self.answer_with(
            &format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}"),
            list,
        );
    }

    /// The paths and queries of the requests for metrics so far.
    pub fn requests(&self) -> Vec<String> {
        self.state.lock().requests.clone()
    }
}

impl State {
    fn answer(&mut self, uri: &http::Uri) -> http::Response<http_body_util::Full<Bytes>> {
        // Go escapes the star in the paths of custom metrics.
        let path = &uri.path().replace("%2A", "*");
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let (status, body) = match (&segments[..], self.answers.get(path)) {
            (_, Some(answer)) => (200, answer.clone()),
            (["apis", group, version], None) => {
                let name = format!("{group}/{version}");
                (
                    200,
                    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": []}),
                )
            }
            _ => {
                let message = "the metric is not there";
                (
                    404,
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404, "message": message}),
                )
            }
        };
        if segments.len() > 3 {
            self.requests.push(uri.path_and_query().map(ToString::to_string).unwrap_or_default());
        }
        let now = serde_json::to_value(Time::now()).expect("a time is JSON");
        let text = body.to_string().replace("\"NOW\"", &now.to_string());
        http::Response::builder()
            .status(status)
            .header("content-type", "application/json")
            .body(text.into_bytes().into())
            .expect("it is a response")
    }
}
