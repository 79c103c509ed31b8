//! Rounds over all tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::civil::Date;
use serde_json::json;
use steersman_api::{LabelSelector, ObjectKey, Time};
use steersman_controller::client::{Client, Delete, Patch, ResourceClient};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::wire::Group;
use steersman_informer::{Lister, View};
use steersman_kinds::pod::Pod;
use steersman_kinds::pod_secrets::PodSecrets;
use steersman_kinds::secret::{IsToken, Secret, TokenAccount};
use steersman_kinds::service_account::SecretReferences;

use super::plan::{Observed, Step, Token, date, plan};
use crate::service_account::Account;
use crate::service_account_token::TokenSecret;

/// The ConfigMap in which API servers say since when they track the use of tokens.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// The label with the day on which a token was last used.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// The label with the day since which the API server refuses a token.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// Marks and deletes tokens.
pub(super) struct Cleaner {
    pub accounts: Lister<Account>,
    pub secrets: Lister<TokenSecret>,
    pub config_maps: ResourceClient,
    pub pods: Client<Pod>,
    pub client: Client<Secret>,
    pub period: Duration,
}

impl Cleaner {
    async fn tracked_since(&self) -> Result<Date, SyncError> {
        let key = ObjectKey::new("kube-system", TRACKING);
        let failed = |why: &str| SyncError::Failed(format!("reading ConfigMap {key}: {why}"));
        let map = self.config_maps.get_json(&key).await?.ok_or_else(|| failed("not found"))?;
        let since = map["data"]["since"].as_str().ok_or_else(|| failed("it has no key \"since\""))?;
        date(since).ok_or_else(|| failed("\"since\" is not a date"))
    }

    /// The tokens that their accounts have in their lists: those that Kubernetes made before version 1.24.
    fn tokens(&self) -> Vec<Token> {
        let (secrets, unreadable) = self.secrets.list_readable();
        for error in unreadable {
            tracing::error!(%error, "Unreadable Secret will not be cleaned up");
        }
        let (accounts, unreadable) = self.accounts.list_readable();
        for error in unreadable {
            tracing::error!(%error, "Tokens of an unreadable ServiceAccount will not be cleaned up");
        }
        let accounts: BTreeMap<_, _> =
            accounts.iter().map(|account| (&account.meta().key, account)).collect();
        let of_account = |secret: &View<TokenSecret>| {
            let wanted = &secret.get::<TokenAccount>().account;
            let key = ObjectKey::new(secret.meta().key.namespace.clone(), wanted.name.clone());
            // The API server may have ignored the field selector.
            let is_token = secret.get::<IsToken>().0;
            accounts.get(&key).filter(|_| is_token).is_some_and(|account| {
                (wanted.uid.is_empty() || wanted.uid == account.meta().uid)
                    && account.get::<SecretReferences>().has(&secret.meta().key.name)
            })
        };
        secrets.iter().filter(|secret| of_account(secret)).filter_map(token).collect()
    }

    async fn list_pods(&self, namespace: &str) -> Result<BTreeSet<String>, SyncError> {
        let pods = self.pods.list(namespace, &LabelSelector::default()).await?;
        let mut used = BTreeSet::new();
        for pod in pods.objects {
            let PodSecrets(names) = PodSecrets::of(&pod).expect("the client must decode what it keeps");
            used.extend(names.iter().cloned());
        }
        Ok(used)
    }
}

/// The token in a Secret. `None` if the Secret is being deleted, or its label does not tell when it was last used.
fn token(secret: &View<TokenSecret>) -> Option<Token> {
    let meta = secret.meta();
    if meta.is_deleting() {
        return None;
    }
    let last_used = match meta.labels.get(LAST_USED) {
        None => None,
        Some(label) => match date(label) {
            None => {
                tracing::warn!(secret = %meta.key, label = %label, "Token has an invalid date of its last use");
                return None;
            }
            known => known,
        },
    };
    Some(Token {
        key: meta.key.clone(),
        uid: meta.uid.clone(),
        version: meta.resource_version,
        created: meta.created,
        last_used,
        invalid_since: meta.labels.get(INVALID_SINCE).and_then(|label| date(label)),
    })
}

impl Controller for Cleaner {
    type Key = &'static str;
    type Observed = Observed;
    type Step = Step;
    /// The names of the Secrets that the pods of a namespace use; empty for other steps.
    type Outcome = BTreeSet<String>;

    async fn observe(&self, _: &&'static str) -> Result<Observation<Observed>, SyncError> {
        let tracked_since = self.tracked_since().await?;
        let (tokens, used) = (self.tokens(), BTreeMap::new());
        Ok(Observation::Ready(Observed { tracked_since, tokens, used, is_over: false }))
    }

    fn plan(&self, observed: &Observed, now: Time) -> Plan<Step> {
        plan(observed, self.period, now)
    }

    async fn act(&self, _: &&'static str, _: &Observed, step: &Step) -> Result<BTreeSet<String>, SyncError> {
        match step {
            Step::ListPods(namespace) => return self.list_pods(namespace).await,
            Step::Mark(token, today) => {
                tracing::info!(secret = %token.key, invalid_since = %today, "Marking an unused token as invalid");
                let patch = json!({
                    "apiVersion": "v1", "kind": "Secret",
                    "metadata": {
                        "name": token.key.name.as_str(),
                        "namespace": token.key.namespace.as_str(),
                        "uid": token.uid.to_string(),
                        "labels": {INVALID_SINCE: today.to_string()},
                    },
                });
                self.client.patch(&token.key, &Patch::Merge(patch)).await?;
            }
            Step::Delete(token) => {
                let Token { key, last_used, invalid_since, .. } = token;
                tracing::info!(secret = %key, ?last_used, ?invalid_since, "Deleting an unused token");
                // Any use, and any other change, spares the token for this round.
                let delete = Delete { resource_version: Some(token.version), ..Delete::default() };
                self.client.delete(key, &delete).await?;
            }
        }
        Ok(BTreeSet::new())
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<BTreeSet<String>>) {
        match (step, result) {
            (Step::ListPods(namespace), StepResult::Done(used)) => {
                observed.used.insert(namespace, Some(used));
            }
            (Step::ListPods(namespace), _) => _ = observed.used.insert(namespace, None),
            _ => observed.is_over = true,
        }
    }
}
