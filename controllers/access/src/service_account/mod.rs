//! The service account controller: gives each active namespace its service account `default`, which pods use that name none.
//!
//! ```text
//! namespace ───────────────────┐
//! account `default` deleted ───┴─> queue `serviceaccount` ─> observe ─> plan: create, or nothing
//! ```
//!
//! A sync may decide on a cache that does not show the last create yet: the API server refuses a second account of the same
//! name.

use std::sync::Arc;

use steersman_api::ObjectKey;
use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{Change, keep};
use steersman_kinds::namespace::{Namespace, NamespacePhase};
use steersman_kinds::service_account::{SecretReferences, ServiceAccount};

mod controller;
mod plan;
#[cfg(test)]
mod tests;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("serviceaccount-controller", &["serviceaccount"], construct).rules(&[
        Rule::new(&[""], &["namespaces"], &["list", "watch"]),
        Rule::new(&[""], &["serviceaccounts"], &["list", "watch", "create"]),
    ]);

/// The name of the account.
const DEFAULT: &str = "default";

keep! {
    /// What controllers of this crate read of a namespace.
    pub struct ServedNamespace: Namespace => NamespacePhase
}

keep! {
    /// What controllers of this crate read of a service account.
    pub struct Account: ServiceAccount => SecretReferences
}

/// Makes the controller.
///
/// # Errors
/// A cache runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let namespaces = context.informers.informer::<ServedNamespace>()?;
    let accounts = context.informers.informer::<Account>()?;
    let queue = context.queue("serviceaccount");
    namespaces.map({
        let queue = queue.clone();
        move |change| {
            if let Some(namespace) = change.new() {
                queue.add(namespace.meta().key.clone());
            }
        }
    });
    accounts.map({
        let queue = queue.clone();
        move |change| {
            if matches!(change, Change::Deleted { .. }) && change.key().name == DEFAULT {
                queue.add(ObjectKey::cluster(change.key().namespace.clone()));
            }
        }
    });
    let controller = controller::ServiceAccountController {
        namespaces: namespaces.lister(),
        accounts: accounts.lister(),
        client: Client::new(context.client_for("service-account-controller")),
    };
    let syncs = QueueLoop::new(Arc::new(controller), queue).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [namespaces.any(), accounts.any()]))
}
