//! Streams of containers and ports of pods: `exec`, `attach`, `portforward`.

use http::Response;
use url::form_urlencoded::Serializer;

use super::client::Asked;
use super::{container, tunnel, with_query};
use crate::refusal::{Refusal, Result};
use crate::rest::body::ResponseBody;
use crate::rest::server::ApiServer;
use crate::rest::{Query, Request};

impl ApiServer {
    /// Has the node open streams, and carries them.
    pub(super) async fn streams(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let call = &request.call;
        let node_query = match call.subresource.as_str() {
            "portforward" => ports(&request.query)?,
            _ => stream_query(&request.query),
        };
        let pod = self.existing(&call.resource, &call.namespace, &call.name)?.parsed();
        let of_pod = format!("{}/{}", call.namespace, call.name);
        let path = match call.subresource.as_str() {
            "portforward" => format!("/portForward/{of_pod}"),
            verb => {
                let asked = request.query.get("container").unwrap_or_default();
                format!("/{verb}/{of_pod}/{}", container::chosen(&pod, &call.name, asked)?)
            }
        };
        let Some(target) = self.node_of(call, &pod)? else {
            let why = format!("pod {} does not have a host assigned", call.name);
            return Err(Refusal::bad_request(why));
        };
        if !tunnel::is_upgrade(&request.headers) {
            return Err(Refusal::bad_request("Upgrade request required"));
        }
        self.tunnel(request, &target, Asked::upgrade(request, with_query(path, &node_query))).await
    }
}

/// What the node calls the streams that the client asks for.
fn stream_query(query: &Query) -> String {
    let mut node_query = Serializer::new(String::new());
    for command in query.all("command") {
        node_query.append_pair("command", command);
    }
    for (ours, nodes) in [("stderr", "error"), ("stdin", "input"), ("stdout", "output"), ("tty", "tty")] {
        if query.is_set(ours) {
            node_query.append_pair(nodes, "1");
        }
    }
    node_query.finish()
}

/// The ports to forward, for protocols that do not name them themselves.
fn ports(query: &Query) -> Result<String> {
    let mut ports: Vec<String> = Vec::new();
    for text in query.all("ports").flat_map(|list| list.split(',')) {
        let port: u16 = text.parse().map_err(|error: std::num::ParseIntError| {
            let why = match error.kind() {
                std::num::IntErrorKind::PosOverflow => "value out of range",
                _ => "invalid syntax",
            };
            Refusal::bad_request(format!(
                "cannot convert to []int32: strconv.ParseUint: parsing {text:?}: {why}"
            ))
        })?;
        ports.push(port.to_string());
    }
    if ports.is_empty() {
        return Ok(String::new());
    }
    Ok(Serializer::new(String::new()).append_pair("port", &ports.join(",")).finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_asked_for_in_the_nodes_words() {
        for (query, asked) in [
            ("command=ls&command=-l+a%26b&stdout=true", "command=ls&command=-l+a%26b&output=1"),
            ("stdin=1&stdout=1&stderr=&tty=false&container=a", "error=1&input=1&output=1"),
            ("tty=true&stdin=0", "tty=1"),
            ("", ""),
        ] {
            assert_eq!(stream_query(&Query::parse(query)), asked, "{query}");
        }
    }

    #[test]
    fn ports_are_numbers() {
        let asked = |query| ports(&Query::parse(query)).map_err(|refusal| refusal.status.message);
        assert_eq!(asked("ports=80&ports=81,82").as_deref(), Ok("port=80%2C81%2C82"));
        assert_eq!(asked("").as_deref(), Ok(""));
        for (query, why) in
            [("ports=x", "\"x\": invalid syntax"), ("ports=65536", "\"65536\": value out of range")]
        {
            let why = format!("cannot convert to []int32: strconv.ParseUint: parsing {why}");
            assert_eq!(asked(query), Err(why), "{query}");
        }
    }
}
