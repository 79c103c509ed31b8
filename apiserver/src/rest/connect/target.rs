//! Whom to ask, and where.

use std::net::IpAddr;

use serde_json::Value;

use crate::object::{int_at, list_at, text_at};
use crate::refusal::{Refusal, Result};

/// Where nodes listen that do not say; from upstream.
const NODE_PORT: u16 = 10250;
/// Which of a node's addresses is taken: the first that there is.
const ADDRESS_TYPES: [&str; 5] = ["InternalIP", "InternalDNS", "Hostname", "ExternalIP", "ExternalDNS"];

/// Someone who answers HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// A name or an address; one of version 6 without brackets.
    pub(super) host: String,
    /// Where it listens.
    pub(super) port: u16,
    /// How it knows us, and we it.
    pub(super) certificates: Certificates,
}

/// How two sides of a connection know each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Certificates {
    /// Not at all: plain HTTP.
    None,
    /// TLS; nothing is shown, and nothing looked at.
    Anyone,
    /// As nodes are spoken to: our certificate is shown, and theirs verified where there is an authority for that.
    Node,
    /// As [`Node`](Self::Node), without looking at theirs.
    NodeUnverified,
}

impl Target {
    /// Host and port as in a URL.
    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// The URL of something there.
    pub(super) fn url(&self, path: &str) -> String {
        let scheme = if self.certificates == Certificates::None { "http" } else { "https" };
        format!("{scheme}://{}{path}", self.authority())
    }
}

/// The node's own server.
///
/// # Errors
/// The node has not said where it is.
pub(super) fn of_node(node: &Value) -> Result<Target> {
    let addresses = list_at(node, "status.addresses");
    let mut preferred = ADDRESS_TYPES
        .into_iter()
        .filter_map(|wanted| addresses.iter().find(|address| text_at(address, "type") == wanted));
    let Some(address) = preferred.next() else {
        let known =
            addresses.iter().map(|of| format!("{{{} {}}}", text_at(of, "type"), text_at(of, "address")));
        let known: Vec<String> = known.collect();
        let why = format!("no preferred addresses found; known addresses: [{}]", known.join(" "));
        return Err(Refusal::unforeseen(why));
    };
    let port = int_at(node, "status.daemonEndpoints.kubeletEndpoint.Port").unwrap_or(0);
    let port = u16::try_from(port).ok().filter(|port| *port > 0).unwrap_or(NODE_PORT);
    Ok(Target { host: text_at(address, "address"), port, certificates: Certificates::Node })
}

/// What a proxy's name says: `name`, `name:port` or `scheme:name:port`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    scheme: &'a str,
    pub(super) name: &'a str,
    /// Empty where none is named.
    pub(super) port: &'a str,
}

impl<'a> Named<'a> {
    /// # Errors
    /// It says something else; `kind` is what is to be proxied to.
    pub(super) fn parse(text: &'a str, kind: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => ("", "", ""),
        };
        if name.is_empty() || !matches!(scheme, "" | "http" | "https") {
            return Err(Refusal::bad_request(format!("invalid {kind} request {text:?}")));
        }
        Ok(Self { scheme, name, port })
    }

    /// Someone at an address that is asked as this name says.
    ///
    /// # Errors
    /// The port is none.
    pub(super) fn at(&self, host: impl Into<String>, port: &str) -> Result<Target> {
        let certificates = if self.scheme == "https" { Certificates::Anyone } else { Certificates::None };
        let port = match (port, self.scheme) {
            ("", "https") => 443,
            ("", _) => 80,
            (port, _) => port.parse().map_err(|_| {
                let why = format!("error trying to reach service: dial tcp: lookup tcp/{port}: unknown port");
                Refusal::unavailable(why)
            })?,
        };
        Ok(Target { host: host.into(), port, certificates })
    }
}

/// Whether somebody at that address may be reached through a proxy: never this machine alone, nor many at once.
pub(super) fn may_be_proxied_to(address: IpAddr) -> bool {
    let local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => {
            v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
    };
    !local && !address.is_loopback() && !address.is_multicast() && !address.is_unspecified()
}

/// What is said of addresses that may not.
pub(super) fn not_allowed() -> Refusal {
    Refusal::bad_request("address not allowed")
}

/// Where a pod is reached through a proxy, at the port that is named, or at the first that one of its containers names.
///
/// # Errors
/// It has no address, or none that may be reached.
pub(super) fn of_pod(named: &Named<'_>, pod: &Value) -> Result<Target> {
    let first_port = || {
        let containers = list_at(pod, "spec.containers").iter();
        let mut ports = containers.filter_map(|container| list_at(container, "ports").first());
        ports.next().map(|port| text_at(port, "containerPort")).unwrap_or_default()
    };
    let port = if named.port.is_empty() { first_port() } else { named.port.to_owned() };
    let address = list_at(pod, "status.podIPs").first().map(|ip| text_at(ip, "ip"));
    let address = address.unwrap_or_else(|| text_at(pod, "status.podIP"));
    match address.parse() {
        Ok(ip) if may_be_proxied_to(ip) => named.at(address, &port),
        _ => Err(not_allowed()),
    }
}

/// Which addresses and port serve a service's port, all that might do; `is_pod` says whether an address is really that
/// of the pod it names. `service` is looked at where the port is a number.
///
/// # Errors
/// Nobody serves it.
pub(super) fn of_service(
    text: &str,
    named: &Named<'_>,
    service: Option<&Value>,
    endpoints: &Value,
    is_pod: impl Fn(&Value) -> bool,
) -> Result<Vec<(String, u16)>> {
    let unavailable = |of: &str| Refusal::unavailable(format!("no endpoints available for service {of:?}"));
    let port_name = match service {
        Some(service) => {
            let number = named.port.parse::<i64>().ok();
            let ports = list_at(service, "spec.ports");
            let found = ports.iter().find(|port| int_at(port, "port") == number);
            let found = found.ok_or_else(|| {
                Refusal::unavailable(format!(
                    "no service port {} found for service {:?}",
                    named.port, named.name
                ))
            })?;
            text_at(found, "name")
        }
        None => named.port.to_owned(),
    };
    let subsets = list_at(endpoints, "subsets");
    if subsets.is_empty() {
        return Err(unavailable(named.name));
    }
    let mut found = Vec::new();
    for subset in subsets {
        for port in list_at(subset, "ports").iter().filter(|port| text_at(port, "name") == port_name) {
            let number = int_at(port, "port").and_then(|port| u16::try_from(port).ok());
            let addresses = list_at(subset, "addresses").iter().filter(|address| is_pod(address));
            found.extend(addresses.filter_map(|address| Some((text_at(address, "ip"), number?))));
        }
    }
    if found.is_empty() {
        return Err(unavailable(text));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message<T: std::fmt::Debug>(refused: Result<T>) -> String {
        refused.unwrap_err().status.message
    }

    #[test]
    fn a_node_is_where_it_says_and_within_the_cluster_first() {
        let address = |kind: &str, address: &str| json!({"type": kind, "address": address});
        let node = |addresses: &[Value], port: i64| {
            let endpoints = json!({"kubeletEndpoint": {"Port": port}});
            json!({"status": {"addresses": addresses, "daemonEndpoints": endpoints}})
        };
        let (outer, name, inner, six) = (
            address("ExternalIP", "1.2.3.4"),
            address("Hostname", "n"),
            address("InternalIP", "10.0.0.1"),
            address("InternalIP", "fd00::1"),
        );
        for (node, url) in [
            (node(&[outer.clone(), name.clone(), inner.clone()], 10251), "https://10.0.0.1:10251/x"),
            (node(&[six, inner], 1), "https://[fd00::1]:1/x"),
            (node(&[outer.clone(), name], 0), "https://n:10250/x"),
            (node(&[outer], 70_000), "https://1.2.3.4:10250/x"),
        ] {
            assert_eq!(of_node(&node).unwrap().url("/x"), url, "{node}");
        }
        let nowhere = "no preferred addresses found; known addresses: ";
        assert_eq!(message(of_node(&json!({}))), format!("{nowhere}[]"));
        let odd = [address("Odd", "x"), address("Odder", "y")];
        assert_eq!(message(of_node(&node(&odd, 1))), format!("{nowhere}[{{Odd x}} {{Odder y}}]"));
    }

    #[test]
    fn names_of_proxies_say_scheme_and_port() {
        let url = |text: &str| {
            Named::parse(text, "pod").and_then(|named| named.at("h", named.port)).map(|t| t.url("/"))
        };
        for (text, expected) in [
            ("a", "http://h:80/"),
            ("a:81", "http://h:81/"),
            ("http:a:81", "http://h:81/"),
            ("https:a:", "https://h:443/"),
            (":a:", "http://h:80/"),
        ] {
            assert_eq!(url(text).unwrap(), expected, "{text}");
        }
        for text in ["", ":80", "ftp:a:80", "a:b:c:d"] {
            assert_eq!(message(url(text)), format!("invalid pod request {text:?}"));
        }
        assert_eq!(
            message(url("a:web")),
            "error trying to reach service: dial tcp: lookup tcp/web: unknown port"
        );
    }

    #[test]
    fn proxies_lead_to_single_addresses_of_the_network_only() {
        for address in ["10.0.0.1", "8.8.8.8", "192.168.0.1", "fd00::1", "2001:db8::1"] {
            assert!(may_be_proxied_to(address.parse().unwrap()), "{address}");
        }
        for address in [
            "127.0.0.1",
            "::1",
            "0.0.0.0",
            "::",
            "169.254.169.254",
            "fe80::1",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "::ffff:127.0.0.1",
        ] {
            assert!(!may_be_proxied_to(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_pod_is_at_its_address_and_first_port() {
        let pod = |ip: &str| {
            json!({
                "spec": {"containers": [{"name": "a"}, {"name": "b", "ports": [{"containerPort": 8080}]}]},
                "status": {"podIP": ip, "podIPs": [{"ip": ip}]},
            })
        };
        let url =
            |text: &str, pod: &Value| of_pod(&Named::parse(text, "pod").unwrap(), pod).map(|t| t.url("/"));
        assert_eq!(url("p", &pod("10.0.0.1")).unwrap(), "http://10.0.0.1:8080/");
        assert_eq!(url("https:p:9", &pod("fd00::1")).unwrap(), "https://[fd00::1]:9/");
        for ip in ["", "127.0.0.1", "x"] {
            assert_eq!(message(url("p", &pod(ip))), "address not allowed", "{ip}");
        }
    }

    #[test]
    fn a_service_is_where_pods_serve_its_port() {
        let service =
            json!({"spec": {"ports": [{"name": "web", "port": 80}, {"name": "other", "port": 81}]}});
        let endpoints = json!({"subsets": [
            {"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"name": "web", "port": 8080}]},
            {"notReadyAddresses": [{"ip": "10.0.0.3"}], "ports": [{"name": "web", "port": 8080}]},
            {"addresses": [{"ip": "10.0.0.4"}], "ports": [{"name": "web", "port": 9090}, {"port": 7}]},
        ]});
        let found = |text: &str, endpoints: &Value| {
            let named = Named::parse(text, "service")?;
            let service = named.port.parse::<i64>().is_ok().then_some(&service);
            of_service(text, &named, service, endpoints, |address| address["ip"] != "10.0.0.2")
        };
        let at = |ip: &str, port| (ip.to_owned(), port);
        let web = vec![at("10.0.0.1", 8080), at("10.0.0.4", 9090)];
        assert_eq!(found("s:web", &endpoints).unwrap(), web);
        assert_eq!(found("https:s:80", &endpoints).unwrap(), web);
        assert_eq!(found("s", &endpoints).unwrap(), [at("10.0.0.4", 7)]);
        let nobody = |of: &str| format!("no endpoints available for service {of:?}");
        assert_eq!(message(found("s:81", &endpoints)), nobody("s:81"));
        assert_eq!(message(found("s:82", &endpoints)), "no service port 82 found for service \"s\"");
        assert_eq!(message(found("s:web", &json!({}))), nobody("s"));
    }
}
