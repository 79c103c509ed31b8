//! The use of tokens in Secrets, which the legacy token cleaner goes by: since when the server tracks it, and when each token
//! was used last.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use steersman_api::ObjectKey;

use super::options::Commit;
use super::server::ApiServer;
use crate::access::SecretToken;
use crate::managed_fields;

/// The namespace of [`TRACKING`].
const NAMESPACE: &str = "kube-system";
/// The ConfigMap that says since when the server tracks uses.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// The manager of what the server writes by itself.
const SELF: &str = "kube-apiserver";

impl ApiServer {
    /// Notes the day of a token's use in its Secret. If the Secret changes meanwhile, or there is no space, the next use is
    /// noted.
    pub(super) fn note_use(&self, token: &SecretToken) {
        let Some(mut secret) = token.marked(self.clock().now()) else { return };
        let old = token.secret.parsed();
        self.with_subject(&token.secret.resource, "", |subject| {
            managed_fields::update(subject, &old, &mut secret, SELF);
        });
        if let Err(error) = self.store().replace(&token.secret, secret) {
            let key = &token.secret.key;
            tracing::debug!(secret = %key, %error, "The use of a token could not be noted");
        }
    }

    /// Makes the ConfigMap that says since when the server tracks uses, if it is missing, and mends it if it has no valid
    /// date.
    pub(crate) fn say_since_when_uses_are_tracked(&self) {
        let resources = self.resources();
        let maps = resources.get("", "v1", "configmaps").expect("the schema table must have ConfigMaps");
        let today = self.clock().now().to_zoned(TimeZone::UTC).date().to_string();
        let Some(map) = self.store().get(&maps.table, &ObjectKey::new(NAMESPACE, TRACKING)) else {
            let mut map = json!({
                "metadata": {"name": TRACKING, "namespace": NAMESPACE}, "data": {"since": today},
            });
            self.track_new(maps, &mut map, SELF);
            if let Err(refusal) = self.add_named(None, maps, NAMESPACE, map, Commit::Write) {
                tracing::warn!(error = %refusal.status.message, "The ConfigMap {TRACKING} could not be made");
            }
            return;
        };
        let old = map.parsed();
        let since = old["data"]["since"].as_str().unwrap_or_default();
        if since.len() == 10 && since.parse::<Date>().is_ok() {
            return;
        }
        let mut mended = old.as_ref().clone();
        if !mended["data"].is_object() {
            mended["data"] = Value::Object(Default::default());
        }
        mended["data"]["since"] = today.into();
        self.with_subject(maps, "", |subject| managed_fields::update(subject, &old, &mut mended, SELF));
        if let Err(error) = self.store().replace(&map, mended) {
            tracing::debug!(%error, "The ConfigMap {TRACKING} could not be mended");
        }
    }
}
