//! What depends on other objects than the one that is written, or on settings: upstream's admission plugins, as far as
//! they are here. What holds for every object of a kind wherever it is written is the registry's business.
//!
//! | upstream's plugin | here |
//! |---|---|
//! | `LimitRanger` | [`limit_range`] |
//! | `ServiceAccount` | [`service_account`] |
//! | `DefaultStorageClass`, `DefaultIngressClass`, `PersistentVolumeClaimResize` | [`classes`] |
//! | `RuntimeClass` | [`runtime_class`] |
//! | `CertificateApproval`, `CertificateSigning`, `CertificateSubjectRestriction` | [`certificates`] |
//! | `PodResizeValidator` | [`resize`] |
//! | `NodeRestriction` | [`node_restriction`] |
//! | `ResourceQuota` | [`quota`] |
//!
//! All of these are pure; this file looks up the objects that they depend on.

mod amounts;
mod certificates;
mod classes;
mod limit_range;
mod node_restriction;
mod quota;
mod resize;
mod runtime_class;
mod service_account;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::ObjectKey;

use self::node_restriction::Change;
use self::quota::Write;
use self::service_account::Found;
use crate::access::{self, Attributes, Identity, Target, claims, node_of};
use crate::object::{self, text_at};
use crate::refusal::{Refusal, Result};
use crate::registry::Resource;
use crate::rest::Settings;
use crate::store::{Object, Store};

/// Where pods find the authority by which they know the API server.
const ROOT_CA: &str = "kube-root-ca.crt";

const SIGNING_REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";
const STORAGE_CLASSES: &str = "storageclasses.storage.k8s.io";
const INGRESS_CLASSES: &str = "ingressclasses.networking.k8s.io";
const RUNTIME_CLASSES: &str = "runtimeclasses.node.k8s.io";
const LIMIT_RANGES: &str = "limitranges";
/// Bound what is in their namespace.
const QUOTAS: &str = "resourcequotas";

/// Who looks at one write. Errors of its functions mean that the object is not to be stored.
pub(crate) struct Admission<'a> {
    pub(crate) store: &'a Store,
    pub(crate) settings: &'a Settings,
    pub(crate) resource: &'a Resource,
    /// Of the object; empty for none.
    pub(crate) namespace: &'a str,
    /// Who asks for it; nobody if it is the server itself.
    pub(crate) who: Option<&'a Identity>,
    /// Whether nodes are held to what is their own.
    pub(crate) restricts_nodes: bool,
    pub(crate) now: Timestamp,
}

/// What a write adds to what is used of quotas, to be written once it is done.
#[must_use = "what is used must be written"]
#[derive(Default)]
pub(crate) struct Charges(Vec<(Arc<Object>, Value)>);

impl Charges {
    /// Writes it. One that changed meanwhile is counted anew by whoever counts.
    pub(crate) fn settle(self, store: &Store) {
        for (quota, used) in self.0 {
            let mut charged = Value::clone(&quota.parsed());
            object::members_at(&mut charged, "status").insert("used".to_owned(), used);
            let _ = store.replace(&quota, charged);
        }
    }
}

impl Admission<'_> {
    /// Changes a new object as it came, with its defaults.
    pub(crate) fn admit_new(&self, object: &mut Value) -> Result<()> {
        self.fill(object)?;
        self.restrict_node(Change::Create(object))
    }

    fn fill(&self, object: &mut Value) -> Result<()> {
        match self.resource.table.as_str() {
            SIGNING_REQUESTS => {
                if let Some(who) = self.who {
                    certificates::note_requestor(object, who);
                }
                Ok(())
            }
            "pods" => {
                limit_range::fill(values(&self.list(LIMIT_RANGES, self.namespace)), object);
                self.admit_account(object)
            }
            "persistentvolumeclaims" => {
                classes::default_storage(values(&self.list(STORAGE_CLASSES, "")), object);
                Ok(())
            }
            "ingresses.networking.k8s.io" => {
                classes::default_ingress(values(&self.list(INGRESS_CLASSES, "")), object);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn admit_account(&self, pod: &mut Value) -> Result<()> {
        if !self.settings.service_account_tokens {
            return Ok(());
        }
        let account = match text_at(pod, "spec.serviceAccountName") {
            unnamed if unnamed.is_empty() => service_account::DEFAULT.to_owned(),
            name => name,
        };
        let account = self.get("serviceaccounts", self.namespace, &account);
        let authority = self.get("configmaps", self.namespace, ROOT_CA);
        let account = account.map(|account| account.parsed());
        let found = Found { account: account.as_deref(), authority: authority.is_some() };
        service_account::admit(pod, self.namespace, &found).map_err(|why| self.forbidden(pod, why))
    }

    /// Changes a new object once more, after what is particular to its kind.
    pub(crate) fn admit_prepared(&self, object: &mut Value) -> Result<()> {
        if self.resource.table != "pods" {
            return Ok(());
        }
        let class = self.runtime_class(object)?;
        let admitted = runtime_class::admit(object, class.as_deref().map(Object::kept));
        admitted.map_err(|why| self.forbidden(object, why))
    }

    /// Looks at a new object, once it is valid.
    pub(crate) fn admit_valid(&self, object: &Value) -> Result<Charges> {
        let looked_at = match self.resource.table.as_str() {
            SIGNING_REQUESTS => certificates::forbidden_subject(object).map_or(Ok(()), Err),
            "pods" => {
                let class = self.runtime_class(object)?;
                let class = class.as_deref().map(Object::kept);
                let ranges = self.list(LIMIT_RANGES, self.namespace);
                limit_range::check_pod(values(&ranges), object)
                    .and_then(|()| runtime_class::check(object, class))
            }
            "persistentvolumeclaims" => {
                limit_range::check_claim(values(&self.list(LIMIT_RANGES, self.namespace)), object)
            }
            _ => Ok(()),
        };
        looked_at.map_err(|why| self.forbidden(object, why))?;
        self.charge(&Write::create(&self.resource.table, object, self.now))
    }

    /// Looks at another state of an object, through a subresource or none, once it is valid.
    pub(crate) fn admit_change(&self, subresource: &str, new: &Value, old: &Value) -> Result<Charges> {
        self.restrict_node(Change::Update { subresource, new, old })?;
        let going = object::at(old, "metadata.deletionTimestamp").is_some();
        let ranges = || if going { Vec::new() } else { self.list(LIMIT_RANGES, self.namespace) };
        let looked_at = match (self.resource.table.as_str(), subresource) {
            (SIGNING_REQUESTS, _) => {
                let why = self
                    .who
                    .and_then(|who| certificates::forbidden_change(self.store, who, subresource, new, old));
                why.map_or(Ok(()), Err)
            }
            ("pods", "resize") => {
                self.check_node(new, old)?;
                limit_range::check_pod(values(&ranges()), new)
            }
            ("persistentvolumeclaims", "") => {
                let class = self.get(STORAGE_CLASSES, "", &classes::storage_of(new));
                limit_range::check_claim(values(&ranges()), new)
                    .and_then(|()| classes::check_growth(new, old, class.as_deref().map(Object::kept)))
            }
            _ => Ok(()),
        };
        looked_at.map_err(|why| self.forbidden(new, why))?;
        self.charge(&Write::update(&self.resource.table, subresource, (new, old), self.now))
    }

    /// Checks the deletion of an object.
    pub(crate) fn admit_delete(&self, object: &Object) -> Result<()> {
        if self.node().is_none() {
            return Ok(());
        }
        self.restrict_node(Change::Delete(&object.parsed()))
    }

    /// Checks the eviction of a pod.
    pub(crate) fn admit_eviction(&self, pod: &Object) -> Result<()> {
        let Some(node) = self.node() else { return Ok(()) };
        let pod = pod.parsed();
        let why = node_restriction::forbidden_eviction(node, &pod);
        why.map_or(Ok(()), |why| Err(self.forbidden(&pod, why)))
    }

    /// Checks the TokenRequest `asked` for a service account.
    pub(crate) fn admit_token(&self, account: &str, asked: &Value) -> Result<()> {
        let Some(node) = self.node() else { return Ok(()) };
        let forbidden = |why: String| Err(Refusal::forbidden(self.resource, account, why));
        let reference = &asked["spec"]["boundObjectRef"];
        // If there is no such pod, `bind_token` refuses the request.
        let pod = self.get("pods", self.namespace, &text_at(reference, "name")).map(|pod| pod.parsed());
        if let Some(why) = node_restriction::forbidden_binding(node, reference, pod.as_deref()) {
            return forbidden(why);
        }
        let (Some(pod), Some(who)) = (pod, self.who) else { return Ok(()) };
        let audience = match node_restriction::audience(asked) {
            Ok(audience) => audience,
            Err(why) => return forbidden(why),
        };
        let drivers = self.drivers_of(&pod);
        if node_restriction::needs_audience(&pod, values(&drivers), &audience) {
            return Ok(());
        }
        let target = Target::Resource {
            group: String::new(),
            resource: audience.clone(),
            subresource: String::new(),
            namespace: self.namespace.to_owned(),
            name: account.to_owned(),
        };
        let wanted = Attributes::new("request-serviceaccounts-token-audience", target);
        if access::is_allowed(self.store, who, &wanted) {
            return Ok(());
        }
        forbidden(format!(
            "audience {audience:?} not found in pod spec volume, {} is not authorized to request tokens for this audience",
            who.user
        ))
    }

    /// The drivers of a pod's volumes.
    fn drivers_of(&self, pod: &Value) -> Vec<Arc<Object>> {
        let inline = object::list_at(pod, "spec.volumes").iter().map(|volume| text_at(volume, "csi.driver"));
        let claimed = claims(pod).into_iter().filter_map(|claim| {
            let claim = self.get("persistentvolumeclaims", self.namespace, &claim)?;
            let volume = self.get("persistentvolumes", "", &text_at(&claim.parsed(), "spec.volumeName"))?;
            Some(text_at(&volume.parsed(), "spec.csi.driver"))
        });
        let names = inline.chain(claimed).filter(|name| !name.is_empty());
        names.filter_map(|name| self.get("csidrivers.storage.k8s.io", "", &name)).collect()
    }

    /// The node that sends the request, if a node does.
    fn node(&self) -> Option<&str> {
        self.who.filter(|_| self.restricts_nodes).and_then(node_of)
    }

    /// A node may write only what is its own.
    fn restrict_node(&self, change: Change<'_>) -> Result<()> {
        let Some(node) = self.node() else { return Ok(()) };
        let own_uid = || self.get("nodes", "", node).map(|own| own.uid().to_owned());
        let why = if node.is_empty() {
            let user = self.who.map(|who| who.user.as_str()).unwrap_or_default();
            Some(format!("could not determine node from user {user:?}"))
        } else {
            node_restriction::forbidden(node, &self.resource.table, change, own_uid)
        };
        why.map_or(Ok(()), |why| Err(self.forbidden(change.object(), why)))
    }

    /// A pod that is resized must fit its node.
    fn check_node(&self, new: &Value, old: &Value) -> Result<()> {
        let unchanged = new["metadata"]["generation"] == old["metadata"]["generation"];
        let node = text_at(new, "spec.nodeName");
        if unchanged || node.is_empty() {
            return Ok(());
        }
        let Some(found) = self.get("nodes", "", &node) else {
            return Err(self.forbidden(new, format!("node {node:?} not found")));
        };
        resize::admit(&new["spec"], &found.parsed())
            .map_err(|misfit| self.forbidden(new, misfit.why).with_cause(misfit.cause))
    }

    /// What a write adds to the quotas of its namespace.
    fn charge(&self, write: &Write<'_>) -> Result<Charges> {
        if self.namespace.is_empty() {
            return Ok(Charges::default());
        }
        let quotas = self.list(QUOTAS, self.namespace);
        let parsed: Vec<Arc<Value>> = quotas.iter().map(|quota| quota.parsed()).collect();
        let charged = quota::check(&parsed, write);
        let charged = charged.map_err(|why| self.forbidden(write.object(), why))?;
        let charges = charged.into_iter().map(|(place, used)| (Arc::clone(&quotas[place]), used));
        Ok(Charges(charges.collect()))
    }

    /// The class that a pod names, if it does.
    fn runtime_class(&self, pod: &Value) -> Result<Option<Arc<Object>>> {
        let Some(name) = object::str_at(pod, "spec.runtimeClassName") else { return Ok(None) };
        match self.get(RUNTIME_CLASSES, "", name) {
            None => Err(self.forbidden(pod, format!("pod rejected: RuntimeClass {name:?} not found"))),
            found => Ok(found),
        }
    }

    fn get(&self, table: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.store.get(&table.into(), &ObjectKey::new(namespace, name))
    }

    /// The objects of a table, in all namespaces or one, in the order of their names.
    fn list(&self, table: &str, namespace: &str) -> Vec<Arc<Object>> {
        let table = table.into();
        // Most tables that are asked for are empty mostly.
        if self.store.len(&table) == 0 {
            return Vec::new();
        }
        self.store.snapshot(&table, namespace, None).map(|snapshot| snapshot.objects).unwrap_or_default()
    }

    fn forbidden(&self, object: &Value, why: impl std::fmt::Display) -> Refusal {
        Refusal::forbidden(self.resource, &text_at(object, "metadata.name"), why)
    }
}

/// What everybody in a namespace, or in all of them, is held to: few objects, read often.
fn values(objects: &[Arc<Object>]) -> impl Iterator<Item = &Value> {
    objects.iter().map(|object| object.kept())
}
