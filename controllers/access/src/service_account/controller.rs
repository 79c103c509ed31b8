//! Syncs of namespaces.

use serde_json::json;
use steersman_api::{ObjectKey, Time};
use steersman_controller::call::{Content, JSON};
use steersman_controller::client::{Client, Created};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::Lister;
use steersman_kinds::namespace::NamespacePhase;
use steersman_kinds::service_account::ServiceAccount;

use super::plan::{Observed, Step, plan};
use super::{Account, DEFAULT, ServedNamespace};
use crate::unreadable;

/// Creates missing accounts. Its keys are those of namespaces.
pub(super) struct ServiceAccountController {
    pub namespaces: Lister<ServedNamespace>,
    pub accounts: Lister<Account>,
    pub client: Client<ServiceAccount>,
}

impl Controller for ServiceAccountController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = ();

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let namespace = self.namespaces.get(key).map_err(unreadable("Namespace"))?;
        Ok(namespace.map_or(Observation::Nothing, |namespace| {
            let account = ObjectKey::new(key.name.clone(), DEFAULT);
            Observation::Ready(Observed {
                is_active: namespace.get::<NamespacePhase>().is_active(),
                has_account: self.accounts.meta(&account).is_some(),
            })
        }))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        plan(*observed)
    }

    async fn act(&self, key: &ObjectKey, _: &Observed, step: &Step) -> Result<(), SyncError> {
        let Step::Create = step;
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": DEFAULT, "namespace": key.name},
        });
        match self.client.create(&key.name, Content::json(JSON, &account)).await? {
            Created::Now(_) | Created::Exists(_) | Created::NamespaceTerminating => Ok(()),
        }
    }

    fn absorb(&self, observed: &mut Observed, _: Step, result: StepResult<()>) {
        observed.has_account |= matches!(result, StepResult::Done(()));
    }
}
