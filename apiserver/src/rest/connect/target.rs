//! Where nodes, pods and services are reached.

use std::net::IpAddr;

use serde_json::Value;

use crate::object::{int_at, list_at, text_at};
use crate::refusal::{Refusal, Result};

/// Where nodes listen that do not say; from upstream.
const NODE_PORT: u16 = 10250;
/// Which of a node's addresses is taken: the first that there is.
const ADDRESS_TYPES: [&str; 5] = ["InternalIP", "InternalDNS", "Hostname", "ExternalIP", "ExternalDNS"];

/// An HTTP server that requests are passed on to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// A name or an address; one of version 6 without brackets.
    pub(super) host: String,
    /// The addresses of the host that were checked: connections go to one of these. `None` where no rule restricts them: the
    /// host is then resolved for each connection.
    pub(super) checked: Option<Vec<IpAddr>>,
    /// The port it listens on.
    pub(super) port: u16,
    /// How the two sides authenticate each other.
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
    let host = text_at(address, "address");
    Ok(Target { host, checked: None, port, certificates: Certificates::Node })
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

    /// The target at an address that may be proxied to.
    ///
    /// # Errors
    /// The address may not be proxied to, or the port is not a number.
    pub(super) fn at(&self, address: &str, port: &str) -> Result<Target> {
        let address = address.parse().map_err(|_| not_allowed())?;
        let checked = Some(vec![allowed(address)?]);
        Ok(Target { checked, ..self.on(address.to_canonical().to_string(), port)? })
    }

    /// The target on a host, whatever addresses it has.
    ///
    /// # Errors
    /// The port is not a number.
    pub(super) fn on(&self, host: String, port: &str) -> Result<Target> {
        let certificates = if self.scheme == "https" { Certificates::Anyone } else { Certificates::None };
        let port = match (port, self.scheme) {
            ("", "https") => 443,
            ("", _) => 80,
            (port, _) => port.parse().map_err(|_| {
                let why = format!("error trying to reach service: dial tcp: lookup tcp/{port}: unknown port");
                Refusal::unavailable(why)
            })?,
        };
        Ok(Target { host, checked: None, port, certificates })
    }
}

/// The address in canonical form, if it may be reached through a proxy: not an address of this machine or of its link, such
/// as that of a cloud's metadata service, and not one of many machines. Upstream's `IsGlobalUnicast`.
///
/// Systems connect to `::ffff:10.0.0.1` as to `10.0.0.1`, so such addresses are judged by what they stand for.
///
/// # Errors
/// The address may not be reached.
pub(super) fn allowed(address: IpAddr) -> Result<IpAddr> {
    let address = address.to_canonical();
    let of_kind = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    match of_kind || address.is_loopback() || address.is_multicast() || address.is_unspecified() {
        true => Err(not_allowed()),
        false => Ok(address),
    }
}

fn not_allowed() -> Refusal {
    Refusal::bad_request("address not allowed")
}

/// The addresses of a host in canonical form.
///
/// # Errors
/// There are none, or one of them may not be reached through a proxy.
pub(super) fn all_allowed(addresses: impl Iterator<Item = IpAddr>) -> Result<Vec<IpAddr>> {
    let addresses = addresses.map(allowed).collect::<Result<Vec<_>>>()?;
    if addresses.is_empty() { Err(not_allowed()) } else { Ok(addresses) }
}

/// The target of a pod: at the port that the request names, or at the first port that a container of the pod names.
///
/// # Errors
/// The pod has no address, or one that may not be proxied to.
pub(super) fn of_pod(named: &Named<'_>, pod: &Value) -> Result<Target> {
    let first_port = || {
        let containers = list_at(pod, "spec.containers").iter();
        let mut ports = containers.filter_map(|container| list_at(container, "ports").first());
        ports.next().map(|port| text_at(port, "containerPort")).unwrap_or_default()
    };
    let port = if named.port.is_empty() { first_port() } else { named.port.to_owned() };
    let address = list_at(pod, "status.podIPs").first().map(|ip| text_at(ip, "ip"));
    let address = address.unwrap_or_else(|| text_at(pod, "status.podIP"));
    named.at(&address, &port)
}

/// Which addresses and port serve a service's port, all that might do; `is_pod` says whether an address is really that
/// of the pod it names. `service` is looked at where the port is a number.
///
/// # Errors
/// No endpoint serves it.
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
            Named::parse(text, "pod")
                .and_then(|named| named.on("h".to_owned(), named.port))
                .map(|t| t.url("/"))
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
        for address in ["10.0.0.1", "8.8.8.8", "192.168.0.1", "fd00::1", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert!(allowed(address.parse().unwrap()).is_ok(), "{address}");
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
            "::ffff:169.254.169.254",
            "::ffff:0.0.0.0",
            "::ffff:224.0.0.1",
            "::ffff:255.255.255.255",
        ] {
            assert_eq!(message(allowed(address.parse().unwrap())), "address not allowed", "{address}");
        }
    }

    #[test]
    fn a_host_is_proxied_to_if_all_of_its_addresses_may_be() {
        let all = |addresses: &[&str]| all_allowed(addresses.iter().map(|address| address.parse().unwrap()));
        let canonical: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        assert_eq!(all(&["::ffff:10.0.0.1", "fd00::1"]).unwrap(), canonical);
        for addresses in [&[][..], &["10.0.0.1", "127.0.0.1"]] {
            assert_eq!(message(all(addresses)), "address not allowed", "{addresses:?}");
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
        assert_eq!(url("p", &pod("::ffff:10.0.0.1")).unwrap(), "http://10.0.0.1:8080/");
        let checked = of_pod(&Named::parse("p", "pod").unwrap(), &pod("::ffff:10.0.0.1")).unwrap().checked;
        assert_eq!(checked, Some(vec!["10.0.0.1".parse().unwrap()]));
        for ip in ["", "127.0.0.1", "::ffff:169.254.169.254", "x"] {
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
