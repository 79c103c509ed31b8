//! Cipher suites by the names that configurations use (`tlsCipherSuites`).

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, SupportedCipherSuite};

/// Which cipher suites the server speaks with clients of TLS 1.2. Those of TLS 1.3 can't be chosen, as upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CipherSuites {
    /// All that it knows, the default.
    #[default]
    All,
    /// These only; with none of them, TLS 1.3 only.
    Only(Vec<CipherSuite>),
}

/// No suite has that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Cipher suite {0} not supported or doesn't exist")]
pub struct UnknownCipherSuite(pub String);

/// Names that upstream knows, and that nothing here speaks: they have known weaknesses.
const NOT_SPOKEN: [&str; 16] = [
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
    /// Those of these names; all where there is no name. A name that nothing here speaks is left out, with a warning.
    ///
    /// # Errors
    /// A name is none of a suite.
    pub fn named(names: &[String]) -> Result<Self, UnknownCipherSuite> {
        if names.is_empty() {
            return Ok(Self::All);
        }
        let mut named = Vec::new();
        for name in names {
            match suite(name)? {
                Some(suite) => named.push(suite),
                None => {
                    tracing::warn!(name, "A cipher suite of tlsCipherSuites is not spoken by this server")
                }
            }
        }
        Ok(Self::Only(named))
    }

    /// Leaves of the provider's suites those that are to be spoken.
    pub(super) fn restrict(&self, provider: &mut CryptoProvider) {
        if let Self::Only(named) = self {
            let spoken =
                |suite: &SupportedCipherSuite| suite.tls13().is_some() || named.contains(&suite.suite());
            provider.cipher_suites.retain(spoken);
        }
    }
}

/// The suite of that name; none where nothing here speaks it.
///
/// # Errors
/// No suite has that name.
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
        name if NOT_SPOKEN.contains(&name) => return Ok(None),
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
