//! The publisher of the ClusterTrustBundle of the signer `kubernetes.io/kube-apiserver-serving`: the certificate authorities by
//! which clients verify the API server.
//!
//! ```text
//! a bundle of the signer changes ─> queue ─> observe ─> plan: create or restore the bundle ─> delete the signer's others
//! ```
//!
//! A bundle's name has a digest of its certificates. So a new authority makes a new bundle, and the old one goes once the new one
//! is there. Clients read all bundles of a signer.

mod controller;
mod metrics;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use steersman_api::FieldSelector;
use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::keep;
use steersman_informer::list_watch::Scope;
use steersman_kinds::cluster_trust_bundle::{ClusterTrustBundle, TrustBundle};

use self::controller::{KEY, Publisher};
use self::metrics::Metrics;
use crate::service_account_token::{ServiceAccountOptions, root_ca};

/// The row of the controller. It runs only with the feature gate `ClusterTrustBundle`, which is off by default.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("kube-apiserver-serving-clustertrustbundle-publisher-controller", &[], construct).rules(
        &[
            Rule::new(&["certificates.k8s.io"], &["signers"], &["attest"]).named(&[SIGNER]),
            Rule::new(
                &["certificates.k8s.io"],
                &["clustertrustbundles"],
                &["list", "watch", "create", "update", "delete"],
            ),
        ],
    );

/// The signer of the API server's certificates.
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";

keep! {
    /// What the controller reads of a bundle.
    pub struct PublishedBundle: ClusterTrustBundle => TrustBundle
}

/// Makes the controller. Without a certificate authority it is declined.
///
/// # Errors
/// `--root-ca-file` can't be read, the cache runs already without the fields that the controller reads, or its metrics are
/// registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let ca = root_ca(&context.options::<ServiceAccountOptions>(), context)?;
    if ca.is_empty() {
        return Ok(Construction::declined("there is no certificate authority: see --root-ca-file"));
    }
    let metrics = Metrics::register(&context.metrics)?;
    let fields = FieldSelector::equal("spec.signerName", SIGNER);
    let bundles = context.informers.scoped::<PublishedBundle>(Scope { fields, ..Scope::default() })?;
    let queue = context.queue("ca_cert_publisher_cluster_trust_bundles");
    bundles.map({
        let queue = queue.clone();
        move |_| queue.add(KEY)
    });
    let client = Client::new(context.client_for("kube-apiserver-serving-clustertrustbundle-publisher"));
    let controller = Publisher::new(bundles.lister(), client, ca, metrics, queue.clone());
    let syncs = QueueLoop::new(Arc::new(controller), queue).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [bundles.any()]))
}
