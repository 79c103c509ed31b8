//! Which built-in kind has which traits and which rules.

use steersman_api::schema;

use super::apps::Workload;
use super::resource::Resource;
use super::strategy::{Collection, Plain, Strategy, Traits};
use super::unheeded::Unheeded;
use super::{
    autoscaling, batch, certificates, coordination, core, definition, devices, discovery, limits, networking,
    node, policy, priority, rbac, storage,
};
use crate::names::NameRule;

/// A built-in resource with what is particular to it.
pub(super) fn built_in(of: &'static schema::Resource) -> Resource {
    Resource::built_in(
        of,
        traits(of.group, of.plural),
        strategy(of.group, of.plural),
        table(of.group, of.plural),
    )
}

/// Resources of two groups that show the same objects.
fn table(group: &str, plural: &str) -> Option<&'static str> {
    (group == "events.k8s.io" && plural == "events").then_some("events")
}

fn traits(group: &str, plural: &str) -> Traits {
    let usual = Traits::USUAL;
    let counted = Traits::COUNTED;
    match (group, plural) {
        ("", "pods") => Traits { returns_deleted: true, ..counted },
        ("", "replicationcontrollers") => Traits { collection: Collection::Orphan, ..counted },
        ("", "services") => {
            Traits { names: NameRule::Label, create_on_update: true, returns_deleted: true, ..usual }
        }
        ("", "namespaces") => Traits { names: NameRule::Label, returns_deleted: true, ..usual },
        ("", "serviceaccounts" | "persistentvolumes" | "persistentvolumeclaims" | "resourcequotas") => {
            Traits { returns_deleted: true, ..usual }
        }
        // A node's agent registers it with what it has.
        ("", "nodes") => Traits { status_on_create: true, ..usual },
        ("", "podtemplates") => Traits { returns_deleted: true, ..counted },
        ("", "events") | ("events.k8s.io", "events") => {
            Traits { create_on_update: true, collection: Collection::Unsupported, ..usual }
        }
        ("", "endpoints" | "limitranges") => Traits { create_on_update: true, ..usual },
        ("apps", "controllerrevisions") => usual,
        ("apps", _) => counted,
        ("batch", "jobs") => Traits { collection: Collection::Orphan, ..counted },
        ("batch", "cronjobs") => counted,
        ("policy", "poddisruptionbudgets") => Traits { unconditional_update: false, ..counted },
        ("rbac.authorization.k8s.io", _) => {
            Traits { names: NameRule::PathSegment, create_on_update: true, ..usual }
        }
        ("coordination.k8s.io", "leases") => {
            Traits { unconditional_update: false, create_on_update: true, ..usual }
        }
        ("node.k8s.io", "runtimeclasses") => {
            Traits { unconditional_update: false, create_on_update: true, ..usual }
        }
        ("storage.k8s.io", "csistoragecapacities") => Traits { unconditional_update: false, ..usual },
        ("storage.k8s.io", "csidrivers" | "csinodes" | "volumeattachments") => {
            Traits { unconditional_update: false, returns_deleted: true, ..usual }
        }
        ("storage.k8s.io", _) => Traits { returns_deleted: true, ..usual },
        ("admissionregistration.k8s.io", _) => Traits { unconditional_update: false, ..counted },
        ("networking.k8s.io", "ipaddresses") => Traits { names: NameRule::Address, ..usual },
        ("networking.k8s.io", "ingresses" | "ingressclasses" | "networkpolicies")
        | ("discovery.k8s.io", "endpointslices")
        | ("scheduling.k8s.io", "priorityclasses")
        | ("flowcontrol.apiserver.k8s.io", _)
        | ("apiextensions.k8s.io", "customresourcedefinitions") => counted,
        ("resource.k8s.io", "deviceclasses" | "resourceslices") => {
            Traits { returns_deleted: true, ..counted }
        }
        ("resource.k8s.io", _) => Traits { returns_deleted: true, ..usual },
        _ => usual,
    }
}

fn strategy(group: &str, plural: &str) -> &'static dyn Strategy {
    match (group, plural) {
        ("", "pods") => &core::pod::Pod,
        ("", "namespaces") => &core::namespace::Namespace,
        ("", "nodes") => &core::node::Node,
        ("", "services") => &core::service::Service,
        ("" | "events.k8s.io", "events") => &core::event::Event,
        ("", "secrets") => &core::small::Secret,
        ("", "configmaps") => &core::small::ConfigMap,
        ("", "endpoints") => &core::small::Endpoints,
        ("", "persistentvolumes") => &core::small::PersistentVolume,
        ("", "persistentvolumeclaims") => &core::small::PersistentVolumeClaim,
        ("", "limitranges") => &limits::LimitRange,
        ("", "resourcequotas") => &limits::ResourceQuota,
        ("", "podtemplates") => &core::small::PodTemplate,
        ("", "replicationcontrollers") => &core::small::ReplicationController,
        ("apps", "controllerrevisions") => &super::apps::ControllerRevision,
        ("apps", "deployments") => &Workload::Deployment,
        ("apps", "replicasets") => &Workload::ReplicaSet,
        ("apps", "statefulsets") => &Workload::StatefulSet,
        ("apps", "daemonsets") => &Workload::DaemonSet,
        ("batch", "jobs") => &batch::job::Job,
        ("batch", "cronjobs") => &batch::cron_job::CronJob,
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations" | "mutatingwebhookconfigurations",
        ) => &Unheeded::Webhooks,
        (
            "admissionregistration.k8s.io",
            "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings",
        ) => &Unheeded::PolicyBinding,
        ("apiregistration.k8s.io", "apiservices") => &Unheeded::ApiService,
        ("flowcontrol.apiserver.k8s.io", _) => &Unheeded::FlowControl,
        ("apiextensions.k8s.io", "customresourcedefinitions") => &definition::Definition,
        ("autoscaling", _) => &autoscaling::HorizontalPodAutoscaler,
        ("certificates.k8s.io", "certificatesigningrequests") => &certificates::CertificateSigningRequest,
        ("coordination.k8s.io", "leases") => &coordination::Lease,
        ("discovery.k8s.io", "endpointslices") => &discovery::EndpointSlice,
        ("networking.k8s.io", "ingresses") => &networking::Ingress,
        ("networking.k8s.io", "networkpolicies") => &networking::NetworkPolicy,
        ("networking.k8s.io", "ipaddresses") => &networking::IpAddress,
        ("networking.k8s.io", "servicecidrs") => &networking::ServiceCidr,
        ("node.k8s.io", "runtimeclasses") => &node::RuntimeClass,
        ("policy", "poddisruptionbudgets") => &policy::PodDisruptionBudget,
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => &rbac::Role,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => &rbac::RoleBinding,
        ("resource.k8s.io", "resourceslices") => &devices::ResourceSlice,
        ("scheduling.k8s.io", "priorityclasses") => &priority::PriorityClass,
        ("storage.k8s.io", "storageclasses") => &storage::StorageClass,
        _ => &Plain,
    }
}
