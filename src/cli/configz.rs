//! The contents of `/configz`: the settings that have an effect, under upstream's names.

use serde_json::{Value, json};
use steersman_api::GoDuration;
use steersman_controller::options::OptionSet;

use super::controller_manager::Flags;

/// The `KubeControllerManagerConfiguration` under its key.
pub(crate) fn configz(flags: &Flags, controllers: &[&str], options: &OptionSet) -> Value {
    let duration = |duration: GoDuration| duration.to_string();
    let mut configz = json!({
        "kubecontrollermanager.config.k8s.io": {
            "kind": "KubeControllerManagerConfiguration",
            "apiVersion": "kubecontrollermanager.config.k8s.io/v1alpha1",
            "Generic": {
                "MinResyncPeriod": duration(flags.min_resync_period),
                "ClientConnection": {
                    "kubeconfig": flags.kubeconfig.as_deref().unwrap_or("".as_ref()),
                    "acceptContentTypes": "",
                    "contentType": "application/vnd.kubernetes.protobuf",
                    "qps": flags.kube_api_qps,
                    "burst": flags.kube_api_burst,
                },
                "ControllerStartInterval": duration(flags.controller_start_interval),
                "LeaderElection": {
                    "leaderElect": flags.leader_elect,
                    "leaseDuration": duration(flags.leader_elect_lease_duration),
                    "renewDeadline": duration(flags.leader_elect_renew_deadline),
                    "retryPeriod": duration(flags.leader_elect_retry_period),
                    "resourceLock": flags.leader_elect_resource_lock,
                    "resourceName": flags.leader_elect_resource_name,
                    "resourceNamespace": flags.leader_elect_resource_namespace,
                },
                "Controllers": controllers,
            },
            "KubeCloudShared": {
                "UseServiceAccountCredentials": flags.use_service_account_credentials,
            },
        }
    });
    if let Some(Value::Object(all)) = configz.get_mut("kubecontrollermanager.config.k8s.io") {
        all.extend(options.configz());
    }
    configz
}
