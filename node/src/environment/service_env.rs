//! What containers are told of services in their environment.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use k8s_openapi::api::core::v1::{Service, ServicePort};

/// Always told, whatever the namespace and `enableServiceLinks`: how to reach the API server.
const MASTER_SERVICE: &str = "kubernetes";
/// Where that one is.
pub(super) const MASTER_NAMESPACE: &str = "default";

/// The variables of the services that a pod of `namespace` is told of: of its own namespace where it has service links,
/// and the API server's. Services without an address are left out.
///
/// `services` are those of the namespace and of `default`, in whatever order, and maybe of others.
pub fn service_env<'a>(
    services: impl IntoIterator<Item = &'a Service>,
    namespace: &str,
    service_links: bool,
) -> BTreeMap<String, String> {
    let mut told: BTreeMap<&str, &Service> = BTreeMap::new();
    for service in services {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let of = service.metadata.namespace.as_deref().unwrap_or_default();
        let is_master = of == MASTER_NAMESPACE && name == MASTER_SERVICE;
        if address(service).is_none() {
            continue;
        }
        // A service of the pod's own that has the master's name stands before it.
        if of == namespace && service_links && !is_master {
            told.insert(name, service);
        } else if is_master {
            told.entry(name).or_insert(service);
        }
    }
    let mut env = BTreeMap::new();
    for (name, service) in told {
        add(&mut env, &variable_name(name), service);
    }
    env
}

/// The cluster address; none for a headless service or one by another's name.
fn address(service: &Service) -> Option<&str> {
    let address = service.spec.as_ref()?.cluster_ip.as_deref()?;
    (!address.is_empty() && address != "None").then_some(address)
}

fn add(env: &mut BTreeMap<String, String>, prefix: &str, service: &Service) {
    let Some(address) = address(service) else { return };
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    env.insert(format!("{prefix}_SERVICE_HOST"), address.to_owned());
    for (index, port) in ports.enumerate() {
        let plain = format!("{prefix}_SERVICE_PORT");
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            env.insert(format!("{plain}_{}", variable_name(name)), port.port.to_string());
        }
        if index == 0 {
            env.insert(plain, port.port.to_string());
            env.insert(format!("{prefix}_PORT"), url(address, port));
        }
        // As Docker's links had it.
        let link = format!("{prefix}_PORT_{}_{}", port.port, protocol(port).to_uppercase());
        env.insert(format!("{link}_PROTO"), protocol(port));
        env.insert(format!("{link}_PORT"), port.port.to_string());
        env.insert(format!("{link}_ADDR"), address.to_owned());
        env.insert(link, url(address, port));
    }
}

/// In small letters; TCP where none is said.
fn protocol(port: &ServicePort) -> String {
    port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("tcp").to_lowercase()
}

fn url(address: &str, port: &ServicePort) -> String {
    let (scheme, number) = (protocol(port), port.port);
    match address.parse::<Ipv6Addr>() {
        Ok(_) => format!("{scheme}://[{address}]:{number}"),
        Err(_) => format!("{scheme}://{address}:{number}"),
    }
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ServiceSpec;

    use super::*;

    fn service(namespace: &str, name: &str, address: &str, ports: &[(&str, i32, &str)]) -> Service {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let port = |(name, port, protocol): &(&str, i32, &str)| ServicePort {
            name: text(name),
            port: *port,
            protocol: text(protocol),
            ..Default::default()
        };
        let spec = ServiceSpec {
            cluster_ip: text(address),
            ports: Some(ports.iter().map(port).collect()),
            ..Default::default()
        };
        let mut service = Service { spec: Some(spec), ..Default::default() };
        service.metadata.name = Some(name.into());
        service.metadata.namespace = Some(namespace.into());
        service
    }

    fn lines(env: BTreeMap<String, String>) -> Vec<String> {
        env.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn a_service_is_told_with_all_its_ports() {
        let service = service("shop", "my-db", "10.0.0.1", &[("", 80, ""), ("dns-udp", 53, "UDP")]);
        assert_eq!(
            lines(service_env([&service], "shop", true)),
            [
                "MY_DB_PORT=tcp://10.0.0.1:80",
                "MY_DB_PORT_53_UDP=udp://10.0.0.1:53",
                "MY_DB_PORT_53_UDP_ADDR=10.0.0.1",
                "MY_DB_PORT_53_UDP_PORT=53",
                "MY_DB_PORT_53_UDP_PROTO=udp",
                "MY_DB_PORT_80_TCP=tcp://10.0.0.1:80",
                "MY_DB_PORT_80_TCP_ADDR=10.0.0.1",
                "MY_DB_PORT_80_TCP_PORT=80",
                "MY_DB_PORT_80_TCP_PROTO=tcp",
                "MY_DB_SERVICE_HOST=10.0.0.1",
                "MY_DB_SERVICE_PORT=80",
                "MY_DB_SERVICE_PORT_DNS_UDP=53",
            ]
        );
        let six = super::tests::service("shop", "six", "fd00::1", &[("", 80, "TCP")]);
        assert_eq!(service_env([&six], "shop", true)["SIX_PORT"], "tcp://[fd00::1]:80");
    }

    #[test]
    fn a_pod_is_told_of_its_namespaces_services_and_of_the_api_server() {
        let port = &[("https", 443, "TCP")];
        let services = [
            service("default", "kubernetes", "10.0.0.1", port),
            service("default", "other", "10.0.0.2", port),
            service("shop", "web", "10.0.0.3", port),
            service("shop", "headless", "None", port),
            service("shop", "external", "", port),
            service("own", "kubernetes", "10.0.0.9", port),
        ];
        for (namespace, links, expected) in [
            ("shop", true, &["KUBERNETES=10.0.0.1", "WEB=10.0.0.3"][..]),
            ("shop", false, &["KUBERNETES=10.0.0.1"]),
            ("default", true, &["KUBERNETES=10.0.0.1", "OTHER=10.0.0.2"]),
            ("default", false, &["KUBERNETES=10.0.0.1"]),
            ("own", true, &["KUBERNETES=10.0.0.9"]),
            ("own", false, &["KUBERNETES=10.0.0.1"]),
        ] {
            let mut reversed: Vec<_> = services.iter().collect();
            reversed.reverse();
            for services in [services.iter().collect(), reversed] {
                let hosts: Vec<_> = service_env(services, namespace, links)
                    .into_iter()
                    .filter_map(|(name, value)| {
                        Some(format!("{}={value}", name.strip_suffix("_SERVICE_HOST")?))
                    })
                    .collect();
                assert_eq!(hosts, expected, "{namespace} {links}");
            }
        }
    }
}
