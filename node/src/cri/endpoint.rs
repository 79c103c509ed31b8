//! Where a runtime listens.

use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The bytes that a unix socket's address has for its path, the closing zero not counted; see unix(7).
const MAX_PATH: usize = 107;

/// The unix socket of a runtime, as in `--container-runtime-endpoint`.
///
/// Parsed from `unix:///path/of/socket`; as upstream, an absolute path alone means the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(PathBuf);

/// Why text is not an endpoint. It ends the start: the flag must change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Nothing is given.
    #[error(
        "the endpoint of the container runtime is empty; give unix:// and the absolute path of its socket"
    )]
    Empty,
    /// The scheme is another than `unix`.
    #[error("endpoint {endpoint:?}: protocol {scheme:?} is not supported, only unix is")]
    Scheme {
        /// What was given.
        endpoint: String,
        /// What stands before the colon.
        scheme: String,
    },
    /// The path does not begin with a slash, or names no file.
    #[error("endpoint {0:?} has no absolute path of a socket; write unix:///path/of/socket")]
    Path(String),
    /// No socket can have this path.
    #[error("endpoint {0:?}: the path is longer than the {MAX_PATH} bytes that a unix socket can have")]
    TooLong(String),
}

impl Endpoint {
    /// The path of the socket: absolute.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if text.is_empty() {
            return Err(EndpointError::Empty);
        }
        let path = match text.split_once(':') {
            Some((scheme, rest)) if !scheme.contains('/') => {
                if !scheme.eq_ignore_ascii_case("unix") {
                    return Err(EndpointError::Scheme { endpoint: text.into(), scheme: scheme.into() });
                }
                rest.strip_prefix("//").unwrap_or(rest)
            }
            _ => text,
        };
        if !path.starts_with('/') || path.ends_with('/') {
            return Err(EndpointError::Path(text.into()));
        }
        if path.len() > MAX_PATH {
            return Err(EndpointError::TooLong(text.into()));
        }
        Ok(Self(path.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unix_address_or_an_absolute_path_is_an_endpoint() {
        for text in ["unix:///run/a.sock", "unix:/run/a.sock", "UNIX:///run/a.sock", "/run/a.sock"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().path(), Path::new("/run/a.sock"), "{text}");
        }
        assert_eq!("/run/a:b".parse::<Endpoint>().unwrap().path(), Path::new("/run/a:b"));
    }

    #[test]
    fn what_is_no_endpoint_is_refused_with_the_reason() {
        let long = format!("unix:///{}", "a".repeat(107));
        for (text, reason) in [
            ("", "is empty"),
            ("tcp://127.0.0.1:1", "\"tcp\" is not supported"),
            ("npipe:////./pipe/a", "\"npipe\" is not supported"),
            ("unix://", "no absolute path"),
            ("unix:///", "no absolute path"),
            ("unix://run/a.sock", "no absolute path"),
            ("run/a.sock", "no absolute path"),
            (&long, "107 bytes"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
