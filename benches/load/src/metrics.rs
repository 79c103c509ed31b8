//! A server of metrics, which the API server has as an extension.
//!
//! Every metric is close to what the autoscalers of [`autoscalers`](crate::autoscalers) aim at, and changes by 2 % from one
//! sync period to the next: managers write each status in each period, and no number of replicas.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use crate::{Error, report};

/// Pods of each target.
pub(crate) const PODS: usize = 2;
/// The sync period of the managers, in seconds.
const PERIOD: i64 = 15;
/// How often the API server is asked whether it has the extensions.
const LOOK: Duration = Duration::from_millis(200);

const APIS: [(&str, &str); 3] = [
    ("metrics.k8s.io", "v1beta1"),
    ("custom.metrics.k8s.io", "v1beta2"),
    ("external.metrics.k8s.io", "v1beta1"),
];

/// The name of a target, of its autoscaler, and the label `app` of its pods.
pub(crate) fn app(number: usize) -> String {
    format!("scaled-{number}")
}

/// The name of a pod of a target.
pub(crate) fn pod(app: &str, number: usize) -> String {
    format!("{app}-{number}")
}

/// Serves metrics until a signal ends it. Says `ready` once the API server has the extensions.
pub(crate) async fn run(client: &Client) -> Result<(), Error> {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()])
        .expect("a name must be good for a certificate");
    let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private.into())
        .expect("the certificate must fit its key");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Error::Serving)?;
    let port = listener.local_addr().map_err(Error::Serving)?.port();
    let registering = async {
        register(client, port).await?;
        report("ready");
        tokio::signal::ctrl_c().await?;
        Ok(())
    };
    tokio::select! {
        failed = serve(listener, acceptor) => Err(Error::Serving(failed)),
        ended = registering => ended,
    }
}

/// Answers requests. Returns only if no more connections can be accepted.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor) -> std::io::Error {
    let mut connections = JoinSet::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => return error,
        };
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service =
                service_fn(
                    |request: Request<Incoming>| async move { Ok::<_, Infallible>(answer(request.uri())) },
                );
            // The API server may drop its connections as it likes.
            drop(
                auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}

/// Makes the API server send requests for metrics to this port.
async fn register(client: &Client, port: u16) -> Result<(), Error> {
    let manager = PatchParams::apply("load").force();
    let apply = |resource: &ApiResource, manifest: Value| {
        let api = match manifest["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::<DynamicObject>::namespaced_with(client.clone(), namespace, resource),
            None => Api::all_with(client.clone(), resource),
        };
        let (manager, name) =
            (manager.clone(), manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        async move { api.patch(&name, &manager, &Patch::Apply(manifest)).await }
    };
    let service = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Service"));
    let manifest = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics", "namespace": "kube-system"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    apply(&service, manifest).await?;
    let extension =
        ApiResource::from_gvk(&GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService"));
    for (group, version) in APIS {
        let manifest = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}")},
            "spec": {
                "group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100,
                "insecureSkipTLSVerify": true,
                "service": {"namespace": "kube-system", "name": "metrics", "port": port},
            },
        });
        apply(&extension, manifest).await?;
        let path = format!("/apis/{group}/{version}/ready");
        loop {
            let request = Request::get(&path).body(Vec::new()).expect("the path must be good for a request");
            if client.request_text(request).await.is_ok() {
                break;
            }
            sleep(LOOK).await;
        }
    }
    Ok(())
}

fn answer(uri: &http::Uri) -> Response<Full<Bytes>> {
    let body = value_at(uri.path(), uri.query().unwrap_or_default(), Timestamp::now());
    let status = if body["kind"] == "Status" { 404 } else { 200 };
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(body.to_string().into_bytes().into()).expect("constant headers must be good")
}

/// The answer at a path, at this time.
fn value_at(path: &str, query: &str, now: Timestamp) -> Value {
    let more = u64::from(now.as_second() / PERIOD % 2 == 1);
    // `aim` is what autoscalers aim at, in thousandths.
    let of = |aim: u64| format!("{}m", aim + more * aim / 50);
    let time = now.to_string();
    // Go escapes the star, and selectors with one label differ only in the escaping of the sign.
    let path = path.replace("%2A", "*");
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let selected = query.split('&').find_map(|pair| pair.strip_prefix("labelSelector=app"));
    let app = selected.map(|value| value.trim_start_matches("%3D").trim_start_matches('=').to_owned());
    let pods = || (0..PODS).filter_map(|number| Some(pod(app.as_deref()?, number)));
    let list = |kind: &str, items: Vec<Value>| {
        let version = format!("{}/{}", segments[1], segments[2]);
        json!({"kind": kind, "apiVersion": version, "metadata": {}, "items": items})
    };
    let custom = |kind: &str, name: &str, value: String| {
        json!({
            "describedObject": {"kind": kind, "name": name, "apiVersion": "v1"}, "metric": {"name": "m"},
            "timestamp": time, "value": value,
        })
    };
    match segments[..] {
        ["apis", group, version] => json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"), "resources": [],
        }),
        ["apis", _, _, "ready"] => json!({"kind": "Ready"}),
        ["apis", "metrics.k8s.io", _, "namespaces", _, "pods"] => {
            let item = |name: String| {
                json!({
                    "metadata": {"name": name}, "timestamp": time, "window": "15s",
                    "containers": [{"name": "main", "usage": {"cpu": format!("{}m", 50 + more), "memory": "1Mi"}}],
                })
            };
            list("PodMetricsList", pods().map(item).collect())
        }
        ["apis", "custom.metrics.k8s.io", _, "namespaces", _, "pods", "*", _] => {
            list("MetricValueList", pods().map(|name| custom("Pod", &name, of(10_000))).collect())
        }
        ["apis", "custom.metrics.k8s.io", _, "namespaces", _, "services", name, _] => {
            list("MetricValueList", vec![custom("Service", name, of(100_000))])
        }
        ["apis", "external.metrics.k8s.io", _, "namespaces", _, _] => {
            let item = json!({"metricName": "m", "metricLabels": {}, "timestamp": time, "value": of(10_000)});
            list("ExternalMetricValueList", vec![item])
        }
        _ => json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404,
            "message": "no such metric",
        }),
    }
}
