//! The bootstrap signer: signs the ConfigMap `kube-public/cluster-info` with each bootstrap token that may sign. A new node that
//! has a token so verifies the address and the certificate authority of the API server.
//!
//! ```text
//! changes of cluster-info and of bootstrap tokens ─> queue "bootstrap_signer_queue" ─> read both ─> plan ─> update
//! ```
//!
//! The caches say only when there is something to do. The controller reads the tokens from the API server for each sync, so that
//! no cache holds them.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use steersman_api::bootstrap_token::{SECRET, SECRET_TYPE, id_in_name};
use steersman_api::{FieldSelector, LabelSelector, ObjectKey, Time};
use steersman_controller::call::{Content, JSON};
use steersman_controller::client::Client;
use steersman_controller::context::{Clock, ControllerContext};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::list_watch::Scope;
use steersman_informer::{Change, Informer, Lister, keep};
use steersman_kinds::bootstrap_token::cluster_info::ConfigMap;
use steersman_kinds::bootstrap_token::{HasData, Secret, TokenInfo};

use super::TokenSecret;
use plan::{Observed, Token, Update, plan};

mod jws;
mod plan;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("bootstrap-signer-controller", &["bootstrapsigner"], construct).off_by_default().rules(
        &[
            Rule::new(&[""], &["secrets"], &["get", "list", "watch"]).because(
                "A Role in kube-system is enough: the controller has only to do with bootstrap tokens.",
            ),
            Rule::new(&[""], &["configmaps"], &["get", "list", "watch", "update"]).named(&[NAME]),
        ],
    );

keep! {
    /// Whether the ConfigMap is there.
    pub struct ClusterInfo: ConfigMap => HasData
}

/// The namespace of the signed ConfigMap.
const NAMESPACE: &str = "kube-public";
/// The name of the signed ConfigMap.
const NAME: &str = "cluster-info";

/// Makes the controller.
///
/// # Errors
/// A cache runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let tokens = super::tokens(context)?;
    let maps: Informer<ClusterInfo> = context.informers.scoped(Scope {
        namespace: NAMESPACE.into(),
        labels: LabelSelector::default(),
        fields: FieldSelector::name(NAME),
    })?;
    let queue = context.queue("bootstrap_signer_queue");
    let key = || ObjectKey::new(NAMESPACE, NAME);
    let keys = queue.clone();
    maps.map(move |change| {
        if !matches!(change, Change::Deleted { .. }) {
            keys.add(key());
        }
    });
    let keys = queue.clone();
    tokens.map(move |_| keys.add(key()));
    let sender = context.client_for("bootstrap-signer");
    let signer = Signer {
        tokens: tokens.lister(),
        maps: maps.lister(),
        secret_client: Client::new(sender.clone()),
        map_client: Client::new(sender),
        clock: context.clock.clone(),
    };
    let syncs = QueueLoop::new(Arc::new(signer), queue).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [tokens.any(), maps.any()]))
}

/// Signs `cluster-info`. It has one key, that of the ConfigMap.
struct Signer {
    tokens: Lister<TokenSecret>,
    maps: Lister<ClusterInfo>,
    secret_client: Client<Secret>,
    map_client: Client<ConfigMap>,
    clock: Clock,
}

impl Signer {
    /// Reads the tokens that sign, as far as the cache shows them.
    async fn read_tokens(&self) -> Result<Vec<Token>, SyncError> {
        let (secrets, unreadable) = self.tokens.list_readable();
        if let Some(error) = unreadable.first() {
            tracing::warn!(%error, secrets = unreadable.len(), "Skipped bootstrap tokens that can't be read");
        }
        let mut tokens = Vec::new();
        for secret in secrets {
            let info = secret.get::<TokenInfo>();
            let name = &secret.meta().key.name;
            let signs = info.signs && id_in_name(name) == Some(info.id.as_str());
            if !signs || info.expiry.has_passed(self.clock.timestamp()) {
                continue;
            }
            let read = self.secret_client.resource().get_json(&secret.meta().key).await?;
            tokens.extend(read.and_then(|secret| token(name, &secret)));
        }
        Ok(tokens)
    }
}

/// The token of a Secret of this name. `None` if the token may not sign.
fn token(name: &str, secret: &Value) -> Option<Token> {
    let value = |key: &str| STANDARD.decode(secret["data"][key].as_str()?).ok();
    let mut info = TokenInfo::default();
    for key in secret["data"].as_object()?.keys().filter(|key| *key != SECRET) {
        info.add(key, &value(key).unwrap_or_default());
    }
    let part = value(SECRET).filter(|part| !part.is_empty())?;
    let is_good = secret["type"] == SECRET_TYPE && info.signs && id_in_name(name) == Some(info.id.as_str());
    is_good.then_some(Token { id: info.id, secret: part, expiry: info.expiry })
}

impl Controller for Signer {
    type Key = ObjectKey;
    type Observed = Option<Observed>;
    type Step = Update;
    type Outcome = ();

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Option<Observed>>, SyncError> {
        let cached = self.maps.get(key);
        let cached = cached.map_err(|map| SyncError::Unreadable(format!("ConfigMap {}", map.key)))?;
        if cached.is_none() {
            return Ok(Observation::Nothing);
        }
        let Some(map) = self.map_client.resource().get_json(key).await? else {
            return Ok(Observation::Nothing);
        };
        Ok(Observation::Ready(Some(Observed { map, tokens: self.read_tokens().await? })))
    }

    fn plan(&self, observed: &Option<Observed>, _: Time) -> Plan<Update> {
        observed.as_ref().map_or(Plan::done(), |observed| plan(observed, self.clock.timestamp()))
    }

    async fn act(
        &self,
        key: &ObjectKey,
        _: &Option<Observed>,
        Update(map): &Update,
    ) -> Result<(), SyncError> {
        let updated = self.map_client.update(key, Content::json(JSON, map)).await?;
        updated.or_conflict(|| format!("updating ConfigMap {key}")).map(drop)
    }

    fn absorb(&self, observed: &mut Option<Observed>, step: Update, result: StepResult<()>) {
        if let (Some(observed), StepResult::Done(())) = (observed, result) {
            observed.map = step.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_api::bootstrap_token::Expiry;

    use super::*;

    #[test]
    fn a_secret_has_a_token_that_signs_if_it_is_complete() {
        let good = json!({
            "token-id": "abcdef", "token-secret": "s", "usage-bootstrap-signing": "true",
            "expiration": "2026-01-01T00:00:00Z",
        });
        let of = |name: &str, kind: &str, data: &Value| {
            let data = data.as_object().unwrap().iter();
            let data: serde_json::Map<_, _> = data
                .map(|(key, value)| (key.clone(), STANDARD.encode(value.as_str().unwrap()).into()))
                .collect();
            token(name, &json!({"type": kind, "data": data}))
        };
        let name = "bootstrap-token-abcdef";
        let expiry = Expiry::At("2026-01-01T00:00:00Z".parse().unwrap());
        let expected = Token { id: "abcdef".into(), secret: b"s".to_vec(), expiry };
        assert_eq!(of(name, SECRET_TYPE, &good), Some(expected));
        assert_eq!(of(name, "Opaque", &good), None);
        for other in ["bootstrap-token-bcdefg", "token-abcdef", "bootstrap-token-abcdefg"] {
            assert_eq!(of(other, SECRET_TYPE, &good), None, "{other}");
        }
        for (key, value) in [
            ("token-id", "bcdefg"),
            ("token-id", ""),
            ("token-secret", ""),
            ("usage-bootstrap-signing", ""),
            ("usage-bootstrap-signing", "True"),
            ("usage-bootstrap-signing", "false"),
        ] {
            let mut data = good.clone();
            data[key] = value.into();
            assert_eq!(of(name, SECRET_TYPE, &data), None, "{key}: {value}");
        }
        assert_eq!(token(name, &json!({"type": SECRET_TYPE})), None);
    }
}
