//! Tokens that are kept in Secrets. They never expire: each is valid while its Secret and its service account exist.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;
use steersman_api::ObjectKey;

use super::{Identity, hash, identity};
use crate::object::list_at;
use crate::store::{Object, Store};

/// The issuer of these tokens.
pub(crate) const ISSUER: &str = "kubernetes/serviceaccount";
/// The label of a Secret with the day on which its token was last used.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// The label of a Secret whose token is refused.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// What a client is told that uses a token which Kubernetes made before version 1.24.
pub(crate) const GENERATED: &str = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of \
     auto-generated secret-based tokens.";

/// What such a token says: upstream's `LegacyClaims`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct SecretClaims {
    iss: String,
    sub: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    uid: String,
}

/// A token whose Secret and service account exist.
pub(crate) struct SecretToken {
    /// The Secret. The server notes the token's use in it, whether it admits the client or not.
    pub(crate) secret: Arc<Object>,
    /// Whether the service account has the Secret in its list, as Kubernetes before version 1.24 put it there.
    pub(crate) generated: bool,
    /// Whose token it is, or why the server refuses it.
    pub(crate) identity: Result<Identity, String>,
}

impl SecretClaims {
    /// Whether the claims are consistent.
    pub(super) fn are_valid(&self) -> bool {
        let parts = [&self.namespace, &self.secret, &self.account, &self.uid];
        self.iss == ISSUER
            && parts.into_iter().all(|part| !part.is_empty())
            && self.sub == identity::user_of_account(&self.namespace, &self.account)
    }
}

impl SecretToken {
    /// Looks up the Secret and the service account of a token whose signature is valid.
    ///
    /// # Errors
    /// Why the token is not valid, in upstream's words.
    pub(crate) fn find(store: &Store, token: &str, claims: &SecretClaims) -> Result<Self, String> {
        let SecretClaims { namespace, secret, account, uid, .. } = claims;
        let get =
            |table: &str, name: &str| store.get(&table.into(), &ObjectKey::new(namespace.as_str(), name));
        let found = get("secrets", secret).filter(|secret| secret.deletion_timestamp().is_none());
        let found = found.ok_or("Token has been invalidated")?;
        let value = found.parsed();
        let kept = value["data"]["token"].as_str().and_then(decode).unwrap_or_default();
        if hash(&kept) != hash(token) {
            return Err("Token does not match server's copy".to_owned());
        }
        let owner = get("serviceaccounts", account)
            .ok_or_else(|| format!("serviceaccounts {account:?} not found"))?;
        if owner.deletion_timestamp().is_some() {
            return Err(format!("ServiceAccount {namespace}/{account} has been deleted"));
        }
        if owner.uid() != uid {
            return Err(format!("ServiceAccount UID ({}) does not match claim ({uid})", owner.uid()));
        }
        let generated = list_at(&owner.parsed(), "secrets").iter().any(|one| one["name"] == secret.as_str());
        let identity = if found.label(INVALID_SINCE).is_some_and(|since| !since.is_empty()) {
            Err(format!(
                "the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked \
                 invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the \
                 '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
            ))
        } else {
            let groups = identity::groups_of_accounts(namespace);
            Ok(Identity { uid: uid.clone(), ..Identity::authenticated(claims.sub.clone(), groups) })
        };
        Ok(Self { secret: found, generated, identity })
    }

    /// The Secret with the day of this use in its label. `None` if it has that day or, since other servers' clocks may be
    /// ahead, the next one.
    pub(crate) fn marked(&self, now: Timestamp) -> Option<Value> {
        let today = now.to_zoned(TimeZone::UTC).date();
        let tomorrow = today.tomorrow().unwrap_or(today);
        let last_used = self.secret.label(LAST_USED);
        if [today, tomorrow].iter().any(|day| last_used == Some(day.to_string().as_str())) {
            return None;
        }
        let mut secret = self.secret.parsed().as_ref().clone();
        let labels = &mut secret["metadata"]["labels"];
        if !labels.is_object() {
            *labels = Value::Object(Default::default());
        }
        labels[LAST_USED] = today.to_string().into();
        Some(secret)
    }
}

/// The text of a value in a Secret's data.
fn decode(data: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(data).ok()?).ok()
}
