//! Authentication by bootstrap tokens, as kube-apiserver does it with `--enable-bootstrap-token-auth`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use steersman_api::ObjectKey;
use steersman_api::bootstrap_token::{
    EXPIRATION, EXTRA_GROUPS, Expiry, ID, NAME_PREFIX, NAMESPACE, SECRET, SECRET_TYPE, USAGE_AUTHENTICATION,
    USER_PREFIX, groups, split,
};

use super::{Identity, hash};
use crate::store::Store;

/// What is read of a Secret.
#[derive(Deserialize)]
struct Secret {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// The user of a bootstrap token. `None` if the text is no bootstrap token, or the token is not valid.
pub(crate) fn user_of_token(store: &Store, token: &str, now: Timestamp) -> Option<Identity> {
    let (id, secret) = split(token)?;
    let found = store.get(&"secrets".into(), &ObjectKey::new(NAMESPACE, format!("{NAME_PREFIX}{id}")))?;
    let read: Secret = found.read()?;
    if found.deletion_timestamp().is_some() || read.kind != SECRET_TYPE {
        return None;
    }
    // The text of a key; empty if the Secret lacks it. Bytes that are no text stay wrong: an expiration that can't be read must
    // not look like none.
    let value = |key: &str| {
        let data = read.data.get(key).map(String::as_str).unwrap_or_default();
        STANDARD.decode(data).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    // Digests are compared, so that the time of the comparison tells nothing about the secret.
    let is_known = hash(&value(SECRET)?) == hash(secret);
    let is_usable = value(ID)? == id
        && !Expiry::parse(&value(EXPIRATION)?).has_passed(now)
        && value(USAGE_AUTHENTICATION)? == "true";
    let groups = groups(&value(EXTRA_GROUPS)?).ok()?;
    (is_known && is_usable).then(|| Identity::authenticated(format!("{USER_PREFIX}{id}"), groups))
}
