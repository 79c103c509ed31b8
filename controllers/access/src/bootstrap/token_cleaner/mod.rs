//! The token cleaner: deletes the Secrets of bootstrap tokens when they expire.
//!
//! ```text
//! changes of bootstrap tokens ─> queue "token_cleaner" ─> plan: wait until the expiration, or delete
//! ```

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_api::bootstrap_token::Expiry;
use steersman_api::{ObjectKey, ResourceVersion, Time, Uid};
use steersman_controller::client::{Client, Delete};
use steersman_controller::context::{Clock, ControllerContext};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{Change, Lister};
use steersman_kinds::bootstrap_token::{Secret, TokenInfo};

use super::TokenSecret;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new("token-cleaner-controller", &["tokencleaner"], construct)
    .off_by_default()
    .rules(&[Rule::new(&[""], &["secrets"], &["list", "watch", "delete"])
        .because("A Role in kube-system is enough: the controller has only to do with bootstrap tokens.")]);

/// Makes the controller.
///
/// # Errors
/// The cache runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let tokens = super::tokens(context)?;
    let queue = context.queue("token_cleaner");
    let keys = queue.clone();
    tokens.map(move |change| {
        if !matches!(change, Change::Deleted { .. }) {
            keys.add(change.key().clone());
        }
    });
    let cleaner = TokenCleaner {
        tokens: tokens.lister(),
        client: Client::new(context.client_for("token-cleaner")),
        clock: context.clock.clone(),
    };
    let syncs = QueueLoop::new(Arc::new(cleaner), queue).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [tokens.any()]))
}

struct TokenCleaner {
    tokens: Lister<TokenSecret>,
    client: Client<Secret>,
    clock: Clock,
}

/// A token's Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Observed {
    uid: Uid,
    /// The version that has this expiry.
    version: ResourceVersion,
    expiry: Expiry,
    is_deleted: bool,
}

/// The deletion of a Secret of this uid in this version. If somebody has prolonged the token since, it stays.
type Step = (Uid, ResourceVersion);

/// Deletes an expired token, and waits for the end of another one.
fn plan(observed: &Observed, now: Timestamp) -> Plan<Step> {
    if observed.is_deleted {
        return Plan::done();
    }
    if observed.expiry.has_passed(now) {
        return Plan::step((observed.uid.clone(), observed.version));
    }
    Plan::Done { requeue_after: left(observed.expiry, now) }
}

/// The time until a token expires; `None` if it never does.
pub(super) fn left(expiry: Expiry, now: Timestamp) -> Option<Duration> {
    match expiry {
        Expiry::At(time) => Some(time.duration_since(now).try_into().unwrap_or_default()),
        Expiry::Never | Expiry::Invalid => None,
    }
}

impl Controller for TokenCleaner {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = ();

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let secret = self.tokens.get(key);
        let secret = secret.map_err(|secret| SyncError::Unreadable(format!("Secret {}", secret.key)))?;
        Ok(secret.map_or(Observation::Nothing, |secret| {
            Observation::Ready(Observed {
                uid: secret.meta().uid.clone(),
                version: secret.meta().resource_version,
                expiry: secret.get::<TokenInfo>().expiry,
                is_deleted: false,
            })
        }))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        plan(observed, self.clock.timestamp())
    }

    async fn act(&self, key: &ObjectKey, _: &Observed, (uid, version): &Step) -> Result<(), SyncError> {
        tracing::info!(secret = %key, "Deleting expired secret");
        let delete = Delete { resource_version: Some(*version), ..Delete::of(uid) };
        // A Secret that has changed comes with its own change.
        self.client.delete(key, &delete).await.map(drop)
    }

    fn absorb(&self, observed: &mut Observed, _: Step, result: StepResult<()>) {
        observed.is_deleted = matches!(result, StepResult::Done(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_at_its_expiration_to_the_fraction_of_a_second() {
        let now: Timestamp = "2026-11-23T12:00:00.25Z".parse().unwrap();
        let delete = || Plan::step(("u".into(), ResourceVersion(7)));
        let wait = |millis| Plan::Done { requeue_after: Some(Duration::from_millis(millis)) };
        for (name, expiration, expected) in [
            ("never", "", Plan::done()),
            ("expired", "2026-11-23T11:00:00Z", delete()),
            ("expires now", "2026-11-23T12:00:00.25Z", delete()),
            ("expires soon", "2026-11-23T12:00:01Z", wait(750)),
            ("expires in another zone", "2026-11-23T13:00:00+00:59", wait(59_750)),
            ("no time", "soon", delete()),
        ] {
            let expiry = Expiry::parse(expiration);
            let mut observed =
                Observed { uid: "u".into(), version: ResourceVersion(7), expiry, is_deleted: false };
            assert_eq!(plan(&observed, now), expected, "{name}");
            observed.is_deleted = true;
            assert_eq!(plan(&observed, now), Plan::done());
        }
    }
}
