//! What kube-controller-manager 1.36 knows about its rows beside their names (`cmd/kube-controller-manager/app`): identities,
//! required feature gates, controllers of cloud providers.

use super::Descriptor;

/// The service accounts of controllers that do not have the controller's own name.
const ACCOUNTS: &[(&str, &str)] = &[
    ("bootstrap-signer-controller", "bootstrap-signer"),
    ("certificatesigningrequest-approving-controller", "certificate-controller"),
    ("certificatesigningrequest-cleaner-controller", "certificate-controller"),
    ("certificatesigningrequest-signing-controller", "certificate-controller"),
    ("daemonset-controller", "daemon-set-controller"),
    ("endpoints-controller", "endpoint-controller"),
    ("endpointslice-mirroring-controller", "endpointslicemirroring-controller"),
    ("garbage-collector-controller", "generic-garbage-collector"),
    ("horizontal-pod-autoscaler-controller", "horizontal-pod-autoscaler"),
    (
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        "kube-apiserver-serving-clustertrustbundle-publisher",
    ),
    ("legacy-serviceaccount-token-cleaner-controller", "legacy-service-account-token-cleaner"),
    ("node-ipam-controller", "node-controller"),
    ("node-lifecycle-controller", "node-controller"),
    ("persistentvolume-attach-detach-controller", "attachdetach-controller"),
    ("persistentvolume-binder-controller", "persistent-volume-binder"),
    ("persistentvolume-expander-controller", "expand-controller"),
    ("persistentvolume-protection-controller", "pv-protection-controller"),
    ("persistentvolumeclaim-protection-controller", "pvc-protection-controller"),
    ("pod-garbage-collector-controller", "pod-garbage-collector"),
    ("podcertificaterequest-cleaner-controller", "podcertificaterequestcleaner"),
    ("replicationcontroller-controller", "replication-controller"),
    ("resourceclaim-controller", "resource-claim-controller"),
    ("root-ca-certificate-publisher-controller", "root-ca-cert-publisher"),
    ("service-cidr-controller", "service-cidrs-controller"),
    ("serviceaccount-controller", "service-account-controller"),
    ("storageversion-garbage-collector-controller", "storage-version-garbage-collector"),
    ("taint-eviction-controller", "node-controller"),
    ("token-cleaner-controller", "token-cleaner"),
];

/// The controller that makes tokens for others, and so has the credentials of the process itself.
const TOKENS: &str = "serviceaccount-token-controller";

/// The feature gates without which a controller does not run.
const GATES: &[(&str, &[&str])] = &[
    ("device-taint-eviction-controller", &["DynamicResourceAllocation", "DRADeviceTaints"]),
    ("kube-apiserver-serving-clustertrustbundle-publisher-controller", &["ClusterTrustBundle"]),
    ("podcertificaterequest-cleaner-controller", &["PodCertificateRequest"]),
    ("podgroup-protection-controller", &["GenericWorkload"]),
    ("resourceclaim-controller", &["DynamicResourceAllocation"]),
    ("resourcepoolstatusrequest-controller", &["DRAResourcePoolStatus"]),
    ("selinux-warning-controller", &["SELinuxChangePolicy"]),
    ("service-cidr-controller", &["MultiCIDRServiceAllocator"]),
    // Upstream's constructor checks this one itself.
    ("storage-version-migrator-controller", &["StorageVersionMigrator"]),
    ("storageversion-garbage-collector-controller", &["APIServerIdentity", "StorageVersionAPI"]),
    ("taint-eviction-controller", &["SeparateTaintEvictionController"]),
    ("volumeattributesclass-protection-controller", &["VolumeAttributesClass"]),
];

/// The controllers that run in a cloud provider's own manager: kube-controller-manager names them and never runs them.
const CLOUD: &[&str] = &["cloud-node-lifecycle-controller", "node-route-controller", "service-lb-controller"];

impl Descriptor {
    /// The service account in `kube-system` that the controller acts as with `--use-service-account-credentials`. `None` for
    /// the controller that keeps the credentials of the process.
    pub fn account(&self) -> Option<&'static str> {
        let other = ACCOUNTS.iter().find(|(controller, _)| *controller == self.name);
        (self.name != TOKENS).then(|| other.map_or(self.name, |(_, account)| *account))
    }

    /// The feature gates that must all be on for the controller to run.
    pub fn required_gates(&self) -> &'static [&'static str] {
        GATES.iter().find(|(controller, _)| *controller == self.name).map_or(&[], |(_, gates)| gates)
    }

    /// Whether the controller belongs to cloud providers.
    pub fn is_of_cloud_provider(&self) -> bool {
        CLOUD.contains(&self.name)
    }
}
