//! What depends on other objects than the one that is written, or on settings: upstream's admission plugins, as far as
//! they are here. What holds for every object of a kind wherever it is written is the registry's business.

mod certificates;
mod resize;
mod service_account;

use serde_json::Value;
use steersman_api::ObjectKey;

use self::service_account::Found;
use crate::access::Identity;
use crate::object::text_at;
use crate::refusal::{Refusal, Result};
use crate::registry::Resource;
use crate::rest::Settings;
use crate::store::Store;

/// Where pods find the authority by which they know the API server.
const ROOT_CA: &str = "kube-root-ca.crt";

const SIGNING_REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";

/// Changes a new object as it is to be stored; `who` asks for it, if not the server itself.
///
/// # Errors
/// It is not to be stored.
pub(crate) fn admit_new(
    store: &Store,
    settings: &Settings,
    resource: &Resource,
    namespace: &str,
    object: &mut Value,
    who: Option<&Identity>,
) -> Result<()> {
    if let (SIGNING_REQUESTS, Some(who)) = (resource.table.as_str(), who) {
        certificates::note_requestor(object, who);
    }
    if resource.table != "pods" || !settings.service_account_tokens {
        return Ok(());
    }
    let account = match text_at(object, "spec.serviceAccountName") {
        unnamed if unnamed.is_empty() => service_account::DEFAULT.to_owned(),
        name => name,
    };
    let account = store.get(&"serviceaccounts".into(), &ObjectKey::new(namespace, account.as_str()));
    let authority = store.get(&"configmaps".into(), &ObjectKey::new(namespace, ROOT_CA));
    let account = account.map(|account| account.parsed());
    let found = Found { account: account.as_deref(), authority: authority.is_some() };
    service_account::admit(object, namespace, &found)
        .map_err(|why| Refusal::forbidden(resource, &text_at(object, "metadata.name"), why))
}

/// Looks at a new object, once it is valid.
///
/// # Errors
/// It is not to be stored.
pub(crate) fn admit_valid(resource: &Resource, object: &Value) -> Result<()> {
    if resource.table != SIGNING_REQUESTS {
        return Ok(());
    }
    let why = certificates::forbidden_subject(object);
    why.map_or(Ok(()), |why| Err(Refusal::forbidden(resource, &text_at(object, "metadata.name"), why)))
}

/// Looks at an update through a subresource, once it is valid; `who` asks for it, if not everybody may do everything.
///
/// # Errors
/// It is not to be stored.
pub(crate) fn admit_through(
    store: &Store,
    who: Option<&Identity>,
    resource: &Resource,
    subresource: &str,
    new: &Value,
    old: &Value,
) -> Result<()> {
    if let (SIGNING_REQUESTS, Some(who)) = (resource.table.as_str(), who)
        && let Some(why) = certificates::forbidden_change(store, who, subresource, new, old)
    {
        return Err(Refusal::forbidden(resource, &text_at(new, "metadata.name"), why));
    }
    let unchanged = new["metadata"]["generation"] == old["metadata"]["generation"];
    let node = text_at(new, "spec.nodeName");
    if resource.table != "pods" || subresource != "resize" || unchanged || node.is_empty() {
        return Ok(());
    }
    let found = store.get(&"nodes".into(), &ObjectKey::cluster(node.as_str()));
    let name = text_at(new, "metadata.name");
    let Some(found) = found else {
        return Err(Refusal::forbidden(resource, &name, format!("node {node:?} not found")));
    };
    resize::admit(&new["spec"], &found.parsed())
        .map_err(|misfit| Refusal::forbidden(resource, &name, misfit.why).with_cause(misfit.cause))
}
