//! Parses values of flags as Go's pflag does, except durations.

use std::fmt;
use std::path::PathBuf;

use steersman_controller::options::Setting;

use super::pflag::Refusal;

/// Parses Go's words for true and false.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    bool::parse(text)
}

/// The items of comma-separated lists. An empty list has none.
pub(crate) fn items(lists: &[String]) -> impl Iterator<Item = &str> {
    lists.iter().filter(|list| !list.is_empty()).flat_map(|list| list.split(','))
}

/// Makes a path absolute, because other processes, such as the container runtime, get it too.
///
/// # Errors
/// If the path is empty, or the working directory is unknown.
pub(crate) fn absolute(flag: &str, path: PathBuf) -> Result<PathBuf, Refusal> {
    std::path::absolute(&path).map_err(|why| Refusal::of_value(flag, &path.display().to_string(), why))
}

/// The address of a port: `127.0.0.1:8080`, `[::1]:8080`, `host:8080`, or `:8080` for all addresses of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Empty for all addresses of the machine.
    host: String,
    port: u16,
}

impl Address {
    /// Parses an address.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (host, port) = text.rsplit_once(':').ok_or("must be host:port, such as 127.0.0.1:10252")?;
        let port = port.parse().map_err(|_| format!("{port:?} is not a port"))?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner,
            None if host.contains(':') => return Err("an IPv6 address must be in brackets".to_owned()),
            None => host,
        };
        Ok(Self { host: host.to_owned(), port })
    }

    /// The addresses to bind, in order: the first one that is free counts.
    pub(crate) fn candidates(&self) -> Vec<(&str, u16)> {
        let hosts: &[&str] = if self.host.is_empty() { &["::", "0.0.0.0"] } else { &[&self.host] };
        hosts.iter().map(|host| (*host, self.port)).collect()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_as_go_does() {
        let bound = |text: &str| -> Vec<(String, u16)> {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.to_string(), text);
            address.candidates().into_iter().map(|(host, port)| (host.to_owned(), port)).collect()
        };
        assert_eq!(bound("127.0.0.1:80"), [("127.0.0.1".to_owned(), 80)]);
        assert_eq!(bound("[::1]:80"), [("::1".to_owned(), 80)]);
        assert_eq!(bound(":80"), [("::".to_owned(), 80), ("0.0.0.0".to_owned(), 80)]);
        for wrong in ["80", "host", "host:", "host:http", "::1:80", "host:70000"] {
            Address::parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn lists_are_split_at_commas_and_may_be_repeated() {
        let lists = ["*,-job".to_owned(), String::new(), "podgc".to_owned()];
        assert_eq!(items(&lists).collect::<Vec<_>>(), ["*", "-job", "podgc"]);
    }
}
