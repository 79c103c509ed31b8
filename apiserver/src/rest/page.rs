//! Continue tokens: where a list left off, and through which version it goes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use steersman_api::ObjectKey;

use crate::refusal::{Refusal, Result};

/// What a continue token holds. Written as upstream writes it, so that nobody is tempted to look inside.
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
    /// As a token.
    pub(crate) fn encode(&self) -> String {
        let rv = self.version.map_or(-1, |version| i64::try_from(version).unwrap_or(i64::MAX));
        let start = format!("/{}\0", self.after);
        let token = Token { v: VERSION.to_owned(), rv, start };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("a token must have a text"))
    }

    /// From a token.
    ///
    /// # Errors
    /// Whatever this server did not write.
    pub(crate) fn decode(token: &str) -> Result<Self> {
        let bad = |why: &dyn std::fmt::Display| {
            Refusal::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        if token.len() > LONGEST_TOKEN {
            return Err(bad(&"too long"));
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|error| bad(&error))?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|error| bad(&error))?;
        if token.v != VERSION {
            let why = format!("server does not recognize this encoded version {:?}", token.v);
            return Err(bad(&why));
        }
        let version = match token.rv {
            0 => return Err(bad(&"incorrect encoded start resourceVersion (version meta.k8s.io/v1)")),
            rv => u64::try_from(rv).ok(),
        };
        let start = token.start.strip_prefix('/').and_then(|start| start.strip_suffix('\0'));
        let after = start.and_then(|start| start.parse().ok()).ok_or_else(|| bad(&"no key"))?;
        Ok(Self { version, after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_position_reads_back_from_its_token() {
        for version in [None, Some(7)] {
            for after in [ObjectKey::new("default", "a"), ObjectKey::cluster("node-1")] {
                let position = Position { version, after };
                assert_eq!(Position::decode(&position.encode()).unwrap(), position);
            }
        }
    }

    #[test]
    fn tokens_look_as_upstreams() {
        let position = Position { version: Some(274), after: ObjectKey::cluster("default") };
        let upstream = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Mjc0LCJzdGFydCI6Ii9kZWZhdWx0XHUwMDAwIn0";
        assert_eq!(position.encode(), upstream);
    }

    proptest! {
        #[test]
        fn a_forged_token_is_refused_or_harmless(token in ".{0,80}") {
            let _ = Position::decode(&token);
        }
    }
}
