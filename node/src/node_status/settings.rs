//! What the node's owner says about its Node object.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use steersman_api::Quantity;

use crate::configuration::{Fault, KubeletConfiguration, Threshold};

/// What the node's owner says about its Node object. Fields are named after flags and configuration of the kubelet.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name under which the node is registered, and what the label and the address of the host say.
    pub node_name: String,
    /// `--node-ip`: one address, or two of different families, or `0.0.0.0` or `::` to prefer a family; none to choose.
    pub node_ips: Vec<IpAddr>,
    /// Whether the node's server is reached from this machine alone (`address` is of the loopback): then an address of the
    /// node may be of the loopback too. Default: false.
    pub loopback: bool,
    /// `--node-labels`. They overrule the node's own.
    pub node_labels: BTreeMap<String, String>,
    /// `--register-with-taints`: those of a node that is registered anew.
    pub register_with_taints: Vec<Taint>,
    /// `--register-node`: whether the node makes its Node object. If not, somebody else does. Default: true.
    pub register_node: bool,
    /// `--cloud-provider=external`: a cloud controller completes the node. Default: false.
    pub external_cloud_provider: bool,
    /// `providerID`: what a cloud calls the machine; may be empty.
    pub provider_id: String,
    /// `enableControllerAttachDetach`. Default: true.
    pub enable_controller_attach_detach: bool,
    /// `maxPods`. Default: 110.
    pub max_pods: u32,
    /// `podsPerCore`: more pods than this a processor there are not; 0 for no such limit. Default: 0.
    pub pods_per_core: u32,
    /// `systemReserved`: what pods may not have since the system needs it.
    pub system_reserved: BTreeMap<String, Quantity>,
    /// `kubeReserved`: what pods may not have since the node agent and the runtime need it.
    pub kube_reserved: BTreeMap<String, Quantity>,
    /// `evictionHard` and `evictionSoft`: what must be left. The hard ones are kept from pods.
    pub eviction: Vec<Threshold>,
    /// `evictionPressureTransitionPeriod`: how long a pressure is told of after it was last seen. Default: 5 minutes.
    pub eviction_pressure_transition_period: Duration,
    /// `localStorageCapacityIsolation`: whether ephemeral storage is a resource. Default: true.
    pub local_storage_capacity_isolation: bool,
    /// The version that the node says it has, such as `v1.36.3`.
    pub kubelet_version: String,
    /// The port of the node's HTTPS server. Default: 10250.
    pub kubelet_port: i32,
    /// `nodeStatusMaxImages`; `None` for all. Default: 50.
    pub node_status_max_images: Option<usize>,
    /// `nodeStatusUpdateFrequency`: how often the status is looked at. Default: 10 s.
    pub node_status_update_frequency: Duration,
    /// `nodeStatusReportFrequency`: how often it is written though nothing changed. Default: 5 minutes.
    pub node_status_report_frequency: Duration,
    /// `podCIDR`: the addresses of pods, for a node without API server. Default: none.
    pub pod_cidr: Option<String>,
}

impl Settings {
    /// Those that the configuration has; what only flags say (addresses, labels, a cloud provider) has its default.
    ///
    /// # Errors
    /// A threshold that can't be understood.
    pub fn new(
        node_name: &str,
        kubelet_version: &str,
        configuration: &KubeletConfiguration,
    ) -> Result<Self, Fault> {
        Ok(Self {
            node_name: node_name.to_owned(),
            node_ips: Vec::new(),
            loopback: configuration.address.is_loopback(),
            node_labels: BTreeMap::new(),
            register_with_taints: configuration.register_with_taints.clone(),
            register_node: configuration.register_node,
            external_cloud_provider: false,
            provider_id: configuration.provider_id.clone().unwrap_or_default(),
            enable_controller_attach_detach: configuration.enable_controller_attach_detach,
            max_pods: configuration.max_pods,
            pods_per_core: configuration.pods_per_core,
            system_reserved: configuration.system_reserved.clone(),
            kube_reserved: configuration.kube_reserved.clone(),
            eviction: configuration.thresholds()?,
            eviction_pressure_transition_period: configuration.eviction_pressure_transition_period.0,
            local_storage_capacity_isolation: configuration.local_storage_capacity_isolation,
            kubelet_version: kubelet_version.to_owned(),
            kubelet_port: configuration.port.into(),
            node_status_max_images: usize::try_from(configuration.node_status_max_images).ok(),
            node_status_update_frequency: configuration.node_status_update_frequency.0,
            node_status_report_frequency: configuration.node_status_report_frequency.0,
            pod_cidr: configuration.pod_cidr.clone(),
        })
    }
}
