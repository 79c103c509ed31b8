//! Kinds of `resource.k8s.io` with rules.

use serde_json::Value;

use super::strategy::{Context, Strategy};
use crate::meta::stamp;
use crate::refusal::Result;

/// The rules of resource slices.
pub(crate) struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn prepare_for_create(&self, context: &Context<'_>, slice: &mut Value) -> Result<()> {
        date_taints(context, slice);
        Ok(())
    }

    fn prepare_for_update(&self, context: &Context<'_>, slice: &mut Value, _: &Value) -> Result<()> {
        date_taints(context, slice);
        Ok(())
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.nodeName", "spec.driver"]
    }
}

/// Says of taints that do not say when they were added that it was now.
fn date_taints(context: &Context<'_>, slice: &mut Value) {
    for device in slice["spec"]["devices"].as_array_mut().into_iter().flatten() {
        for taint in device.get_mut("taints").and_then(Value::as_array_mut).into_iter().flatten() {
            if taint["timeAdded"].is_null() {
                taint["timeAdded"] = stamp(context.now).into();
            }
        }
    }
}
