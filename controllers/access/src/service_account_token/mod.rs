//! The token controller: keeps the Secrets that hold a token of a service account.
//!
//! ```text
//! account gone ─────────> queue of accounts ─> its Secrets are deleted
//! Secret changed, gone ─> queue of Secrets ──> account gone: delete; data missing: read, sign, write;
//!                                              Secret gone: remove it from the account's list
//! ```
//!
//! Both queues have upstream's name for each: `serviceaccount_tokens_service`. The cache has Secrets of this one type, and of
//! each only the account and which data are there. The controller checks the type of each cached Secret as well, so that it
//! harms no other Secrets if a proxy or API server ignores the field selector. The controller reads a Secret before it signs, and signs only if the cache
//! showed the state that it read: so it never signs a second token for one that another process has written.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use steersman_api::FieldSelector;
use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::list_watch::Scope;
use steersman_informer::{Change, IndexValue, Informer, View, keep};
use steersman_kinds::secret::{IsToken, SERVICE_ACCOUNT_TOKEN, Secret, TokenAccount, TokenContents};

use crate::service_account::Account;
use keys::{AccountKey, SecretKey};
use signing_key::SigningKey;

mod accounts;
mod keys;
mod plan;
mod secrets;
mod signing_key;
#[cfg(test)]
mod tests;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("serviceaccount-token-controller", &["serviceaccount-token"], construct)
        .options::<ServiceAccountOptions>()
        .rules(&[
            Rule::new(&[""], &["serviceaccounts"], &["get", "list", "watch", "update"])
                .because("References to deleted tokens are removed from accounts."),
            Rule::new(&[""], &["secrets"], &["get", "list", "watch", "update", "delete"]),
        ]);

options! {
    /// Settings of the controllers of service accounts.
    pub struct ServiceAccountOptions("SAController") {
        /// PEM file with the RSA or ECDSA private key that signs the tokens in Secrets; without it, no such tokens are made
        pub key_file: String = String::new(), "service-account-private-key-file", "ServiceAccountKeyFile";
        /// How many tokens of service accounts are synced at a time
        pub concurrent_syncs: Workers = Workers(5),
            "concurrent-serviceaccount-token-syncs", "ConcurrentSATokenSyncs";
        /// PEM file with the certificate authority that is published in every namespace and in the Secrets of service
        /// accounts; by default that of the kubeconfig
        pub root_ca_file: String = String::new(), "root-ca-file", "RootCAFile";
    }
}

keep! {
    /// What controllers of this crate read of a Secret with a token.
    pub struct TokenSecret: Secret => TokenAccount, TokenContents, IsToken
}

/// How often in a row a key is tried again, as upstream's `maxRetries` of this controller.
const RETRIES: u32 = 10;

/// Makes the controller. Without a key it is declined.
///
/// # Errors
/// A file can't be used, or a cache runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let options: ServiceAccountOptions = context.options();
    if options.key_file.is_empty() {
        return Ok(Construction::declined("there is no private key: see --service-account-private-key-file"));
    }
    let key = SigningKey::read(Path::new(&options.key_file))?;
    let ca = root_ca(&options, context)?;
    let accounts = context.informers.informer::<Account>()?;
    let secrets = token_secrets(context)?;
    let (of_accounts, of_secrets) =
        (context.queue("serviceaccount_tokens_service"), context.queue("serviceaccount_tokens_service"));
    accounts.map({
        let queue = of_accounts.clone();
        move |change| {
            let gone = match change {
                Change::Deleted { last } => Some(last),
                Change::Updated { old, new } if old.meta().uid != new.meta().uid => Some(old),
                _ => None,
            };
            if let Some(account) = gone {
                let meta = account.meta();
                queue.add(AccountKey { key: meta.key.clone(), uid: meta.uid.clone() });
            }
        }
    });
    secrets.map({
        let queue = of_secrets.clone();
        move |change| {
            let replaced = match change {
                Change::Updated { old, new } if old.meta().uid != new.meta().uid => Some(old),
                _ => None,
            };
            let secrets = replaced.into_iter().chain([change.newest()]);
            secrets.filter_map(secret_key).for_each(|key| queue.add(key));
        }
    });
    let sender = context.client_for("tokens-controller");
    let of_account = accounts::Accounts {
        accounts: accounts.lister(),
        secrets: secrets.lister(),
        by_account: secrets.add_index("account", |secret| {
            let key = secret_key(secret);
            key.map(|key| IndexValue::Pair(key.key.namespace, key.account.name)).into_iter().collect()
        }),
        client: Client::new(sender.clone()),
    };
    let of_secret = secrets::Secrets {
        accounts: accounts.lister(),
        secrets: secrets.lister(),
        client: Client::new(sender.clone()),
        account_client: Client::new(sender),
        key,
        ca,
    };
    let (workers, give_up) = (options.concurrent_syncs.0, GiveUp::AfterFailures(RETRIES));
    let loops = [
        QueueLoop::new(Arc::new(of_account), of_accounts).workers(workers).give_up(give_up).into(),
        QueueLoop::new(Arc::new(of_secret), of_secrets).workers(workers).give_up(give_up).into(),
    ];
    Ok(Construction::new(loops, [accounts.any(), secrets.any()]))
}

/// The key of a Secret that holds a token. `None` if the Secret has another type, or names no account: the API server admits no
/// token of that kind.
fn secret_key(secret: &View<TokenSecret>) -> Option<SecretKey> {
    let (meta, account) = (secret.meta(), &secret.get::<TokenAccount>().account);
    let names_account = secret.get::<IsToken>().0 && !account.name.is_empty();
    names_account.then(|| SecretKey {
        key: meta.key.clone(),
        uid: meta.uid.clone(),
        account: account.clone(),
    })
}

/// The informer of Secrets that hold a token of a service account.
///
/// # Errors
/// Its cache runs already without the fields that [`TokenSecret`] reads.
pub(crate) fn token_secrets(context: &ControllerContext) -> Result<Informer<TokenSecret>, BoxError> {
    let fields = FieldSelector::equal("type", SERVICE_ACCOUNT_TOKEN);
    Ok(context.informers.scoped(Scope { fields, ..Scope::default() })?)
}

/// The certificate authority, in PEM, that `--root-ca-file` names, by default that of the kubeconfig. Empty if neither is
/// given.
///
/// # Errors
/// The file can't be read, or is not a bundle of certificates.
pub(crate) fn root_ca(
    options: &ServiceAccountOptions,
    context: &ControllerContext,
) -> Result<Arc<str>, BoxError> {
    let file = &options.root_ca_file;
    if file.is_empty() {
        return Ok(Arc::clone(&context.root_ca));
    }
    let refused = |why: String| BoxError::from(format!("--root-ca-file {file}: {why}"));
    let pem = std::fs::read_to_string(file).map_err(|error| refused(error.to_string()))?;
    let mut certificates = 0;
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| refused(error.to_string()))?;
        x509_parser::parse_x509_certificate(&certificate).map_err(|error| refused(error.to_string()))?;
        certificates += 1;
    }
    match certificates {
        0 => Err(refused("data does not contain any valid RSA or ECDSA certificates".to_owned())),
        _ => Ok(pem.into()),
    }
}
