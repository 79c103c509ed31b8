//! The legacy token cleaner: deletes tokens in Secrets that old versions of Kubernetes made for service accounts, and that
//! no client has used for a long time.
//!
//! ```text
//! once a day: token Secrets ─> old, unused, in their account's list ─> pods of their namespaces ─> no pod uses them:
//!     not marked         ─> label `kubernetes.io/legacy-token-invalid-since`; the API server refuses the token from then on
//!     marked long ago    ─> delete
//! ```
//!
//! The API server says in a ConfigMap since when it tracks the use of tokens. Candidates are rare, so the controller lists the
//! pods of their namespaces in place of a cache of the Secrets that all pods use.

use std::sync::Arc;
use std::time::Duration;

use steersman_api::GroupVersionResource;
use steersman_controller::client::{Client, ResourceClient};
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::PeriodicLoop;
use steersman_informer::keep;
use steersman_kinds::pod::Pod;
use steersman_kinds::pod_secrets::PodSecrets;

use crate::service_account::Account;
use crate::service_account_token::token_secrets;

mod controller;
mod plan;
#[cfg(test)]
mod tests;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new(
    "legacy-serviceaccount-token-cleaner-controller",
    &["legacy-service-account-token-cleaner"],
    construct,
)
.options::<LegacyTokenCleanerOptions>()
.rules(&[
    Rule::new(&[""], &["serviceaccounts"], &["list", "watch"]),
    Rule::new(&[""], &["secrets"], &["list", "watch", "patch", "delete"]),
    Rule::new(&[""], &["pods"], &["list"]),
    Rule::new(&[""], &["configmaps"], &["get"]),
]);

options! {
    /// Settings of the legacy token cleaner.
    pub struct LegacyTokenCleanerOptions("LegacySATokenCleaner") {
        /// How long a token that an old version of Kubernetes made must have been unused until it is marked as invalid, and
        /// then until it is deleted
        pub clean_up_period: Duration = Duration::from_secs(8760 * 60 * 60),
            "legacy-service-account-token-clean-up-period", "CleanUpPeriod";
    }
}

keep! {
    /// What the controller reads of a pod.
    pub struct UsingPod: Pod => PodSecrets
}

/// The time between two rounds, as upstream's `DefaultCleanerSyncInterval`.
const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Makes the controller.
///
/// # Errors
/// The period is zero, or a cache runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let period = context.options::<LegacyTokenCleanerOptions>().clean_up_period;
    if period.is_zero() {
        return Err("--legacy-service-account-token-clean-up-period must be greater than 0".into());
    }
    let accounts = context.informers.informer::<Account>()?;
    let secrets = token_secrets(context)?;
    let sender = context.client_for("legacy-service-account-token-cleaner");
    let config_maps = GroupVersionResource::new("", "v1", "configmaps");
    let controller = controller::Cleaner {
        accounts: accounts.lister(),
        secrets: secrets.lister(),
        config_maps: ResourceClient::new(sender.clone(), config_maps, "ConfigMap"),
        // Upstream looks into the informers' cache of all pods.
        pods: Client::keeping::<UsingPod>(context.reader()),
        client: Client::new(sender),
        period,
    };
    let rounds = PeriodicLoop::new(Arc::new(controller), "all tokens", INTERVAL);
    Ok(Construction::new([rounds.into()], [accounts.any(), secrets.any()]))
}
