//! Continue tokens: where a list left off, and through which version it goes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use steersman_api::ObjectKey;

use crate::refusal::{Refusal, Result};

/// The content of a continue token, encoded as upstream encodes it, so that clients take it for opaque.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    v: String,
    /// The version of the snapshot; -1 for "whatever is there now", once the snapshot is forgotten.
    rv: i64,
    /// The last key that was given out, and a zero byte.
    start: String,
}

/// Where a list goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    /// The version of the snapshot; `None` for "whatever is there now".
    pub(crate) version: Option<u64>,
    /// The last key that was given out.
    pub(crate) after: ObjectKey,
}

const VERSION: &str = "meta.k8s.io/v1";
/// Far longer than any key; a longer token is none of ours.
const LONGEST_TOKEN: usize = 4096;

impl Position {
    /// As a token for a list of a namespace, or (empty) of all.
    pub(crate) fn encode(&self, namespace: &str) -> String {
        let rv = self.version.map_or(-1, |version| i64::try_from(version).unwrap_or(i64::MAX));
        let start = if namespace.is_empty() {
            format!("/{}\0", self.after)
        } else {
            format!("/{}\0", self.after.name)
        };
        let token = Token { v: VERSION.to_owned(), rv, start };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("a token must have a text"))
    }

    /// From the token of a list of that namespace, or (empty) of all.
    ///
    /// # Errors
    /// What can't be the token of such a list. No token leads out of the namespace.
    pub(crate) fn decode(token: &str, namespace: &str) -> Result<Self> {
        let bad = |why: &dyn std::fmt::Display| {
            Refusal::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        if token.len() > LONGEST_TOKEN {
            return Err(bad(&"too long"));
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|error| bad(&error))?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|error| bad(&error))?;
        if token.v != VERSION {
            return Err(bad(&format!("server does not recognize this encoded version {}", token.v)));
        }
        let version = match token.rv {
            0 => return Err(bad(&"incorrect encoded start resourceVersion (version meta.k8s.io/v1)")),
            rv => u64::try_from(rv).ok(),
        };
        if token.start.is_empty() {
            return Err(bad(&"encoded start key empty (version meta.k8s.io/v1)"));
        }
        let start = token.start.strip_prefix('/').unwrap_or(&token.start);
        let clean = !start.split('/').any(|part| matches!(part, "" | "." | ".."));
        let key = start.strip_suffix('\0').filter(|_| clean).and_then(|key| match namespace {
            "" => key.parse().ok(),
            namespace => (!key.contains('/')).then(|| ObjectKey::new(namespace, key)),
        });
        Ok(Self { version, after: key.ok_or_else(|| bad(&token.start))? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_position_reads_back_from_its_token() {
        for version in [None, Some(7)] {
            for (after, namespace) in [
                (ObjectKey::new("default", "a"), ""),
                (ObjectKey::new("default", "a"), "default"),
                (ObjectKey::cluster("node-1"), ""),
            ] {
                let position = Position { version, after };
                assert_eq!(Position::decode(&position.encode(namespace), namespace).unwrap(), position);
            }
        }
    }

    #[test]
    fn no_token_leads_out_of_its_namespace() {
        for start in ["/../b/c\0", "/b/c\0", "/./a\0", "//a\0", "/a", "", "/\0"] {
            let token = Token { v: VERSION.to_owned(), rv: 1, start: start.to_owned() };
            let token = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap());
            let decoded = Position::decode(&token, "a");
            assert!(decoded.is_err() || decoded.unwrap().after.namespace == "a", "{start:?}");
        }
    }

    #[test]
    fn tokens_look_as_upstreams() {
        let position = Position { version: Some(274), after: ObjectKey::cluster("default") };
        let upstream = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Mjc0LCJzdGFydCI6Ii9kZWZhdWx0XHUwMDAwIn0";
        assert_eq!(position.encode(""), upstream);
    }

    proptest! {
        #[test]
        fn a_forged_token_is_refused_or_harmless(token in ".{0,80}") {
            let _ = Position::decode(&token, "default");
            let _ = Position::decode(&URL_SAFE_NO_PAD.encode(&token), "");
        }
    }
}
