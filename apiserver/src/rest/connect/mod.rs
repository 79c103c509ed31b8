//! What leads out of this server: logs and streams of containers to their nodes, and proxies to nodes, pods and services.
//!
//! A request becomes a [`Target`] and what to ask for there, by pure functions over the objects it is about; `client`
//! asks, and its answer is streamed back as it comes. An upgraded connection is carried byte for byte, whatever its
//! protocol is ([`Connection`]).

mod client;
mod container;
mod log;
mod proxy;
mod streams;
mod target;
mod tls;
mod tunnel;

use http::{Response, StatusCode};
use serde_json::Value;
use steersman_api::ObjectKey;

use self::client::{Asked, DialError};
use self::target::{Certificates, Target};
pub(crate) use self::tls::Outbound;
pub use self::tls::OutboundError;
pub(crate) use self::tunnel::Connection;
use super::answer::answer;
use super::body::ResponseBody;
use super::request::{Call, Request};
use super::server::ApiServer;
use crate::object;
use crate::refusal::{Refusal, Result};

/// Whether a call leads out of this server.
pub(super) fn leads_out(call: &Call) -> bool {
    matches!(
        (call.resource.table.as_str(), call.subresource.as_str()),
        ("pods", "log" | "exec" | "attach" | "portforward" | "proxy") | ("nodes" | "services", "proxy")
    )
}

/// Whether the body of a call goes where the call leads to: a proxy's does, while logs and streams have no use for one.
pub(super) fn passes_bodies_on(call: &Call) -> bool {
    call.subresource == "proxy"
}

/// Whether a call is about streams, which take the right to create however they are asked for.
pub(super) fn is_about_streams(call: &Call) -> bool {
    call.resource.table == "pods" && matches!(call.subresource.as_str(), "exec" | "attach" | "portforward")
}

impl ApiServer {
    /// Passes a call on to whom it is about.
    pub(super) async fn connect(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let subresource = request.call.subresource.as_str();
        if subresource == "log" {
            return self.log(request).await;
        }
        if request.query.all("dryRun").next().is_some() {
            return Err(Refusal::bad_request("dryRun is not supported"));
        }
        match subresource {
            "proxy" => self.proxy(request).await,
            _ => self.streams(request).await,
        }
    }

    /// A container's log, as its node has it.
    async fn log(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let call = &request.call;
        let options = log::Options::parse(&request.query)?;
        options.validate(&call.name)?;
        let pod = self.existing(&call.resource, &call.namespace, &call.name)?;
        let pod = pod.parsed();
        let container = container::chosen(&pod, &call.name, &options.container)?;
        let Some(mut target) = self.node_of(call, &pod)? else {
            // It has not been anywhere: there is nothing to be had.
            let mut answer = Response::new(ResponseBody::full(""));
            *answer.status_mut() = StatusCode::NO_CONTENT;
            return Ok(answer);
        };
        if options.trusting {
            target.certificates = Certificates::NodeUnverified;
        }
        let path = format!("/containerLogs/{}/{}/{container}", call.namespace, call.name);
        let asked = Asked::get(with_query(path, &options.node_query()));
        let url = target.url(&asked.path);
        let failed = |error: DialError| Refusal::unforeseen(format!("Get {url:?}: {error}"));
        let answered = self.outbound().ask(&target, asked).await.map_err(failed)?;
        let status = answered.status();
        if status.is_redirection() {
            let to = answered.header(&http::header::LOCATION);
            return Err(Refusal::unforeseen(format!("Get {to:?}: redirects forbidden")));
        }
        if !(200..=206).contains(&status.as_u16()) {
            let text = answered.beginning().await;
            return Err(Refusal::passed_on(status.as_u16(), "pods/log", &call.name, &text));
        }
        let body = answered.into_body(self.streaming());
        Ok(answer(StatusCode::OK, "text/plain", body))
    }

    /// Where the node of a pod is; `None` while it has none.
    fn node_of(&self, call: &Call, pod: &Value) -> Result<Option<Target>> {
        let name = object::text_at(pod, "spec.nodeName");
        if name.is_empty() {
            return Ok(None);
        }
        let node = self.store().get(&"nodes".into(), &ObjectKey::cluster(name.as_str()));
        // Upstream speaks of pods here.
        let node = node.ok_or_else(|| Refusal::not_found(&call.resource, &name))?;
        target::of_node(&node.parsed()).map(Some)
    }
}

/// A path with what follows the question mark, if anything does.
fn with_query(path: String, query: &str) -> String {
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests;
