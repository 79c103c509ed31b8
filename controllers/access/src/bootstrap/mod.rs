//! The controllers of bootstrap tokens: sign the ConfigMap by which new nodes learn to trust the cluster, delete expired
//! tokens. Both are off by default; kubeadm turns them on.

pub mod signer;
pub mod token_cleaner;

use steersman_api::bootstrap_token::{NAMESPACE, SECRET_TYPE};
use steersman_api::{FieldSelector, LabelSelector};
use steersman_controller::context::ControllerContext;
use steersman_informer::list_watch::Scope;
use steersman_informer::{Informer, factory, keep};
use steersman_kinds::bootstrap_token::{Secret, TokenInfo};

keep! {
    /// The fields of a token's Secret that say whether the token is good. The token itself is read when it signs.
    pub struct TokenSecret: Secret => TokenInfo
}

/// The informer of the Secrets of bootstrap tokens. It watches no other Secrets.
fn tokens(context: &ControllerContext) -> Result<Informer<TokenSecret>, factory::Error> {
    context.informers.scoped(Scope {
        namespace: NAMESPACE.into(),
        labels: LabelSelector::default(),
        fields: FieldSelector::equal("type", SECRET_TYPE),
    })
}
