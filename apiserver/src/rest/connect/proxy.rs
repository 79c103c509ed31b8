//! Proxies: requests that are passed on to a node, a pod or a service as they came.

use http::header::{HOST, HeaderName, HeaderValue, LOCATION};
use http::{Method, Response, StatusCode};
use steersman_api::ObjectKey;

use super::client::{Asked, strip_hop_by_hop};
use super::target::{self, Named, Target};
use super::{tunnel, with_query};
use crate::object::{list_at, text_at};
use crate::refusal::{Refusal, Result};
use crate::rest::Request;
use crate::rest::body::ResponseBody;
use crate::rest::server::ApiServer;

const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// What an answer may not say about who may read it: that is ours to say.
const CORS: [&str; 4] = [
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
];

impl ApiServer {
    /// Passes a request on to a node, a pod or a service, and the answer back.
    pub(super) async fn proxy(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let target = match request.call.resource.table.as_str() {
            "nodes" => self.proxied_node(request).await?,
            "services" => self.proxied_service(request)?,
            _ => self.proxied_pod(request)?,
        };
        self.pass_on(request, &target).await
    }

    /// Passes a request on to that target.
    pub(super) async fn pass_on(&self, request: &Request, target: &Target) -> Result<Response<ResponseBody>> {
        let path = clean(&request.call.path);
        let query = request.uri.query().unwrap_or_default();
        if tunnel::is_upgrade(&request.headers) {
            let asked = Asked::upgrade(request, with_query(path, query));
            return self.tunnel(request, target, asked).await;
        }
        if path.is_empty() && matches!(request.method, Method::GET | Method::HEAD) {
            return Ok(to_the_root(request, query));
        }
        let path = if path.is_empty() { "/".to_owned() } else { path };
        let mut asked = Asked::passed_on(request, with_query(path, query));
        let host = asked.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
        if let Ok(own) = HeaderValue::from_str(request.uri.path()) {
            asked.headers.insert(FORWARDED_URI, own);
        }
        let answered = self.outbound().ask(target, asked).await;
        let answered = answered
            .map_err(|error| Refusal::unavailable(format!("error trying to reach service: {error}")))?;
        let mut headers = answered.headers().clone();
        strip_hop_by_hop(&mut headers);
        CORS.iter().for_each(|name| drop(headers.remove(*name)));
        let location = answered.header(&LOCATION);
        if !location.is_empty() {
            let moved = moved(&location, &[&target.authority(), &host], prefix(request));
            if let Ok(moved) = HeaderValue::from_str(&moved) {
                headers.insert(LOCATION, moved);
            }
        }
        let status = answered.status();
        let mut answer = Response::new(answered.into_body(self.streaming()));
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }

    /// The target of a node. Its name is resolved once: the addresses that are checked are those connected to, whatever the
    /// name resolves to later.
    pub(super) async fn proxied_node(&self, request: &Request) -> Result<Target> {
        let call = &request.call;
        let named = Named::parse(&call.name, "node")?;
        let node = self.existing(&call.resource, "", named.name)?;
        let target = target::of_node(&node.parsed())?;
        let found = tokio::net::lookup_host((target.host.as_str(), target.port)).await;
        let found = found.map_err(|error| Refusal::bad_request(error.to_string()))?;
        let checked = Some(target::all_allowed(found.map(|address| address.ip()))?);
        if named.port.is_empty() || named.port == target.port.to_string() {
            return Ok(Target { checked, ..target });
        }
        Ok(Target { checked, ..named.on(target.host, named.port)? })
    }

    fn proxied_pod(&self, request: &Request) -> Result<Target> {
        let call = &request.call;
        let named = Named::parse(&call.name, "pod")?;
        let pod = self.existing(&call.resource, &call.namespace, named.name)?;
        target::of_pod(&named, &pod.parsed())
    }

    fn proxied_service(&self, request: &Request) -> Result<Target> {
        let call = &request.call;
        let named = Named::parse(&call.name, "service")?;
        let service = match named.port.parse::<i64>() {
            Ok(_) => Some(self.existing(&call.resource, &call.namespace, named.name)?),
            Err(_) => None,
        };
        let in_namespace = |name: &str| ObjectKey::new(call.namespace.as_str(), name);
        let endpoints = self.store().get(&"endpoints".into(), &in_namespace(named.name));
        // Upstream speaks of services here.
        let endpoints = endpoints.ok_or_else(|| Refusal::not_found(&call.resource, named.name))?;
        // Endpoints may name any address: requests are passed on to those of pods only,
        let is_pod = |address: &serde_json::Value| {
            let of_pod = text_at(address, "targetRef.kind") == "Pod";
            let pod = || {
                let name = text_at(address, "targetRef.name");
                self.store().get(&"pods".into(), &in_namespace(&name))
            };
            // and of pods of the service's own namespace.
            let of_namespace = text_at(address, "targetRef.namespace") == call.namespace;
            let ip = text_at(address, "ip");
            of_pod
                && of_namespace
                && pod().is_some_and(|pod| {
                    list_at(&pod.parsed(), "status.podIPs").iter().any(|own| text_at(own, "ip") == ip)
                })
        };
        let service = service.map(|service| service.parsed());
        let mut found =
            target::of_service(&call.name, &named, service.as_deref(), &endpoints.parsed(), is_pod)?;
        let [first, second, ..] = uuid::Uuid::new_v4().into_bytes();
        let chosen = usize::from(u16::from_be_bytes([first, second])) % found.len();
        let (ip, port) = found.swap_remove(chosen);
        named.at(&ip, &port.to_string())
    }
}

/// Relative links of a page need its address to end in a slash.
fn to_the_root(request: &Request, query: &str) -> Response<ResponseBody> {
    let mut answer = Response::new(ResponseBody::full(""));
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::from_str(&with_query(format!("{}/", request.uri.path()), query)) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

/// The part of a request's path that leads to what it is passed on to.
fn prefix(request: &Request) -> &str {
    let path = request.uri.path();
    let segments = if request.call.namespace.is_empty() { 5 } else { 7 };
    let end = path.match_indices('/').nth(segments).map_or(path.len(), |(at, _)| at);
    &path[..end]
}

/// A path without detours, as it is sent: empty, or from the root.
fn clean(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let mut clean = String::new();
    for segment in &kept {
        clean.push('/');
        for byte in segment.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~$&+,:;=@".contains(&byte) {
                clean.push(char::from(byte));
            } else {
                clean.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    if kept.is_empty() || path.ends_with('/') {
        clean.push('/');
    }
    clean
}

/// Where an answer leads to, as the client reaches it: what is on one of those hosts is under `prefix` for the client.
fn moved(location: &str, hosts: &[&str], prefix: &str) -> String {
    let after_scheme = location.split_once("://").map(|(_, rest)| rest);
    let (host, path) = match after_scheme.or_else(|| location.strip_prefix("//")) {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", location),
    };
    let elsewhere = !host.is_empty() && !hosts.contains(&host);
    if elsewhere || !path.starts_with('/') {
        return location.to_owned();
    }
    if path.starts_with(prefix) { path.to_owned() } else { format!("{prefix}{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_sent_without_detours() {
        for (path, sent) in [
            ("", ""),
            ("/", "/"),
            ("a", "/a"),
            ("a/b/", "/a/b/"),
            ("../x", "/x"),
            ("//x//./y/../z", "/x/z"),
            ("a/b c?d", "/a/b%20c%3Fd"),
            ("..", "/"),
        ] {
            assert_eq!(clean(path), sent, "{path}");
        }
    }

    #[test]
    fn what_an_answer_leads_to_is_found_under_the_proxy() {
        let hosts = ["10.0.0.1:80", "api:443"];
        let moved = |location| moved(location, &hosts, "/api/v1/nodes/n/proxy");
        for (location, found) in [
            ("/over/there/?a=b", "/api/v1/nodes/n/proxy/over/there/?a=b"),
            ("there", "there"),
            ("http://10.0.0.1:80/x", "/api/v1/nodes/n/proxy/x"),
            ("https://api:443/api/v1/nodes/n/proxy/x", "/api/v1/nodes/n/proxy/x"),
            ("//10.0.0.1:80/x", "/api/v1/nodes/n/proxy/x"),
            ("https://example.org/x", "https://example.org/x"),
            ("http://10.0.0.1:80", "http://10.0.0.1:80"),
        ] {
            assert_eq!(moved(location), found, "{location}");
        }
    }
}
