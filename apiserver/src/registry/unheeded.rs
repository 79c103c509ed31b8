//! Kinds of objects that have an effect on upstream's API server, and none on this one. This server refuses them, so that
//! users do not rely on them.

use serde_json::Value;

use super::strategy::{Context, Strategy};
use crate::object::{at, list_at, same, str_at, text_at};
use crate::refusal::{Refusal, Result};

/// The kinds without effect.
pub(crate) enum Unheeded {
    /// `ValidatingWebhookConfiguration`, `MutatingWebhookConfiguration`.
    Webhooks,
    /// `ValidatingAdmissionPolicyBinding`, `MutatingAdmissionPolicyBinding`: a policy has no effect without one, upstream
    /// neither.
    PolicyBinding,
    /// `APIService`.
    ApiService,
    /// `FlowSchema`, `PriorityLevelConfiguration`: they say who comes first, not what comes out.
    FlowControl,
}

impl Unheeded {
    /// What is not done that the object asks for.
    fn lacks(&self, object: &Value) -> Option<&'static str> {
        match self {
            Self::Webhooks if !list_at(object, "webhooks").iter().all(may_be_missed) => {
                Some("this server calls no admission webhooks")
            }
            Self::PolicyBinding => Some("this server evaluates no admission policies"),
            Self::ApiService if object["spec"]["service"].is_object() => {
                Some("this server passes no requests on to other API servers")
            }
            Self::Webhooks | Self::ApiService | Self::FlowControl => None,
        }
    }

    /// Whether the object asks for something that `old` does not ask for.
    fn adds(&self, object: &Value, old: &Value) -> bool {
        match self {
            Self::Webhooks => {
                let known = list_at(old, "webhooks");
                let is_known = |hook: &Value| known.iter().any(|known| same(Some(known), Some(hook)));
                !list_at(object, "webhooks").iter().all(|hook| may_be_missed(hook) || is_known(hook))
            }
            Self::PolicyBinding | Self::ApiService | Self::FlowControl => {
                !same(object.get("spec"), old.get("spec"))
            }
        }
    }

    fn check(&self, context: &Context<'_>, object: &Value) -> Result<()> {
        let name = text_at(object, "metadata.name");
        self.lacks(object).map_or(Ok(()), |why| Err(Refusal::without_effect(context.resource, &name, why)))
    }
}

impl Strategy for Unheeded {
    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Value) -> Result<()> {
        self.check(context, object)
    }

    fn prepare_for_update(&self, context: &Context<'_>, object: &mut Value, old: &Value) -> Result<()> {
        // What was stored before it was refused can be changed otherwise, and let go.
        if at(old, "metadata.deletionTimestamp").is_some() || !self.adds(object, old) {
            return Ok(());
        }
        self.check(context, object)
    }

    fn warning(&self, object: &Value) -> Option<&'static str> {
        match self {
            Self::FlowControl => Some("this server takes requests as they come: flow control has no effect"),
            Self::Webhooks if !list_at(object, "webhooks").is_empty() && self.lacks(object).is_none() => {
                Some("this server calls no admission webhooks: these have no effect")
            }
            Self::Webhooks | Self::PolicyBinding | Self::ApiService => None,
        }
    }
}

/// Whether requests go on, upstream too, where that webhook can't be reached.
fn may_be_missed(webhook: &Value) -> bool {
    str_at(webhook, "failurePolicy") == Some("Ignore")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_would_have_an_effect_upstream_is_not_done_here() {
        for (kind, object, lacks) in [
            (Unheeded::Webhooks, json!({"webhooks": []}), false),
            (Unheeded::Webhooks, json!({"webhooks": [{"name": "a.b.c"}]}), true),
            (Unheeded::Webhooks, json!({"webhooks": [{"failurePolicy": "Ignore"}]}), false),
            (Unheeded::Webhooks, json!({"webhooks": [{"failurePolicy": "Ignore"}, {"name": "a"}]}), true),
            (Unheeded::PolicyBinding, json!({"spec": {"policyName": "p"}}), true),
            (Unheeded::ApiService, json!({"spec": {"group": "a", "version": "v1"}}), false),
            (Unheeded::ApiService, json!({"spec": {"service": {"name": "s"}}}), true),
            (Unheeded::FlowControl, json!({"spec": {"type": "Exempt"}}), false),
        ] {
            assert_eq!(kind.lacks(&object).is_some(), lacks, "{object}");
        }
    }

    #[test]
    fn a_change_may_leave_or_take_off_what_is_not_done_but_not_add_to_it() {
        let hooks = |hooks: Value| json!({"webhooks": hooks});
        let (a, b) = (json!({"name": "a"}), json!({"name": "b"}));
        let binding = |policy: &str| json!({"spec": {"policyName": policy}});
        for (kind, old, new, adds) in [
            (Unheeded::Webhooks, hooks(json!([a])), hooks(json!([a])), false),
            (Unheeded::Webhooks, hooks(json!([a, b])), hooks(json!([b])), false),
            (Unheeded::Webhooks, hooks(json!([a])), hooks(json!([a, b])), true),
            (Unheeded::Webhooks, hooks(json!([a])), hooks(json!([{"name": "a", "timeoutSeconds": 3}])), true),
            (Unheeded::Webhooks, hooks(json!([])), hooks(json!([{"failurePolicy": "Ignore"}])), false),
            (Unheeded::PolicyBinding, binding("p"), binding("p"), false),
            (Unheeded::PolicyBinding, binding("p"), binding("q"), true),
        ] {
            assert_eq!(kind.adds(&new, &old), adds, "{old} {new}");
        }
    }
}
