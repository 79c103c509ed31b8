//! The situations of upstream's `TestTokenCreation`, and tokens that a Go program made with go-jose from the same keys.

mod accounts;
mod keys;
mod secrets;

use steersman_api::ObjectKey;

const UID: &str = "0c7b3b1e-5d3c-4f0e-9e53-3a4d6f2b8c11";

fn account() -> ObjectKey {
    ObjectKey::new("shop", "robot")
}
