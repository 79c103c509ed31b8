mod awaited;
mod device_claims;
mod names;
mod pods;
mod scopes;
mod services;
mod status;
mod volume_claims;

use serde_json::{Value, json};
use steersman_informer::View;
use steersman_kinds::resource_quota::{ResourceQuotaSpec, ResourceQuotaStatus};
use steersman_testing::Pod;

use super::amounts::Amounts;
use super::plan::Quota;
use super::{Gates, MeasuredPod, SyncedQuota};

const GATES: Gates = Gates { pod_level_resources: true, extended_resources: true };

/// Amounts as a text: `cpu=1,pods=2`.
fn text(amounts: &Amounts) -> String {
    amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}

fn view(pod: Pod) -> View<MeasuredPod> {
    View::from_json(&pod.build())
}

/// A container with these requests and limits.
fn container(name: &str, requests: Value, limits: Value) -> Value {
    json!({"name": name, "resources": {"requests": requests, "limits": limits}})
}

/// A quota with this spec and status.
fn quota(spec: Value, status: Value) -> Quota {
    let object = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"},
        "spec": spec, "status": status,
    });
    let view = View::<SyncedQuota>::from_json(&object);
    Quota {
        meta: view.meta().clone(),
        spec: view.get::<ResourceQuotaSpec>().clone(),
        status: view.get::<ResourceQuotaStatus>().clone(),
    }
}
