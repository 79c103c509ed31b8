//! The same fields are decoded from both encodings of an object.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};
use steersman_api::condition::ConditionStatus;
use steersman_api::schema;
use steersman_informer::wire::packed::INLINE;
use steersman_informer::wire::{Encoding, FieldValue, Group, IntOrString, Kind, Object, Opaque, meta_bytes};

use super::annotation::LAST_APPLIED;
use super::cluster_role::{Aggregation, ClusterRole, Rules};
use super::config_map::{ConfigMap, DESCRIPTION, Description, PublishedCa};
use super::content_digest::ContentDigest;
use super::cron_job::{CronJob, CronJobSpec, CronJobStatus, CronJobTemplate};
use super::daemon_set::{DaemonSet, DaemonSetTemplate, TEMPLATE_GENERATION};
use super::deletion_cost::DELETION_COST;
use super::deployment::{
    Deployment, DeploymentAnnotations, DeploymentSpec, DeploymentStatus, DeploymentTemplate,
};
use super::device_class::DeviceClass;
use super::endpoint_slice::{AddressType, EndpointSlice};
use super::endpoints::Endpoints;
use super::ip_address::{IPAddress, IpAddressSpec};
use super::job::{Job, JobTtl};
use super::lease::{Lease, Renewal};
use super::namespace::{Namespace, NamespaceFinalizers, NamespaceStatus};
use super::node::{Allocatable, Node, ObjectTtl};
use super::object_ttl::OBJECT_TTL;
use super::persistent_volume::{
    PRE_RESIZE_CAPACITY, PersistentVolume, ReclaimPolicy, VolumeAnnotations, VolumeClaimRef, VolumeOffer,
    VolumePhase,
};
use super::persistent_volume_claim::{
    BETA_STORAGE_CLASS, BIND_COMPLETED, ClaimAnnotations, ClaimSelector, ClaimStatus, ClaimedVolume,
    MIGRATED_TO, PersistentVolumeClaim, SELECTED_NODE, VolumeDemand,
};
use super::pod::{Addresses, Containers, DeletionCost, DisruptionReason, Placement, Pod};
use super::pod_disruption_budget::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use super::pod_resources::{PodAllotment, PodDemand, ResizeInfeasible};
use super::pod_secrets::PodSecrets;
use super::replica_set::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, ReplicaSetTemplate, TemplateLabels};
use super::replication_controller::{
    self, ReplicationController, ReplicationControllerSpec, ReplicationControllerStatus,
    ReplicationControllerTemplate,
};
use super::resource_claim::{EXTENDED_RESOURCE_CLAIM, ResourceClaim};
use super::resource_quota::ResourceQuota;
use super::secret::{
    ACCOUNT_NAME, ACCOUNT_UID, AccountReference, IsToken, SERVICE_ACCOUNT_TOKEN, Secret, TokenAccount,
    TokenContents,
};
use super::selinux::SelinuxMounts;
use super::service::{Hinting, Service};
use super::service_account::{SecretReferences, ServiceAccount};
use super::service_cidr::{ServiceCIDR, ServiceCidrSpec, ServiceCidrStatus};
use super::shared::Shared;
use super::stateful_set::{
    REPLACE_BROKEN_PODS, Repair, StatefulSet, StatefulSetSpec, StatefulSetStatus, StatefulSetTemplates,
};
use super::storage_class::{BindingMode, ClassMark, Provisioner, StorageClass};
use super::topology_mode::{TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE};
use super::volume_source::{SOURCES, VolumeSource};

mod attaching;

mod devices;
mod gated;
mod selinux;

/// The fields of all groups, decoded from an object's JSON and from its protobuf.
fn kept<K: Kind>(object: &Value) -> [String; 2] {
    decoded::<K>(object, u64::MAX).map(|decoded| format!("{decoded:?}"))
}

/// The groups `groups`, decoded from an object's JSON and from its protobuf.
fn decoded<K: Kind>(object: &Value, groups: u64) -> [K; 2] {
    let kind = schema::table().kind(K::GROUP, K::VERSION, K::KIND).unwrap();
    let protobuf = schema::to_protobuf(kind, object).unwrap();
    [(object.to_string().into(), Encoding::Json), (protobuf.into(), Encoding::Protobuf)]
        .map(|(body, encoding)| K::decode(&body, encoding, groups).unwrap())
}

fn name() -> impl Strategy<Value = String> {
    "[a-c]{0,2}"
}

fn ip() -> impl Strategy<Value = String> {
    prop_oneof!["10\\.0\\.0\\.[1-9]", "fd00::[1-9a-f]", Just("010.0.0.01".to_owned()), Just("no".to_owned())]
}

fn conditions() -> impl Strategy<Value = Vec<Value>> {
    let kind =
        prop_oneof![Just("Ready"), Just("DisruptionTarget"), Just("PodScheduled"), Just("PIDPressure")];
    let status = prop_oneof![Just("True"), Just("False"), Just("Unknown")];
    let one = (kind, status, option::of(0..9_u8)).prop_map(|(kind, status, day)| {
        let changed = day.map(|day| format!("2026-01-0{}T00:00:00Z", day + 1));
        let reason = ["", "A", "B"][usize::from(day.unwrap_or(0)) % 3];
        json!({"type": kind, "status": status, "lastTransitionTime": changed, "reason": reason})
    });
    vec(one, 0..4)
}

fn containers() -> impl Strategy<Value = Vec<Value>> {
    let protocol = prop_oneof![Just("TCP"), Just("UDP")];
    let port = (name(), protocol, 1..9_i32).prop_map(
        |(name, protocol, port)| json!({"name": name, "protocol": protocol, "containerPort": port}),
    );
    let policy = option::of(prop_oneof![Just("Always"), Just("Never")]);
    let one = (name(), vec(port, 0..3), policy)
        .prop_map(|(name, ports, policy)| json!({"name": name, "ports": ports, "restartPolicy": policy}));
    vec(one, 0..3)
}

fn subsets() -> impl Strategy<Value = Vec<Value>> {
    let address = (ip(), option::of(name()), option::of(name())).prop_map(|(ip, node, target)| {
        json!({"ip": ip, "nodeName": node, "targetRef": target.map(|name| json!({"kind": "Pod", "name": name, "uid": name}))})
    });
    let port = (name(), 1..4_i32, option::of(name()))
        .prop_map(|(name, port, protocol)| json!({"name": name, "port": port, "appProtocol": protocol}));
    let addresses = vec(address, 0..3).boxed();
    let one = (addresses.clone(), addresses, vec(port, 0..3)).prop_map(
        |(ready, others, ports)| json!({"addresses": ready, "notReadyAddresses": others, "ports": ports}),
    );
    vec(one, 0..3)
}

proptest! {
    #[test]
    fn pods_and_nodes_are_the_same_in_both_encodings(
        conditions in conditions(), containers in containers(), init in containers(),
        hostname in name(), ips in vec(ip(), 0..3), cost in option::of("[-+0-9a]{0,3}"),
    ) {
        let pod_ips: Vec<_> = ips.iter().map(|ip| json!({"ip": ip})).collect();
        let pod = json!({
            "metadata": {"annotations": {"a": hostname, DELETION_COST: cost.unwrap_or_default(), "z": "1"}},
            "spec": {
                "hostname": hostname, "initContainers": init, "containers": containers, "nodeName": "n",
                "affinity": affinity(&hostname), "volumes": [
                    {"name": hostname, "ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Block"}}}},
                    {"name": "claim", "persistentVolumeClaim": {"claimName": hostname}},
                ],
                "tolerations": [{"key": hostname, "operator": "Exists", "tolerationSeconds": ips.len()}, {}],
            },
            "status": {"phase": "Failed", "podIP": ips.first(), "podIPs": pod_ips, "conditions": conditions},
        });
        let [json, protobuf] = kept::<Pod>(&pod);
        prop_assert_eq!(json, protobuf);
        let added = "2026-01-01T00:00:00Z";
        let taints = json!([{"key": hostname, "value": hostname, "effect": "NoExecute", "timeAdded": added}]);
        let allocatable = json!({"cpu": format!("{}m", ips.len()), "memory": "1Gi"});
        let node =
            json!({
                "metadata": {"annotations": {"a": hostname, OBJECT_TTL: hostname.len().to_string()}},
                "spec": {"taints": taints, "podCIDRs": ips, "unschedulable": ips.is_empty()},
                "status": {"conditions": conditions, "allocatable": allocatable},
            });
        let [json, protobuf] = kept::<Node>(&node);
        prop_assert_eq!(json, protobuf);
    }

    #[test]
    fn services_and_endpoints_are_the_same_in_both_encodings(
        subsets in subsets(), name in name(), number in 1..9_i32, families in vec("IPv[46]", 0..3), any_state in any::<bool>(),
    ) {
        let annotations = json!({TOPOLOGY_MODE: "Auto", TOPOLOGY_AWARE_HINTS: name});
        let service = json!({"metadata": {"annotations": annotations}, "spec": {
            "trafficDistribution": "PreferClose", "type": "ClusterIP", "clusterIP": "None", "ipFamilies": families, "publishNotReadyAddresses": any_state,
            "selector": {"app": name}, "ports": [
                {"name": name, "protocol": "TCP", "targetPort": number},
                {"name": "named", "targetPort": name, "appProtocol": name},
            ],
        }});
        let [json, protobuf] = kept::<Service>(&service);
        prop_assert_eq!(json, protobuf);
        let endpoints = json!({"metadata": {"annotations": {"a": name}}, "subsets": subsets});
        let [json, protobuf] = kept::<Endpoints>(&endpoints);
        prop_assert_eq!(json, protobuf);
    }
}

fn affinity(node: &str) -> Value {
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let labels = json!([{"key": "zone", "operator": "NotIn", "values": ["a", "b"]}]);
    let terms = json!([{"matchExpressions": labels}, {"matchFields": fields}]);
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

#[test]
fn daemon_sets_are_the_same_in_both_encodings() {
    let set = json!({
        "metadata": {"name": "agent", "annotations": {"a": "b", TEMPLATE_GENERATION: "7"}},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}}, "minReadySeconds": 5, "revisionHistoryLimit": 0,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 0}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {
                    "nodeSelector": {"disk": "fast"}, "nodeName": "n", "hostNetwork": true, "affinity": affinity("n"),
                    "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
                    "containers": [{"name": "main", "image": "i"}],
                },
            },
        },
        "status": {
            "currentNumberScheduled": 1, "numberMisscheduled": 2, "desiredNumberScheduled": 3, "numberReady": 4,
            "observedGeneration": 5, "updatedNumberScheduled": 6, "numberAvailable": 7, "numberUnavailable": 8,
            "collisionCount": 0,
        },
    });
    let [json, protobuf] =
        decoded::<DaemonSet>(&set, !DaemonSetTemplate::BIT).map(|decoded| format!("{decoded:?}"));
    assert_eq!(json, protobuf);
    for value in
        ["collision_count: Some(0)", "String(\"10%\")", "TemplateGeneration(Some(7))", "host_network: true"]
    {
        assert!(json.contains(value), "{value} in {json}");
    }
}

#[test]
fn endpoint_slices_are_the_same_in_both_encodings() {
    let slice = json!({
        "metadata": {"annotations": {"a": "b"}}, "addressType": "IPv6",
        "ports": [{"name": "", "protocol": "TCP", "port": 80}, {"name": "b", "appProtocol": "h2c"}],
        "endpoints": [
            {
                "addresses": ["fd00::2", "fd00::1"], "hostname": "h", "nodeName": "n1", "zone": "z1",
                "conditions": {"ready": false, "serving": true, "terminating": true},
                "hints": {"forZones": [{"name": "z1"}, {"name": "z2"}], "forNodes": [{"name": "n1"}]},
                "targetRef": {"kind": "Pod", "namespace": "ns", "name": "a", "uid": "1"},
                "deprecatedTopology": {"kubernetes.io/hostname": "n1"},
            },
            {"addresses": ["fd00::3"]},
        ],
    });
    let [json, protobuf] = decoded::<EndpointSlice>(&slice, u64::MAX);
    assert_eq!(format!("{json:?}"), format!("{protobuf:?}"));
    assert_eq!((json.members().len(), json.address_type()), (2, AddressType::Ipv6));
    assert_eq!(json.members()[0].hints.as_ref().unwrap().for_zones[1].name, "z2");
    assert_eq!(json.ports()[0].name.as_deref(), Some(""));
    assert_eq!((json.ports()[1].protocol.as_ref(), json.ports()[1].port), (None, None));
}

#[test]
fn leases_tell_when_they_were_renewed_to_the_microsecond() {
    for (spec, time) in [
        (json!({"renewTime": "2026-01-01T00:00:00.123456Z"}), Some(1_767_225_600_123_456)),
        (json!({"renewTime": "1969-12-31T23:59:59.000000Z"}), Some(-1_000_000)),
        (json!({"holderIdentity": "a"}), None),
        (Value::Null, None),
    ] {
        for lease in decoded::<Lease>(&json!({"metadata": {"name": "a"}, "spec": spec}), u64::MAX) {
            assert_eq!(Renewal::of(&lease).unwrap().time.0, time, "{spec}");
        }
    }
}

#[test]
fn a_node_without_processors_has_none_to_allocate() {
    for (allocatable, milli) in [
        (json!({"cpu": "4", "memory": "1Gi"}), 4000),
        (json!({"cpu": "2500m"}), 2500),
        (json!({"memory": "1Gi"}), 0),
        (Value::Null, 0),
    ] {
        for node in decoded::<Node>(&json!({"status": {"allocatable": allocatable}}), Allocatable::BIT) {
            assert_eq!(Allocatable::of(&node).unwrap().cpu.0, milli, "{allocatable}");
        }
    }
}

#[test]
fn a_node_tells_for_how_long_objects_may_be_cached() {
    for (annotations, seconds) in [
        (json!({"a": "b", OBJECT_TTL: "15"}), Some(15)),
        (json!({OBJECT_TTL: "soon"}), None),
        (json!({"a": "15"}), None),
        (Value::Null, None),
    ] {
        for node in decoded::<Node>(&json!({"metadata": {"annotations": annotations}}), ObjectTtl::BIT) {
            assert_eq!(ObjectTtl::of(&node).unwrap().seconds.0, seconds, "{annotations}");
        }
    }
}

#[test]
fn service_cidrs_and_addresses_are_the_same_in_both_encodings() {
    let condition = json!({
        "type": "Ready", "status": "False", "reason": "Terminating", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let cidr = json!({
        "metadata": {"name": "a"}, "spec": {"cidrs": ["10.0.0.0/24", "no range", "fd00::/108"]},
        "status": {"conditions": [condition]},
    });
    for cidr in decoded::<ServiceCIDR>(&cidr, u64::MAX) {
        let ranges: Vec<_> =
            ServiceCidrSpec::of(&cidr).unwrap().cidrs.0.iter().map(ToString::to_string).collect();
        assert_eq!(ranges, ["10.0.0.0/24", "fd00::/108"]);
        let conditions = &ServiceCidrStatus::of(&cidr).unwrap().conditions;
        assert_eq!((&*conditions[0].kind, &*conditions[0].reason), ("Ready", "Terminating"));
    }
    let parent = json!({"group": "g", "resource": "services", "namespace": "ns", "name": "web"});
    let address = json!({"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": parent}});
    for address in decoded::<IPAddress>(&address, u64::MAX) {
        let parent = &IpAddressSpec::of(&address).unwrap().parent_ref;
        assert_eq!((&*parent.group, &*parent.resource), ("g", "services"));
        assert_eq!((&*parent.namespace, &*parent.name), ("ns", "web"));
    }
}

#[test]
fn the_old_name_of_the_topology_annotation_has_precedence() {
    for (annotations, auto) in [
        (json!({}), false),
        (json!({TOPOLOGY_MODE: "Auto"}), true),
        (json!({TOPOLOGY_MODE: "auto"}), true),
        (json!({TOPOLOGY_MODE: "AUTO"}), false),
        (json!({TOPOLOGY_AWARE_HINTS: "Auto"}), true),
        (json!({TOPOLOGY_AWARE_HINTS: "Disabled", TOPOLOGY_MODE: "Auto"}), false),
        (json!({TOPOLOGY_AWARE_HINTS: "auto", TOPOLOGY_MODE: "Disabled"}), true),
    ] {
        for service in decoded::<Service>(&json!({"metadata": {"annotations": annotations}}), Hinting::BIT) {
            assert_eq!(Hinting::of(&service).unwrap().mode.is_auto(), auto, "{annotations}");
        }
    }
}

/// A spec and a status with every field that the kinds of replicas have in common, and some fields that no cache keeps.
fn replicas() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default", "generation": 3},
        "spec": {
            "replicas": 0,
            "minReadySeconds": 5,
            "template": {
                "metadata": {"labels": {"app": "web", "tier": "front"}, "annotations": {"a": "b"}},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            },
        },
        "status": {
            "replicas": 6, "fullyLabeledReplicas": 5, "readyReplicas": 4, "availableReplicas": 3,
            "observedGeneration": 2,
            "conditions": [{
                "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    })
}

#[test]
fn replica_sets_are_the_same_in_both_encodings() {
    let mut object = replicas();
    object["spec"]["selector"] = json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "back"]}],
    });
    object["status"]["terminatingReplicas"] = json!(0);
    let groups = ReplicaSetSpec::BIT | TemplateLabels::BIT | ReplicaSetStatus::BIT;
    let [json, protobuf] = decoded::<ReplicaSet>(&object, groups);
    assert_eq!(format!("{json:?}"), format!("{protobuf:?}"));
    let spec = ReplicaSetSpec::of(&protobuf).unwrap();
    assert_eq!((spec.replicas, spec.min_ready_seconds), (Some(0), 5));
    assert_eq!(spec.selector.as_ref().unwrap().match_expressions[0].values, ["front", "back"]);
    let labels = &TemplateLabels::of(&protobuf).unwrap().template.metadata.labels;
    assert_eq!(*labels, [("app", "web"), ("tier", "front")].into_iter().collect());
    let status = ReplicaSetStatus::of(&protobuf).unwrap();
    assert_eq!((status.replicas, status.fully_labeled_replicas), (6, 5));
    assert_eq!((status.ready_replicas, status.available_replicas), (4, 3));
    assert_eq!((status.terminating_replicas, status.observed_generation), (Some(0), 2));
    let condition = &status.conditions[0];
    assert_eq!((&*condition.kind, condition.status), ("ReplicaFailure", ConditionStatus::True));
    assert_eq!((&*condition.reason, &*condition.message), ("FailedCreate", "quota"));
    let changed: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(condition.last_transition_time, Some(changed.into()));
    assert!(ReplicaSetTemplate::of(&protobuf).is_none(), "the template was not requested");
}

#[test]
fn deployments_are_the_same_in_both_encodings() {
    let mut object = replicas();
    object["metadata"]["annotations"] = json!({"a": "1", LAST_APPLIED: "the whole manifest", "z": "2"});
    object["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    object["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}});
    object["spec"]["paused"] = json!(true);
    object["spec"]["revisionHistoryLimit"] = json!(0);
    object["spec"]["progressDeadlineSeconds"] = json!(600);
    object["status"] = json!({
        "observedGeneration": 2, "replicas": 6, "updatedReplicas": 5, "readyReplicas": 4, "availableReplicas": 3,
        "unavailableReplicas": 2, "terminatingReplicas": 0, "collisionCount": 1,
        "conditions": [{
            "type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "message": "on its way",
            "lastUpdateTime": "2026-01-02T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    let groups = DeploymentSpec::BIT | DeploymentAnnotations::BIT | DeploymentStatus::BIT;
    let [json, protobuf] = decoded::<Deployment>(&object, groups);
    assert_eq!(format!("{json:?}"), format!("{protobuf:?}"));
    let spec = DeploymentSpec::of(&protobuf).unwrap();
    assert_eq!((spec.replicas, spec.min_ready_seconds, spec.paused), (Some(0), 5, true));
    assert_eq!((spec.revision_history_limit, spec.progress_deadline_seconds), (Some(0), Some(600)));
    assert_eq!(spec.strategy.kind, "RollingUpdate");
    assert_eq!(spec.strategy.rolling_update.max_surge, IntOrString::String("25%".into()));
    assert_eq!(spec.strategy.rolling_update.max_unavailable, IntOrString::Int(1));
    let annotations = &DeploymentAnnotations::of(&protobuf).unwrap().annotations;
    assert_eq!(*annotations, [("a", "1"), ("z", "2")].into_iter().collect());
    let status = DeploymentStatus::of(&protobuf).unwrap();
    assert_eq!((status.replicas, status.updated_replicas, status.ready_replicas), (6, 5, 4));
    assert_eq!((status.available_replicas, status.unavailable_replicas), (3, 2));
    assert_eq!((status.terminating_replicas, status.collision_count), (Some(0), Some(1)));
    let condition = &status.conditions[0];
    assert_eq!((&*condition.kind, &*condition.reason), ("Progressing", "ReplicaSetUpdated"));
    assert!(condition.last_update_time > condition.last_transition_time);
    assert!(DeploymentTemplate::of(&protobuf).is_none(), "nobody asked for the template");
}

#[test]
fn replication_controllers_are_the_same_in_both_encodings() {
    let mut object = replicas();
    object["spec"]["selector"] = json!({"app": "web"});
    let groups = ReplicationControllerSpec::BIT
        | replication_controller::TemplateLabels::BIT
        | ReplicationControllerStatus::BIT;
    let [json, protobuf] = decoded::<ReplicationController>(&object, groups);
    assert_eq!(format!("{json:?}"), format!("{protobuf:?}"));
    let spec = ReplicationControllerSpec::of(&protobuf).unwrap();
    assert_eq!((spec.replicas, spec.min_ready_seconds), (Some(0), 5));
    assert_eq!(spec.selector, [("app", "web")].into_iter().collect());
    let template = &replication_controller::TemplateLabels::of(&protobuf).unwrap().template;
    assert_eq!(template.metadata.labels.len(), 2);
    let status = ReplicationControllerStatus::of(&protobuf).unwrap();
    assert_eq!((status.replicas, status.fully_labeled_replicas), (6, 5));
    assert_eq!((status.ready_replicas, status.available_replicas), (4, 3));
    assert_eq!((status.observed_generation, status.conditions.len()), (2, 1));
}

#[test]
fn a_replica_set_of_an_older_server_lacks_what_it_does_not_say() {
    for set in decoded::<ReplicaSet>(&json!({"metadata": {"name": "a"}, "spec": {}, "status": {}}), u64::MAX)
    {
        assert_eq!(ReplicaSetSpec::of(&set).unwrap().replicas, None);
        assert!(ReplicaSetSpec::of(&set).unwrap().selector.is_none());
        assert_eq!(ReplicaSetStatus::of(&set).unwrap().terminating_replicas, None);
    }
    let [json, _] = decoded::<ReplicationController>(&json!({"spec": {"replicas": 1}}), u64::MAX);
    assert!(ReplicationControllerTemplate::of(&json).unwrap().template.is_empty());
}

#[test]
fn a_pod_template_keeps_the_encoding_that_it_came_in() {
    let [json, protobuf] = decoded::<ReplicaSet>(&replicas(), ReplicaSetTemplate::BIT);
    let Opaque::Json(text) = &ReplicaSetTemplate::of(&json).unwrap().template else { panic!("{json:?}") };
    assert_eq!(serde_json::from_str::<Value>(text.get()).unwrap(), replicas()["spec"]["template"]);
    let template = &ReplicaSetTemplate::of(&protobuf).unwrap().template;
    assert!(matches!(template, Opaque::Protobuf(bytes) if !bytes.is_empty()), "{template:?}");
}

#[test]
fn a_pod_without_a_valid_deletion_cost_costs_nothing() {
    for (annotations, cost) in [
        (json!({}), 0),
        (json!({"other": "5"}), 0),
        (json!({"a": "1", DELETION_COST: "-5", "z": "1"}), -5),
        (json!({DELETION_COST: "+5"}), 0),
        (Value::Null, 0),
    ] {
        for pod in decoded::<Pod>(&json!({"metadata": {"annotations": annotations}}), DeletionCost::BIT) {
            assert_eq!(DeletionCost::of(&pod).unwrap().cost.0, cost, "{annotations}");
        }
    }
}

#[test]
fn budgets_are_the_same_in_both_encodings() {
    let object = json!({
        "metadata": {"name": "web", "namespace": "default", "generation": 3},
        "spec": {"minAvailable": "50%", "maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        "status": {
            "observedGeneration": 2, "disruptionsAllowed": 1, "currentHealthy": 4, "desiredHealthy": 3,
            "expectedPods": 5, "disruptedPods": {"a": "2026-01-01T00:00:00Z", "b": null},
            "conditions": [{
                "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
            }],
        },
    });
    let changed: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    for budget in decoded::<PodDisruptionBudget>(&object, u64::MAX) {
        let spec = PodDisruptionBudgetSpec::of(&budget).unwrap();
        assert_eq!(spec.min_available, Some(IntOrString::String("50%".into())));
        assert_eq!(spec.max_unavailable, Some(IntOrString::Int(1)));
        assert_eq!(spec.selector.as_ref().unwrap().match_labels.len(), 1);
        let status = PodDisruptionBudgetStatus::of(&budget).unwrap();
        assert_eq!((status.observed_generation, status.disruptions_allowed), (2, 1));
        assert_eq!((status.current_healthy, status.desired_healthy, status.expected_pods), (4, 3, 5));
        assert_eq!(status.disrupted_pods.0["a"], changed.into());
        assert!(status.disrupted_pods.0.contains_key("b"), "an entry without a time is an entry");
        let condition = &status.conditions[0];
        assert_eq!((&*condition.kind, condition.status), ("DisruptionAllowed", ConditionStatus::True));
        assert_eq!((&*condition.reason, &*condition.message), ("SufficientPods", "m"));
        assert_eq!(
            (condition.last_transition_time, condition.observed_generation),
            (Some(changed.into()), 1)
        );
    }
    let nothing = json!({"spec": {}});
    for budget in decoded::<PodDisruptionBudget>(&nothing, u64::MAX) {
        assert!(PodDisruptionBudgetSpec::of(&budget).unwrap().selector.is_none());
    }
    let everything = json!({"spec": {"selector": {}}});
    for budget in decoded::<PodDisruptionBudget>(&everything, u64::MAX) {
        assert!(PodDisruptionBudgetSpec::of(&budget).unwrap().selector.is_some(), "an empty selector is one");
    }
}

#[test]
fn the_reason_of_a_disruption_is_that_of_its_condition() {
    let of = |conditions: Value| {
        decoded::<Pod>(&json!({"status": {"conditions": conditions}}), DisruptionReason::BIT).map(|pod| {
            DisruptionReason::of(&pod).unwrap().target.reason.clone().map(|reason| reason.to_string())
        })
    };
    let other = json!({"type": "Ready", "status": "True", "reason": "Other"});
    assert_eq!(of(json!([other])), [None, None]);
    let target = json!({"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"});
    assert_eq!(of(json!([other, target])), ["TerminationByKubelet"; 2].map(|reason| Some(reason.to_owned())));
}

#[test]
fn stateful_sets_are_the_same_in_both_encodings() {
    let object = json!({
        "metadata": {"name": "web", "annotations": {"a": "b", REPLACE_BROKEN_PODS: "true"}},
        "spec": {
            "replicas": 3, "serviceName": "web", "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": "30%"}},
            "revisionHistoryLimit": 2, "minReadySeconds": 5, "ordinals": {"start": 7},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
        },
        "status": {
            "observedGeneration": 4, "replicas": 3, "readyReplicas": 2, "currentReplicas": 1, "updatedReplicas": 2,
            "currentRevision": "web-a", "updateRevision": "web-b", "collisionCount": 0, "availableReplicas": 1,
        },
    });
    let groups = StatefulSetSpec::BIT | Repair::BIT | StatefulSetStatus::BIT;
    let [json, protobuf] = decoded::<StatefulSet>(&object, groups);
    assert_eq!(format!("{json:?}"), format!("{protobuf:?}"));
    assert!(Repair::of(&protobuf).unwrap().broken_pods.0);
    let spec = StatefulSetSpec::of(&protobuf).unwrap();
    assert_eq!((spec.replicas, &*spec.service_name, spec.min_ready_seconds), (Some(3), "web", 5));
    assert_eq!(spec.ordinals.as_ref().unwrap().start, 7);
    assert_eq!(spec.claim_retention.as_ref().unwrap().when_deleted, "Delete");
    assert_eq!(spec.update_strategy.rolling_update.as_ref().unwrap().partition, Some(1));
    let status = StatefulSetStatus::of(&protobuf).unwrap();
    assert_eq!((&*status.current_revision, &*status.update_revision), ("web-a", "web-b"));
    assert_eq!((status.current_replicas, status.updated_replicas), (1, 2));
    assert_eq!((status.available_replicas, status.collision_count), (1, Some(0)));
    for set in decoded::<StatefulSet>(&object, StatefulSetTemplates::BIT) {
        let claims = &StatefulSetTemplates::of(&set).unwrap().claims;
        assert_eq!((claims.len(), &*claims[0].name), (1, "data"));
        assert!(!claims[0].claim.is_empty());
    }
}

#[test]
fn the_phase_of_a_claim_is_the_same_in_both_encodings() {
    let claim = json!({"metadata": {"name": "data-web-0"}, "status": {"phase": "Bound"}});
    let [json, protobuf] = kept::<PersistentVolumeClaim>(&claim);
    assert_eq!(json, protobuf);
}

#[test]
fn cron_jobs_are_the_same_in_both_encodings() {
    let object = json!({
        "metadata": {"name": "backup", "namespace": "default"},
        "spec": {
            "schedule": "0 3 * * *", "timeZone": "Europe/Berlin", "startingDeadlineSeconds": 60,
            "concurrencyPolicy": "Forbid", "suspend": true,
            "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 2,
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": {"containers": []}}}},
        },
        "status": {
            "active": [{
                "apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": "backup-29000000",
                "uid": "u", "resourceVersion": "7",
            }],
            "lastScheduleTime": "2026-01-01T00:00:00Z", "lastSuccessfulTime": "2025-12-31T00:00:00Z",
        },
    });
    let groups = CronJobSpec::BIT | CronJobStatus::BIT;
    let [json, protobuf] = decoded::<CronJob>(&object, groups);
    assert_eq!(format!("{json:?}"), format!("{protobuf:?}"));
    let spec = CronJobSpec::of(&protobuf).unwrap();
    assert_eq!((&*spec.schedule, spec.time_zone.as_deref()), ("0 3 * * *", Some("Europe/Berlin")));
    assert_eq!((&*spec.concurrency_policy, spec.suspend), ("Forbid", true));
    assert_eq!(spec.starting_deadline_seconds, Some(60));
    assert_eq!((spec.successful_jobs_history_limit, spec.failed_jobs_history_limit), (Some(0), Some(2)));
    let status = CronJobStatus::of(&protobuf).unwrap();
    let [job] = &status.active[..] else { panic!("{status:?}") };
    assert_eq!((&*job.api_version, &*job.kind, &*job.namespace), ("batch/v1", "Job", "default"));
    assert_eq!(
        (&*job.name, job.uid.to_string(), &*job.resource_version),
        ("backup-29000000", "u".to_owned(), "7")
    );
    assert!(status.last_schedule_time > status.last_successful_time);
    let [json, protobuf] = decoded::<CronJob>(&object, CronJobTemplate::BIT);
    assert!(matches!(CronJobTemplate::of(&json).unwrap().job_template, Opaque::Json(_)));
    assert!(matches!(CronJobTemplate::of(&protobuf).unwrap().job_template, Opaque::Protobuf(_)));
}

#[test]
fn the_ttl_of_a_job_is_the_same_in_both_encodings() {
    for job in decoded::<Job>(&json!({"spec": {"ttlSecondsAfterFinished": 0}}), JobTtl::BIT) {
        assert_eq!(JobTtl::of(&job).unwrap().ttl_seconds_after_finished, Some(0));
    }
}

#[test]
fn tokens_of_service_accounts_are_the_same_in_both_encodings() {
    let annotations = json!({ACCOUNT_NAME: "robot", ACCOUNT_UID: "u-1", "other": "x"});
    let secret = |annotations: Value, data: Value| {
        let meta = json!({"name": "a", "namespace": "ns", "annotations": annotations});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "any", "data": data})
    };
    let reference = AccountReference { name: "robot".into(), uid: "u-1".into() };
    let full = TokenContents { ca: Some(ContentDigest::of(b"CA")), has_namespace: true, has_token: true };
    let encoded = |text: &str| STANDARD.encode(text);
    let data = json!({"ca.crt": encoded("CA"), "namespace": encoded("ns"), "token": encoded("t"), "x": ""});
    let empty = json!({"ca.crt": "", "namespace": "", "token": ""});
    for (object, account, contents) in [
        (secret(annotations, data), reference, full),
        (
            secret(json!({}), empty),
            AccountReference::default(),
            TokenContents { ca: Some(ContentDigest::of(b"")), ..TokenContents::default() },
        ),
        (secret(Value::Null, Value::Null), AccountReference::default(), TokenContents::default()),
    ] {
        for decoded in decoded::<Secret>(&object, u64::MAX) {
            assert_eq!(TokenAccount::of(&decoded).unwrap().account, account, "{object}");
            assert_eq!(*TokenContents::of(&decoded).unwrap(), contents, "{object}");
        }
    }
}

#[test]
fn the_type_of_a_token_is_the_same_in_both_encodings() {
    for (kind, expected) in
        [(json!(SERVICE_ACCOUNT_TOKEN), true), (json!("Opaque"), false), (json!(""), false)]
    {
        let object = json!({"metadata": {"name": "a"}, "type": kind});
        for decoded in decoded::<Secret>(&object, IsToken::BIT) {
            assert_eq!(IsToken::of(&decoded).unwrap().0, expected, "{object}");
        }
    }
}

#[test]
fn published_authorities_are_the_same_in_both_encodings() {
    let ca = Some(ContentDigest::of(b"CA"));
    for (data, annotations, published, described) in [
        (json!({"ca.crt": "CA"}), json!({DESCRIPTION: "x"}), PublishedCa { ca, has_others: false }, true),
        (
            json!({"ca.crt": "CA", "b": ""}),
            json!({DESCRIPTION: ""}),
            PublishedCa { ca, has_others: true },
            false,
        ),
        (json!({"b": "CA"}), json!({"other": "x"}), PublishedCa { ca: None, has_others: true }, false),
        (Value::Null, Value::Null, PublishedCa::default(), false),
    ] {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": "a", "namespace": "ns", "annotations": annotations},
        });
        for decoded in decoded::<ConfigMap>(&object, u64::MAX) {
            assert_eq!(*PublishedCa::of(&decoded).unwrap(), published, "{object}");
            assert_eq!(Description::of(&decoded).unwrap().described.0, described, "{object}");
        }
    }
}

#[test]
fn the_secrets_of_a_service_account_are_the_same_in_both_encodings() {
    let object = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "ns"},
        "secrets": [{"name": "one"}, {"name": "two", "namespace": "ns"}, {"uid": "x"}],
        "imagePullSecrets": [{"name": "three"}],
    });
    for decoded in decoded::<ServiceAccount>(&object, u64::MAX) {
        let secrets = SecretReferences::of(&decoded).unwrap();
        assert_eq!(*secrets, SecretReferences(["one".into(), "two".into(), "".into()].into()));
        assert!(secrets.has("two") && !secrets.has("three"));
    }
}

#[test]
fn all_secrets_that_a_pod_uses_are_found_in_both_encodings() {
    let container = |name: &str| {
        json!({
            "name": name, "image": "i",
            "envFrom": [{"secretRef": {"name": format!("from-{name}")}}, {"configMapRef": {"name": "map"}}],
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": format!("key-{name}"), "key": "k"}}},
                {"name": "B", "value": "plain"},
            ],
        })
    };
    let reference = |name: &str| json!({"name": name});
    let volumes = json!([
        {"name": "a", "azureFile": {"secretName": "azure", "shareName": "s"}},
        {"name": "b", "cephfs": {"monitors": ["m"], "secretRef": reference("cephfs")}},
        {"name": "c", "cinder": {"volumeID": "v", "secretRef": reference("cinder")}},
        {"name": "d", "flexVolume": {"driver": "d", "secretRef": reference("flex")}},
        {"name": "e", "projected": {"sources": [
            {"secret": reference("projected")}, {"configMap": reference("map")}, {"secret": reference("two")},
        ]}},
        {"name": "f", "rbd": {"monitors": ["m"], "image": "i", "secretRef": reference("rbd")}},
        {"name": "g", "secret": {"secretName": "volume"}},
        {"name": "h", "scaleIO": {"gateway": "g", "system": "s", "secretRef": reference("scale")}},
        {"name": "i", "iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0, "secretRef": reference("iscsi")}},
        {"name": "j", "storageos": {"secretRef": reference("storageos")}},
        {"name": "k", "csi": {"driver": "d", "nodePublishSecretRef": reference("csi")}},
        {"name": "l", "persistentVolumeClaim": {"claimName": "claim"}},
    ]);
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "ns"},
        "spec": {
            "imagePullSecrets": [reference("pull"), reference("")],
            "containers": [container("main")],
            "initContainers": [container("init")],
            "ephemeralContainers": [container("debug")],
            "volumes": volumes,
        },
    });
    let expected = [
        "azure",
        "cephfs",
        "cinder",
        "csi",
        "flex",
        "from-debug",
        "from-init",
        "from-main",
        "iscsi",
        "key-debug",
        "key-init",
        "key-main",
        "projected",
        "pull",
        "rbd",
        "scale",
        "storageos",
        "two",
        "volume",
    ];
    for decoded in decoded::<Pod>(&object, u64::MAX) {
        let PodSecrets(names) = PodSecrets::of(&decoded).unwrap();
        assert_eq!(names.iter().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn namespaces_are_the_same_in_both_encodings() {
    let object = json!({
        "metadata": {"name": "team"},
        "spec": {"finalizers": ["kubernetes", "example.com/hold"]},
        "status": {"phase": "Terminating", "conditions": [{
            "type": "NamespaceContentRemaining", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "SomeResourcesRemain", "message": "Some resources are remaining",
        }]},
    });
    let [json, protobuf] = decoded::<Namespace>(&object, u64::MAX);
    assert_eq!(format!("{json:?}"), format!("{protobuf:?}"));
    let finalizers = &NamespaceFinalizers::of(&protobuf).unwrap().finalizers;
    assert_eq!(finalizers.iter().map(|one| &**one).collect::<Vec<_>>(), ["kubernetes", "example.com/hold"]);
    let status = NamespaceStatus::of(&protobuf).unwrap();
    let [condition] = &status.conditions[..] else { panic!("{status:?}") };
    assert_eq!((&*status.phase, &*condition.kind), ("Terminating", "NamespaceContentRemaining"));
    assert_eq!((condition.status, &*condition.reason), (ConditionStatus::True, "SomeResourcesRemain"));
    assert!(condition.last_transition_time.is_some() && condition.message.ends_with("remaining"));
}

#[test]
fn cluster_roles_are_the_same_in_both_encodings() {
    let object = json!({
        "metadata": {"name": "sum"},
        "rules": [
            {"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods"], "resourceNames": ["a"]},
            {"verbs": ["*"], "nonResourceURLs": ["/healthz"]},
        ],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}, {}]},
    });
    let [json, protobuf] = decoded::<ClusterRole>(&object, u64::MAX);
    assert_eq!(format!("{json:?}"), format!("{protobuf:?}"));
    let [first, second] = &Rules::of(&protobuf).unwrap().0[..] else { panic!("{protobuf:?}") };
    assert_eq!((first.verbs.len(), first.api_groups.len(), first.resource_names.len()), (2, 2, 1));
    assert_eq!((&*second.non_resource_urls[0], second.resources.len()), ("/healthz", 0));
    let aggregation = Aggregation::of(&protobuf).unwrap().0.as_ref().unwrap();
    assert_eq!(aggregation.cluster_role_selectors.len(), 2);
    for nobody in [json!({}), json!({"rules": null, "aggregationRule": null})] {
        for role in decoded::<ClusterRole>(&nobody, u64::MAX) {
            assert!(Aggregation::of(&role).unwrap().0.is_none() && Rules::of(&role).unwrap().0.is_empty());
        }
    }
    for nothing in decoded::<ClusterRole>(&json!({"aggregationRule": {}}), Aggregation::BIT) {
        assert!(Aggregation::of(&nothing).unwrap().0.is_some(), "a rule that selects nothing is one");
    }
}

#[test]
fn what_quotas_read_is_the_same_in_both_encodings() {
    let resources = json!({
        "requests": {"cpu": "100m", "memory": "64Mi", "example.com/gpu": "2"}, "limits": {"cpu": "1"},
    });
    let term = |namespaces: Value, selector: Value| json!({"topologyKey": "zone", "namespaces": namespaces, "namespaceSelector": selector});
    let pod = |affinity: Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {
                "containers": [{"name": "main", "resources": resources}, {"name": "bare"}],
                "initContainers": [{"name": "side", "restartPolicy": "Always", "resources": resources}],
                "overhead": {"cpu": "10m"}, "resources": {"limits": {"memory": "1Gi"}},
                "activeDeadlineSeconds": 0, "priorityClassName": "high", "affinity": affinity,
            },
            "status": {
                "qosClass": "Burstable", "extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": []},
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": "PodResizePending", "status": "True", "reason": "Infeasible"},
                    {"type": "PodResizePending", "status": "True", "reason": "Deferred"},
                ],
                "containerStatuses": [
                    {"name": "main", "allocatedResources": {"cpu": "50m"}, "resources": resources},
                    {"name": "bare"},
                ],
            },
        })
    };
    for (affinity, crosses) in [
        (
            json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(json!([]), Value::Null)]}}),
            false,
        ),
        (
            json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(json!(["x"]), Value::Null)]}}),
            true,
        ),
        (
            json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": term(json!([]), json!({}))},
            ]}}),
            true,
        ),
    ] {
        let [json, protobuf] = decoded::<Pod>(&pod(affinity), u64::MAX);
        for pod in [&json, &protobuf] {
            let demand = Shared::<PodDemand>::of(pod).unwrap();
            assert_eq!((demand.affinity.0, &*demand.priority_class), (crosses, "high"));
            assert_eq!((demand.containers.len(), demand.active_deadline_seconds), (2, Some(0)));
            assert_eq!(demand.containers[0].resources.requests.names().len(), 3);
            assert!(demand.init_containers[0].is_sidecar());
            let allotment = Shared::<PodAllotment>::of(pod).unwrap();
            assert_eq!(allotment.resize, ResizeInfeasible::Yes);
            assert_eq!((allotment.containers.0.len(), &*allotment.qos_class), (1, "Burstable"));
            assert_eq!(allotment.extended_claim.as_ref().unwrap().claim, "c");
        }
        assert_eq!(Shared::<PodDemand>::of(&json), Shared::<PodDemand>::of(&protobuf), "one allocation");
        assert_eq!(Shared::<PodAllotment>::of(&json), Shared::<PodAllotment>::of(&protobuf));
    }
    assert_eq!(size_of::<Option<Shared<PodDemand>>>(), size_of::<usize>());
}

#[test]
fn quotas_and_what_they_count_are_the_same_in_both_encodings() {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {
            "hard": {"cpu": "1", "pods": "10", "requests.memory": "1Gi"}, "scopes": ["BestEffort"],
            "scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["high", "low"]},
            ]},
        },
        "status": {"hard": {"cpu": "1"}, "used": {"cpu": "0"}},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {
            "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
            "ports": [{"port": 1, "nodePort": 30001}, {"port": 2}],
        },
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "annotations": {BETA_STORAGE_CLASS: "old", "x": "y"}},
        "spec": {
            "storageClassName": "new", "volumeAttributesClassName": "fast",
            "resources": {"requests": {"storage": "10Gi"}},
        },
        "status": {
            "phase": "Bound", "allocatedResources": {"storage": "20Gi"}, "currentVolumeAttributesClassName": "slow",
            "modifyVolumeStatus": {"targetVolumeAttributesClassName": "fast", "status": "Pending"},
        },
    });
    let device_claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "d", "annotations": {EXTENDED_RESOURCE_CLAIM: "true"}},
        "spec": {"devices": {"requests": [
            {"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
            {"name": "b", "firstAvailable": [{"name": "c", "deviceClassName": "tpu", "allocationMode": "All"}]},
        ]}},
    });
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    });
    for [json, protobuf] in [
        kept::<ResourceQuota>(&quota),
        kept::<Service>(&service),
        kept::<PersistentVolumeClaim>(&claim),
        kept::<ResourceClaim>(&device_claim),
        kept::<DeviceClass>(&class),
    ] {
        assert_eq!(json, protobuf);
    }
    let [json, _] = kept::<ResourceClaim>(&device_claim);
    assert!(
        json.contains("\"gpu\"") && json.contains("count: 2") && json.contains("ExtendedMark(true)"),
        "{json}"
    );
    let [json, _] = kept::<PersistentVolumeClaim>(&claim);
    for part in
        ["BetaClass(Some(\"old\"))", "\"20Gi\"", "target: \"fast\"", "current_attributes_class: \"slow\""]
    {
        assert!(json.contains(part), "{part}: {json}");
    }
    let [json, _] = kept::<Service>(&service);
    assert!(json.contains("PortCounts { all: 2, with_node_port: 1 }"), "{json}");
    let [json, _] = kept::<ResourceQuota>(&quota);
    assert!(json.contains("\"requests.memory\": \"1Gi\"") && json.contains("\"PriorityClass\""), "{json}");
    assert!(kept::<DeviceClass>(&class)[0].contains("\"example.com/gpu\""));
}

#[test]
fn volumes_and_claims_are_the_same_in_both_encodings() {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "v", "annotations": {PRE_RESIZE_CAPACITY: "1Gi", "x": "y", MIGRATED_TO: ""}},
        "spec": {
            "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "storageClassName": "fast",
            "volumeMode": "Block", "volumeAttributesClassName": "gold", "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "n", "name": "c", "uid": "u"},
            "csi": {"driver": "d", "volumeHandle": "h", "readOnly": true, "volumeAttributes": {"a": "b"}},
        },
        "status": {"phase": "Released", "message": "m"},
    });
    let [json, protobuf] = decoded::<PersistentVolume>(&volume, u64::MAX);
    assert_eq!(format!("{json:?}"), format!("{protobuf:?}"));
    let offer = Shared::<VolumeOffer>::of(&protobuf).unwrap();
    assert_eq!(offer.capacity.get("storage").unwrap().to_string(), "10Gi");
    assert_eq!((offer.access_modes.len(), &*offer.class), (2, "fast"));
    assert_eq!(
        (offer.volume_mode.as_deref(), offer.attributes_class.as_deref()),
        (Some("Block"), Some("gold"))
    );
    let claim = VolumeClaimRef::of(&protobuf).unwrap().claim.as_ref().unwrap();
    assert_eq!((&*claim.namespace, claim.name.as_str(), claim.uid.to_string().as_str()), ("n", "c", "u"));
    let annotations = &VolumeAnnotations::of(&protobuf).unwrap().selected;
    assert_eq!(annotations.iter().count(), 2);
    assert_eq!(
        (annotations.get(MIGRATED_TO).map(|to| &**to), annotations.has(BETA_STORAGE_CLASS)),
        (Some(""), false)
    );
    let source = VolumeSource::of(&protobuf).unwrap();
    assert_eq!((source.csi_driver(), source.handle.as_str(), source.read_only), (Some("d"), "h", true));
    assert_eq!(&*VolumePhase::of(&protobuf).unwrap().phase, "Released");
    assert_eq!(&*ReclaimPolicy::of(&protobuf).unwrap().policy, "Retain");

    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "annotations": {BIND_COMPLETED: "yes", SELECTED_NODE: "n", "x": "y"}},
        "spec": {
            "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "5Gi"}}, "volumeName": "v",
            "selector": {"matchLabels": {"a": "b"}}, "storageClassName": "", "volumeMode": "Filesystem",
        },
        "status": {
            "phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "6Gi"},
            "currentVolumeAttributesClassName": "gold",
        },
    });
    let [json, protobuf] = decoded::<PersistentVolumeClaim>(&claim, u64::MAX);
    assert_eq!(format!("{json:?}"), format!("{protobuf:?}"));
    let demand = Shared::<VolumeDemand>::of(&protobuf).unwrap();
    assert_eq!((demand.class.as_deref(), demand.attributes_class.as_deref()), (Some(""), None));
    assert_eq!(ClaimedVolume::of(&protobuf).unwrap().name.as_str(), "v");
    assert!(ClaimSelector::of(&protobuf).unwrap().selector.is_some());
    let status = Shared::<ClaimStatus>::of(&protobuf).unwrap();
    assert_eq!((&*status.phase, status.current_attributes_class.as_deref()), ("Bound", Some("gold")));
    let annotations = &ClaimAnnotations::of(&protobuf).unwrap().selected;
    assert!(
        annotations.has(BIND_COMPLETED) && annotations.get(SELECTED_NODE).is_some_and(|node| *node == *"n")
    );

    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "fast", "annotations": {"storageclass.beta.kubernetes.io/is-default-class": "true"}},
        "provisioner": "example.com/disks", "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true, "parameters": {"a": "b"},
    });
    let [json, protobuf] = decoded::<StorageClass>(&class, u64::MAX);
    assert_eq!(format!("{json:?}"), format!("{protobuf:?}"));
    assert_eq!(&*Provisioner::of(&protobuf).unwrap().0, "example.com/disks");
    assert_eq!(BindingMode::of(&protobuf).unwrap().waits_for_first_consumer(), Some(true));
    assert!(ClassMark::of(&protobuf).unwrap().is_default());
}

#[test]
fn each_type_of_volume_source_is_found_in_both_encodings() {
    for kind in SOURCES {
        let handle = match kind.member {
            "gcePersistentDisk" => json!({"pdName": "h"}),
            "awsElasticBlockStore" | "cinder" | "portworxVolume" => json!({"volumeID": "h"}),
            "hostPath" | "local" => json!({"path": "h"}),
            "nfs" => json!({"server": "s", "path": "h"}),
            "iscsi" => json!({"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:d", "lun": 1}),
            "fc" => json!({"targetWWNs": ["5005", "5006"], "lun": 2}),
            "azureFile" => json!({"secretName": "s", "shareName": "h"}),
            "vsphereVolume" => json!({"volumePath": "h"}),
            "azureDisk" => json!({"diskName": "d", "diskURI": "h"}),
            "csi" => json!({"driver": "d", "volumeHandle": "h"}),
            _ => json!({}),
        };
        let expected = match kind.member {
            "iscsi" => "10.0.0.1:3260:iqn.2001-04.com.example:d:1",
            "fc" => "[5005 5006]:2",
            _ if handle == json!({}) => "",
            _ => "h",
        };
        let volume =
            json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1"}, kind.member: handle}});
        for volume in decoded::<PersistentVolume>(&volume, u64::MAX) {
            let source = VolumeSource::of(&volume).unwrap();
            assert_eq!(source.kind.map(|kind| kind.member), Some(kind.member));
            assert_eq!(source.handle.as_str(), expected, "{}", kind.member);
        }
    }
}

/// Twenty thousand pods are cached in many clusters, most of them without what most groups are for.
#[test]
fn a_group_that_a_cache_does_not_keep_or_that_is_empty_takes_next_to_no_room() {
    // With the counters of its `Arc`, an allocator's class of 128 bytes.
    assert!(size_of::<Pod>() <= 112, "{}", size_of::<Pod>());
    // Nearly every pod has these groups: they have no allocation of their own.
    assert!(size_of::<Addresses>() <= INLINE && size_of::<Containers>() <= INLINE);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}});
    for pod in decoded::<Pod>(&pod, u64::MAX) {
        assert_eq!(SelinuxMounts::of(&pod), Some(&SelinuxMounts::default()));
        assert_eq!(Placement::of(&pod).unwrap().node, "n");
        // `Placement` alone differs from its default.
        let beside_metadata = pod.heap_bytes() - meta_bytes(pod.meta());
        assert!(beside_metadata <= 24 + Placement::of(&pod).unwrap().heap_bytes(), "{beside_metadata}");
    }
    for pod in decoded::<Pod>(&pod, Placement::BIT) {
        assert_eq!(SelinuxMounts::of(&pod), None, "the cache does not keep it");
    }
}
