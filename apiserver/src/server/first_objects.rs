//! What the cluster of a server for people has besides: roles, and the service by which pods find the server.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};

use super::roles::Roles;
use crate::access::Identity;
use crate::codec;
use crate::rest::ApiServer;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// The first address of the range of services.
const SERVICE_ADDRESS: &str = "10.0.0.1";

/// Makes the roles that are missing, and their bindings. Those that somebody changed stay as they are.
pub(super) async fn make(server: &ApiServer) {
    let Roles { roles, bindings } = Roles::all();
    let all = [(format!("{RBAC}/clusterroles"), roles), (format!("{RBAC}/clusterrolebindings"), bindings)];
    // Together, so that they are stored together.
    let all =
        all.iter().flat_map(|(path, objects)| objects.iter().map(move |object| ensure(server, path, object)));
    futures::future::join_all(all).await;
}

/// Tells pods where the server is, by the service `kubernetes` and its endpoints. Where it listens at the loopback only,
/// and has no other address either, nothing is behind the service: pods can't reach it.
pub(super) async fn announce(server: &ApiServer, listening: SocketAddr, names: &[String]) {
    let port = listening.port();
    let service = json!({
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": SERVICE_ADDRESS,
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
        },
    });
    let address = address_for_pods(listening.ip(), names);
    let ports = json!([{"name": "https", "protocol": "TCP", "port": port}]);
    let subset = |address: &IpAddr| json!({"addresses": [{"ip": address.to_string()}], "ports": ports});
    let subsets: Vec<Value> = address.iter().map(subset).collect();
    let endpoints = json!({
        "metadata": {"name": "kubernetes", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": subsets,
    });
    let endpoint =
        |address: &IpAddr| json!({"addresses": [address.to_string()], "conditions": {"ready": true}});
    let of_slice: Vec<Value> = address.iter().map(endpoint).collect();
    let slice = json!({
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": if address.is_some_and(|address| address.is_ipv6()) { "IPv6" } else { "IPv4" },
        "endpoints": of_slice,
        "ports": ports,
    });
    for (resource, object) in [
        ("/api/v1/namespaces/default/services", service),
        ("/api/v1/namespaces/default/endpoints", endpoints),
        ("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice),
    ] {
        renew(server, resource, &object).await;
    }
}

/// The one it listens at, or the first other one that it is known by: neither the loopback nor "all".
fn address_for_pods(listening: IpAddr, names: &[String]) -> Option<IpAddr> {
    let others = names.iter().filter_map(|name| name.parse().ok());
    std::iter::once(listening)
        .chain(others)
        .find(|address| !address.is_loopback() && !address.is_unspecified())
}

/// Makes an object if it is not there.
async fn ensure(server: &ApiServer, path: &str, object: &Value) {
    match ask(server, Method::POST, path, "application/json", object).await {
        StatusCode::CREATED | StatusCode::CONFLICT => {}
        code => tracing::warn!(path, %code, "an object that every cluster has could not be made"),
    }
}

/// Makes an object, or changes it to what it should be.
async fn renew(server: &ApiServer, path: &str, object: &Value) {
    if ask(server, Method::POST, path, "application/json", object).await == StatusCode::CREATED {
        return;
    }
    let one = format!("{path}/{}", crate::object::text_at(object, "metadata.name"));
    let code = ask(server, Method::PATCH, &one, "application/merge-patch+json", object).await;
    if !code.is_success() {
        tracing::warn!(path = one, %code, "an object that every cluster has could not be renewed");
    }
}

async fn ask(server: &ApiServer, method: Method, path: &str, media_type: &str, body: &Value) -> StatusCode {
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, media_type);
    let mut request: Request<Bytes> =
        request.body(codec::json(body)).expect("a path of the API must make a request");
    request.extensions_mut().insert(Identity::master("system:apiserver"));
    // A server that was stopped before it began answers nothing.
    server.answer(request).await.map_or(StatusCode::SERVICE_UNAVAILABLE, |answer| answer.status())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_told_an_address_that_leads_out_of_them() {
        let names =
            ["localhost", "127.0.0.1", "box.example.com", "192.0.2.7", "192.0.2.8"].map(str::to_owned);
        for (listening, names, expected) in [
            ("192.0.2.1", &names[..], Some("192.0.2.1")),
            ("0.0.0.0", &names[..], Some("192.0.2.7")),
            ("127.0.0.1", &names[..2], None),
            ("::1", &[][..], None),
            ("2001:db8::1", &[][..], Some("2001:db8::1")),
        ] {
            let found = address_for_pods(listening.parse().unwrap(), names);
            assert_eq!(found, expected.map(|address| address.parse().unwrap()), "{listening}");
        }
    }
}
