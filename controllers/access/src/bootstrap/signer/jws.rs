//! Signatures of `cluster-info`: detached JSON web signatures by HMAC with SHA-256.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac::{HMAC_SHA256, Key, sign};
use serde_json::json;

/// The signature of `content` by a token, without the content between its two dots, as RFC 7515 has it in appendix F.
pub(super) fn detached(content: &[u8], token_id: &str, token_secret: &[u8]) -> String {
    // serde_json writes the members in the order of their names, as upstream's library does.
    let header = URL_SAFE_NO_PAD.encode(json!({"alg": "HS256", "kid": token_id}).to_string());
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let signature = sign(&Key::new(HMAC_SHA256, token_secret), signed.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of upstream's `jws_test.go`.
    #[test]
    fn signatures_are_upstreams() {
        let content = b"Hello from the other side. I must have called a thousand times.";
        let header = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9";
        for (content, secret, signature) in [
            (&content[..], &b"my voice is my passcode"[..], "VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"),
            (b"", b"my voice is my passcode", "7Ui1ALizW4jXphVUB7xUqC9vLYLL9RZeOFfVLoB7Tgk"),
            (&content[..], b"", "UfkqvDGiIFxrMnFseDj9LYJOLNrvjW8aHhF71mvvAs8"),
        ] {
            assert_eq!(detached(content, "joshua", secret), format!("{header}..{signature}"));
        }
    }
}
