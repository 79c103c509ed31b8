//! The controllers of kube-controller-manager 1.36, in the order in which it constructs them.

use steersman_controller::registry::{Descriptor, Registry};
use steersman_controllers_access::bootstrap::{signer, token_cleaner};
use steersman_controllers_access::certificates::{approving, cleaner, pod_request_cleaner, signing};
use steersman_controllers_access::cluster_role_aggregation;
use steersman_controllers_access::{
    legacy_token_cleaner, root_ca_publisher, service_account, service_account_token, trust_bundle_publisher,
};
use steersman_controllers_autoscaling::horizontal_pod;
use steersman_controllers_batch::{cron_job, job, ttl_after_finished};
use steersman_controllers_cluster::{garbage_collector, namespace, resource_quota};
use steersman_controllers_devices::{device_taint_eviction, resource_claim};
use steersman_controllers_network::{endpoint_slice, endpoint_slice_mirroring, endpoints, service_cidr};
use steersman_controllers_nodes::{node_ipam, node_lifecycle, pod_gc, taint_eviction, ttl};
use steersman_controllers_storage::protection::{attributes_classes, claims, pod_groups, volumes};
use steersman_controllers_storage::{attach_detach, binder, ephemeral_volume, expander, selinux_warning};
use steersman_controllers_workloads::{daemon_set, deployment, disruption, replica_set, stateful_set};

/// The registry with all controllers of kube-controller-manager.
pub fn builtin() -> Registry {
    let row = Descriptor::elsewhere;
    Registry::new(vec![
        // Built first, as upstream: its tokens may be the credentials of others.
        service_account_token::DESCRIPTOR,
        endpoints::DESCRIPTOR,
        endpoint_slice::DESCRIPTOR,
        endpoint_slice_mirroring::DESCRIPTOR,
        replica_set::REPLICATION_CONTROLLERS,
        pod_gc::DESCRIPTOR,
        resource_quota::DESCRIPTOR,
        namespace::DESCRIPTOR,
        service_account::DESCRIPTOR,
        garbage_collector::DESCRIPTOR,
        daemon_set::DESCRIPTOR,
        job::DESCRIPTOR,
        pod_groups::DESCRIPTOR,
        deployment::DESCRIPTOR,
        replica_set::REPLICA_SETS,
        horizontal_pod::DESCRIPTOR,
        disruption::DESCRIPTOR,
        stateful_set::DESCRIPTOR,
        cron_job::DESCRIPTOR,
        signing::DESCRIPTOR,
        approving::DESCRIPTOR,
        cleaner::DESCRIPTOR,
        pod_request_cleaner::DESCRIPTOR,
        ttl::DESCRIPTOR,
        signer::DESCRIPTOR,
        token_cleaner::DESCRIPTOR,
        node_ipam::DESCRIPTOR,
        node_lifecycle::DESCRIPTOR,
        row("service-lb-controller", &["service"]),
        row("node-route-controller", &["route"]),
        row("cloud-node-lifecycle-controller", &["cloud-node-lifecycle"]),
        binder::DESCRIPTOR,
        attach_detach::DESCRIPTOR,
        expander::DESCRIPTOR,
        cluster_role_aggregation::DESCRIPTOR,
        claims::DESCRIPTOR,
        volumes::DESCRIPTOR,
        attributes_classes::DESCRIPTOR,
        ttl_after_finished::DESCRIPTOR,
        root_ca_publisher::DESCRIPTOR,
        trust_bundle_publisher::DESCRIPTOR,
        ephemeral_volume::DESCRIPTOR,
        row("storageversion-garbage-collector-controller", &["storage-version-gc"]),
        resource_claim::DESCRIPTOR,
        row("resourcepoolstatusrequest-controller", &[]),
        device_taint_eviction::DESCRIPTOR,
        legacy_token_cleaner::DESCRIPTOR,
        row("validatingadmissionpolicy-status-controller", &[]),
        taint_eviction::DESCRIPTOR,
        service_cidr::DESCRIPTOR,
        row("storage-version-migrator-controller", &["svm"]),
        selinux_warning::DESCRIPTOR,
    ])
}
