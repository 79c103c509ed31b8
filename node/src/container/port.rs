//! The port that a probe or a hook names.

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The number of a port that is given as such, by the name that the container gives it, or as a text of digits.
///
/// # Errors
/// In words, for an event.
pub(crate) fn resolve(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            match ports.find(|port| port.name.as_deref() == Some(name)) {
                Some(port) => port.container_port,
                None => {
                    name.parse().map_err(|_| format!("strconv.Atoi: parsing {name:?}: invalid syntax"))?
                }
            }
        }
    };
    u16::try_from(number)
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| format!("invalid port number: {number}"))
}

/// `host:port`, an IPv6 address in brackets.
pub(crate) fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerPort;

    use super::*;

    #[test]
    fn a_port_is_a_number_or_a_name() {
        let http = ContainerPort { name: Some("http".into()), container_port: 8080, ..Default::default() };
        let container = Container { ports: Some(vec![http]), ..Default::default() };
        let text = |text: &str| IntOrString::String(text.to_owned());
        for (port, expected) in [
            (IntOrString::Int(80), Ok(80)),
            (text("http"), Ok(8080)),
            (text("81"), Ok(81)),
            (text("grpc"), Err("strconv.Atoi: parsing \"grpc\": invalid syntax".to_owned())),
            (IntOrString::Int(0), Err("invalid port number: 0".to_owned())),
            (IntOrString::Int(65536), Err("invalid port number: 65536".to_owned())),
        ] {
            assert_eq!(resolve(&port, &container), expected, "{port:?}");
        }
        assert_eq!((join("::1", 1), join("a", 2)), ("[::1]:1".to_owned(), "a:2".to_owned()));
    }
}
