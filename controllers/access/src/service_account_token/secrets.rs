//! Syncs of Secrets: fills them, or deletes them if their service account is gone.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steersman_api::{ResourceVersion, Time, Uid};
use steersman_controller::call::{Content, JSON};
use steersman_controller::client::{Changed, Client, Delete};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::Lister;
use steersman_informer::wire::Object;
use steersman_kinds::config_map::CA_KEY;
use steersman_kinds::content_digest::ContentDigest;
use steersman_kinds::secret::{ACCOUNT_NAME, ACCOUNT_UID, NAMESPACE_KEY, Secret, TOKEN_KEY, TokenContents};
use steersman_kinds::service_account::ServiceAccount;

use super::TokenSecret;
use super::keys::SecretKey;
use super::plan::{Account, Missing, Observed, Step, plan};
use super::signing_key::SigningKey;
use crate::service_account;
use crate::unreadable;

/// Fills Secrets, and cleans up after those that are gone.
pub(super) struct Secrets {
    pub accounts: Lister<service_account::Account>,
    pub secrets: Lister<TokenSecret>,
    pub client: Client<Secret>,
    pub account_client: Client<ServiceAccount>,
    pub key: SigningKey,
    /// The certificate authority, in PEM. Empty: Secrets get none.
    pub ca: Arc<str>,
}

impl Secrets {
    /// The cached account that a Secret names, if it has the uid that the Secret names.
    fn cached_account(&self, key: &SecretKey) -> Option<Uid> {
        let uid = self.accounts.meta(&key.account_key())?.uid;
        fits(key, &uid).then_some(uid)
    }

    async fn read_account(&self, key: &SecretKey) -> Result<Account, SyncError> {
        let account = self.account_client.get(&key.account_key()).await?;
        let uid = account.map(|account| account.meta().uid.clone()).filter(|uid| fits(key, uid));
        Ok(uid.map_or(Account::Gone, Account::Found))
    }

    /// Writes what the Secret lacks, unless it has changed since `version`. If it has, or changes meanwhile, an event will
    /// bring its key again.
    async fn fill(&self, key: &SecretKey, version: ResourceVersion, uid: &Uid) -> Result<(), SyncError> {
        let Some(mut secret) = self.client.resource().get_json(&key.key).await? else { return Ok(()) };
        if secret["metadata"]["resourceVersion"] != version.to_string() {
            tracing::debug!("Secret has changed, waiting for the cache");
            return Ok(());
        }
        let missing = missing_of(&secret, &self.ca);
        if missing.is_none() {
            return Ok(());
        }
        for member in ["data", "metadata"] {
            object_at(&mut secret, member);
        }
        if missing.ca {
            secret["data"][CA_KEY] = STANDARD.encode(&*self.ca).into();
        }
        if missing.namespace {
            secret["data"][NAMESPACE_KEY] = STANDARD.encode(&*key.key.namespace).into();
        }
        if missing.token {
            let token = self.key.token(&key.account_key(), uid, &key.key.name);
            let token = token.map_err(|_| SyncError::Failed("signing a token: no randomness".to_owned()))?;
            secret["data"][TOKEN_KEY] = STANDARD.encode(token).into();
        }
        let annotations = object_at(&mut secret["metadata"], "annotations");
        annotations[ACCOUNT_NAME] = key.account.name.as_str().into();
        annotations[ACCOUNT_UID] = uid.to_string().into();
        match self.client.update(&key.key, Content::json(JSON, &secret)).await? {
            Changed::Now(_) | Changed::Gone | Changed::Conflict(_) => Ok(()),
        }
    }

    /// Removes the reference to the Secret from its account, if the account still has it.
    async fn unlink(&self, key: &SecretKey) -> Result<(), SyncError> {
        let account_key = key.account_key();
        let client = self.account_client.resource();
        let Some(mut account) = client.get_json(&account_key).await? else { return Ok(()) };
        let uid = account["metadata"]["uid"].as_str().unwrap_or_default();
        if !fits(key, &uid.into()) || !remove_reference(&mut account, &key.key.name) {
            return Ok(());
        }
        let updated = self.account_client.update(&account_key, Content::json(JSON, &account)).await?;
        updated.or_conflict(|| format!("updating ServiceAccount {account_key}")).map(drop)
    }
}

/// Whether an account of this uid is the one that the Secret names.
fn fits(key: &SecretKey, uid: &Uid) -> bool {
    key.account.uid.is_empty() || key.account.uid == *uid
}

/// The parts that a Secret in JSON lacks.
pub(super) fn missing_of(secret: &Value, ca: &str) -> Missing {
    let is_there = |key: &str| secret["data"][key].as_str().is_some_and(|data| !data.is_empty());
    let found = secret["data"][CA_KEY].as_str().and_then(|data| STANDARD.decode(data).ok());
    Missing {
        ca: !ca.is_empty() && found.as_deref() != Some(ca.as_bytes()),
        namespace: !is_there(NAMESPACE_KEY),
        token: !is_there(TOKEN_KEY),
    }
}

/// The member of this name, which becomes an object if it is none.
fn object_at<'a>(value: &'a mut Value, name: &str) -> &'a mut Value {
    let member = &mut value[name];
    if !member.is_object() {
        *member = json!({});
    }
    member
}

/// Removes the references to a Secret from an account in JSON. Returns whether there were any.
pub(super) fn remove_reference(account: &mut Value, secret: &str) -> bool {
    let Some(references) = account["secrets"].as_array_mut() else { return false };
    let before = references.len();
    references.retain(|reference| reference["name"] != secret);
    references.len() < before
}

impl Controller for Secrets {
    type Key = SecretKey;
    type Observed = Observed;
    type Step = Step;
    /// The state after the step.
    type Outcome = Observed;

    async fn observe(&self, key: &SecretKey) -> Result<Observation<Observed>, SyncError> {
        let secret = self.secrets.get(&key.key).map_err(unreadable("Secret"))?;
        let account = self.cached_account(key);
        let secret = secret.filter(|secret| secret.meta().uid == key.uid);
        Ok(Observation::Ready(match secret {
            None => Observed::Gone { has_account: account.is_some() },
            Some(secret) => {
                let ca = Some(&*self.ca).filter(|ca| !ca.is_empty());
                let ca = ca.map(|ca| ContentDigest::of(ca.as_bytes()));
                Observed::Cached {
                    version: secret.meta().resource_version,
                    missing: Missing::of(*secret.get::<TokenContents>(), ca),
                    account: account.map_or(Account::Unknown, Account::Found),
                }
            }
        }))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, key: &SecretKey, observed: &Observed, step: &Step) -> Result<Observed, SyncError> {
        match step {
            Step::ReadAccount => {
                let found = self.read_account(key).await?;
                return Ok(match observed.clone() {
                    Observed::Cached { version, missing, .. } => {
                        Observed::Cached { version, missing, account: found }
                    }
                    other => other,
                });
            }
            Step::Delete => {
                tracing::debug!("Deleting the token of a service account that does not exist");
                self.client.delete(&key.key, &Delete::of(&key.uid)).await?;
            }
            Step::Fill(version, uid) => self.fill(key, *version, uid).await?,
            Step::Unlink => self.unlink(key).await?,
        }
        Ok(Observed::Settled)
    }

    fn absorb(&self, observed: &mut Observed, _: Step, result: StepResult<Observed>) {
        if let StepResult::Done(next) = result {
            *observed = next;
        }
    }
}
