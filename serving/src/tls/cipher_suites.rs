//! Cipher suites by the names that configurations use (`tlsCipherSuites`).

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, SupportedCipherSuite};

/// The cipher suites that the server uses with clients of TLS 1.2. Those of TLS 1.3 can't be chosen, as upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CipherSuites {
    /// All that the server has, the default.
    #[default]
    All,
    /// These only. If there are none, only clients of TLS 1.3 can connect.
    Only(Vec<CipherSuite>),
}

/// No suite has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Cipher suite {0} not supported or doesn't exist")]
pub struct UnknownCipherSuite(pub String);

/// Suites that upstream knows and this server lacks: they have known weaknesses.
const LACKING: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

impl CipherSuites {
    /// The suites with these names; all suites if there are no names. Logs a warning for each suite that this server lacks.
    ///
    /// # Errors
    /// If no suite has one of the names.
    pub fn named(names: &[String]) -> Result<Self, UnknownCipherSuite> {
        if names.is_empty() {
            return Ok(Self::All);
        }
        let mut named = Vec::new();
        for name in names {
            match suite(name)? {
                Some(suite) => named.push(suite),
                None => {
                    tracing::warn!(name, "This server lacks a cipher suite of the configuration")
                }
            }
        }
        Ok(Self::Only(named))
    }

    /// Removes all other suites from the provider.
    pub(super) fn restrict(&self, provider: &mut CryptoProvider) {
        if let Self::Only(named) = self {
            let spoken =
                |suite: &SupportedCipherSuite| suite.tls13().is_some() || named.contains(&suite.suite());
            provider.cipher_suites.retain(spoken);
        }
    }
}

/// The suite with this name; `None` if this server lacks it.
///
/// # Errors
/// If no suite has this name.
pub fn suite(name: &str) -> Result<Option<CipherSuite>, UnknownCipherSuite> {
    Ok(Some(match name {
        "TLS_AES_128_GCM_SHA256" => CipherSuite::TLS13_AES_128_GCM_SHA256,
        "TLS_AES_256_GCM_SHA384" => CipherSuite::TLS13_AES_256_GCM_SHA384,
        "TLS_CHACHA20_POLY1305_SHA256" => CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256" | "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305" => {
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        }
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256" | "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305" => {
            CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
        }
        name if LACKING.contains(&name) => return Ok(None),
        _ => return Err(UnknownCipherSuite(name.to_owned())),
    }))
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring::default_provider;

    use super::*;

    fn left(names: &[&str]) -> Vec<CipherSuite> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut provider = default_provider();
        CipherSuites::named(&names).unwrap().restrict(&mut provider);
        provider.cipher_suites.iter().filter(|one| one.tls13().is_none()).map(|one| one.suite()).collect()
    }

    #[test]
    fn the_suites_that_are_named_are_left() {
        assert_eq!(left(&[]).len(), 6);
        assert_eq!(
            left(&["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_RSA_WITH_AES_128_CBC_SHA"]),
            [CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]
        );
        assert_eq!(left(&["TLS_RSA_WITH_RC4_128_SHA"]), []);
        let error = CipherSuites::named(&["TLS_NULL".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "Cipher suite TLS_NULL not supported or doesn't exist");
    }

    #[test]
    fn every_suite_of_the_server_has_a_name() {
        for supported in default_provider().cipher_suites {
            let debug = format!("{:?}", supported.suite()).replace("TLS13_", "TLS_");
            assert_eq!(suite(&debug), Ok(Some(supported.suite())));
        }
    }
}
