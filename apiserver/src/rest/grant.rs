//! Rights that are given away: by roles, and by bindings to them.

use serde_json::{Value, json};

use super::request::{Request, Verb};
use super::server::ApiServer;
use crate::access::{self, Attributes, MASTERS, Target};
use crate::object::{self, list_at, text_at};
use crate::refusal::{Refusal, Result};

const GROUP: &str = "rbac.authorization.k8s.io";

/// What a write gives away.
enum Grant {
    /// These rules.
    Rules(Vec<Value>),
    /// The rules of the role that this refers to (`roleRef`).
    Reference(Value),
}

impl ApiServer {
    /// Refuses a role or binding that grants more rights than its author has, unless the author may `escalate` roles or
    /// `bind` to them. `new` is the object to store, `old` the stored one. Allows objects of all other kinds.
    ///
    /// # Errors
    /// The user lacks some of the rights, or the role that a binding names does not exist.
    pub(super) fn check_grant(&self, request: &Request, new: &Value, old: Option<&Value>) -> Result<()> {
        let (call, who) = (&request.call, &request.who);
        if call.resource.group != GROUP
            || !call.subresource.is_empty()
            || self.is_open()
            || who.is_in(MASTERS)
        {
            return Ok(());
        }
        let grant = match call.resource.plural.as_str() {
            "roles" | "clusterroles" => Grant::Rules(list_at(new, "rules").to_vec()),
            "rolebindings" | "clusterrolebindings" => Grant::Reference(new["roleRef"].clone()),
            _ => return Ok(()),
        };
        if old.is_some_and(|old| only_collection_changes(new, old)) {
            return Ok(());
        }
        let may = |verb: &str, resource: &str, name: &str| {
            let target = Target::Resource {
                group: GROUP.to_owned(),
                resource: resource.to_owned(),
                subresource: String::new(),
                namespace: call.namespace.clone(),
                name: name.to_owned(),
            };
            access::is_allowed(self.store(), who, &Attributes::new(verb, target))
        };
        let wanted = match grant {
            Grant::Rules(_) if may("escalate", &call.resource.plural, &call.name) => return Ok(()),
            Grant::Rules(rules) => rules,
            Grant::Reference(role) => {
                let (kind, name) = (text_at(&role, "kind"), text_at(&role, "name"));
                let resource = match kind.as_str() {
                    "ClusterRole" => "clusterroles",
                    "Role" => "roles",
                    _ => {
                        return Err(Refusal::unforeseen(format!(
                            "unsupported role reference kind: {kind:?}"
                        )));
                    }
                };
                if text_at(&role, "apiGroup") == GROUP && may("bind", resource, &name) {
                    return Ok(());
                }
                if kind == "Role" && call.namespace.is_empty() {
                    return Err(Refusal::bad_request("Namespace parameter required."));
                }
                if name.is_empty() {
                    return Err(Refusal::bad_request("Name parameter required."));
                }
                let rules = access::rules_of(self.store(), &role, &call.namespace);
                rules.ok_or_else(|| Refusal::not_found(&call.resource, &name))?
            }
        };
        let name = match text_at(new, "metadata.name") {
            // No rule can name an object whose name the server has just generated.
            _ if call.verb == Verb::Create && !text_at(new, "metadata.generateName").is_empty() => {
                String::new()
            }
            name => name,
        };
        let refuse = |why: String| Err(Refusal::forbidden(&call.resource, &name, why));
        let held = access::rules_for(self.store(), who, &call.namespace);
        let missing = access::missing(&held, &wanted);
        if !missing.is_empty() {
            return refuse(access::attempt(who, &missing));
        }
        // A role that is made of others may come to have any rule.
        let aggregates = |role: &Value| !list_at(role, "aggregationRule.clusterRoleSelectors").is_empty();
        if aggregates(new) || old.is_some_and(aggregates) {
            let everything = [
                json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
                json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
            ];
            if !access::missing(&held, &everything).is_empty() {
                return refuse("must have cluster-admin privileges to use the aggregationRule".to_owned());
            }
        }
        Ok(())
    }
}

/// Whether a write changes no more than the garbage collector needs to.
fn only_collection_changes(new: &Value, old: &Value) -> bool {
    let mut new = new.clone();
    let metadata = object::members_at(&mut new, "metadata");
    for member in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
        metadata.remove(member);
        if let Some(value) = old["metadata"].get(member) {
            metadata.insert(member.to_owned(), value.clone());
        }
    }
    object::same(Some(&new), Some(old))
}
