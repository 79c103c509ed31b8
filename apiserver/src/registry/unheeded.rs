//! Kinds of objects that upstream's API server goes by, and this one does not: those that would have an effect are refused,
//! so that nobody relies on them.

use serde_json::Value;

use super::strategy::{Context, Strategy};
use crate::object::{list_at, text_at};
use crate::refusal::{Refusal, Result};

/// What nobody goes by.
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
            Self::Webhooks if !list_at(object, "webhooks").is_empty() => {
                Some("this server calls no admission webhooks")
            }
            Self::PolicyBinding => Some("this server evaluates no admission policies"),
            Self::ApiService if object["spec"]["service"].is_object() => {
                Some("this server passes no requests on to other API servers")
            }
            Self::Webhooks | Self::ApiService | Self::FlowControl => None,
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

    fn prepare_for_update(&self, context: &Context<'_>, object: &mut Value, _: &Value) -> Result<()> {
        self.check(context, object)
    }

    fn warning(&self, _: &Value) -> Option<&'static str> {
        match self {
            Self::FlowControl => Some("this server takes requests as they come: flow control has no effect"),
            Self::Webhooks | Self::PolicyBinding | Self::ApiService => None,
        }
    }
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
            (Unheeded::PolicyBinding, json!({"spec": {"policyName": "p"}}), true),
            (Unheeded::ApiService, json!({"spec": {"group": "a", "version": "v1"}}), false),
            (Unheeded::ApiService, json!({"spec": {"service": {"name": "s"}}}), true),
            (Unheeded::FlowControl, json!({"spec": {"type": "Exempt"}}), false),
        ] {
            assert_eq!(kind.lacks(&object).is_some(), lacks, "{object}");
        }
    }
}
