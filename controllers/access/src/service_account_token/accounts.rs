//! Syncs of service accounts: deletes the Secrets of those that are gone.

use steersman_api::{ObjectKey, Time, Uid};
use steersman_controller::client::{Client, Delete};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_informer::{Index, IndexValue, Lister};
use steersman_kinds::secret::{Secret, TokenAccount};

use super::TokenSecret;
use super::keys::AccountKey;
use crate::service_account::Account;
use crate::unreadable;

/// Maximum number of deletes that one sync sends at a time.
const AT_A_TIME: usize = 5;

/// Deletes the Secrets of accounts that are gone.
pub(super) struct Accounts {
    pub accounts: Lister<Account>,
    pub secrets: Lister<TokenSecret>,
    pub by_account: Index<TokenSecret>,
    pub client: Client<Secret>,
}

/// A Secret to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Orphan {
    pub key: ObjectKey,
    pub uid: Uid,
}

/// Deletes these Secrets, all of them even if some fail.
pub(super) fn plan(orphans: &[Orphan]) -> Plan<Orphan> {
    if orphans.is_empty() {
        return Plan::done();
    }
    let (pace, on_failure) = (Pace::Together(AT_A_TIME), OnFailure::Stop);
    Plan::Act(Batch { steps: orphans.to_vec(), pace, on_failure })
}

impl Controller for Accounts {
    type Key = AccountKey;
    /// The Secrets to delete.
    type Observed = Vec<Orphan>;
    type Step = Orphan;
    type Outcome = ();

    async fn observe(&self, key: &AccountKey) -> Result<Observation<Vec<Orphan>>, SyncError> {
        if self.accounts.meta(&key.key).is_some_and(|account| account.uid == key.uid) {
            return Ok(Observation::Nothing);
        }
        let entry = IndexValue::Pair(key.key.namespace.clone(), key.key.name.clone());
        let secrets = self.secrets.by_index(&self.by_account, &entry).map_err(unreadable("Secret"))?;
        let is_of_it = |uid: &Uid| uid.is_empty() || *uid == key.uid;
        let orphans = secrets.iter().filter(|secret| is_of_it(&secret.get::<TokenAccount>().account.uid));
        let orphans = orphans.map(|secret| {
            let meta = secret.meta();
            Orphan { key: meta.key.clone(), uid: meta.uid.clone() }
        });
        Ok(Observation::Ready(orphans.collect()))
    }

    fn plan(&self, orphans: &Vec<Orphan>, _: Time) -> Plan<Orphan> {
        plan(orphans)
    }

    async fn act(&self, _: &AccountKey, _: &Vec<Orphan>, orphan: &Orphan) -> Result<(), SyncError> {
        tracing::debug!(secret = %orphan.key, "Deleting the token of a service account that is gone");
        // The Secret may be gone already, or another one have its name.
        self.client.delete(&orphan.key, &Delete::of(&orphan.uid)).await.map(drop)
    }

    fn absorb(&self, orphans: &mut Vec<Orphan>, orphan: Orphan, result: StepResult<()>) {
        if matches!(result, StepResult::Done(())) {
            orphans.retain(|other| *other != orphan);
        }
    }
}
