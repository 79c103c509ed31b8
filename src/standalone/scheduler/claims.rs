//! What the claims of a pod need before the pod can be bound: the rules of kube-scheduler's plugins VolumeBinding and, for
//! `ReadWriteOncePod`, VolumeRestrictions, for one node. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, Pod,
    TopologySelectorLabelRequirement, TopologySelectorTerm, VolumeResourceRequirements,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::json;
use steersman_api::Quantity;
use steersman_node::admission::predicates::matches_any_term;

const UNBOUND: &str = "pod has unbound immediate PersistentVolumeClaims";
const NO_VOLUME: &str = "1 node(s) didn't find available persistent volumes to bind";
const ELSEWHERE: &str = "1 node(s) didn't match PersistentVolume's node affinity";
const VOLUME_MISSING: &str = "1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
const IN_USE: &str = "1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
                      another pod";

/// The binder's mark on claims that are bound for good.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Tells a claim's provisioner the node that the volume must be reachable from.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// The provisioner of classes whose volumes are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A claim that a pod needs.
pub(super) struct Wanted {
    /// The claim's name.
    pub(super) name: String,
    /// Whether the claim is made for the pod.
    pub(super) is_ephemeral: bool,
    /// The claim; `None` if there is none.
    pub(super) claim: Option<PersistentVolumeClaim>,
    /// The volume that the claim names; `None` if there is none.
    pub(super) volume: Option<PersistentVolume>,
    /// The claim's class; `None` if there is none.
    pub(super) class: Option<StorageClass>,
}

/// What to write, so that the binder binds a claim that waited for its first pod.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Reserves the volume of that name for a claim by this merge patch.
    Reserve(String, serde_json::Value),
    /// Waits until the binder binds the volume of that name, which is already reserved for a claim.
    Await(String),
    /// Asks the provisioner of the claim of that name for a volume by this merge patch.
    Select(String, serde_json::Value),
    /// Waits until the provisioner of the claim of that name, which has been asked already, has made a volume.
    AwaitProvisioner(String),
}

/// The names of the claims that the pod needs, and whether each is made for the pod.
pub(super) fn names(pod: &Pod) -> Vec<(String, bool)> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let claims = volumes.filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(named), _) => Some((named.claim_name.clone(), false)),
        (None, Some(_)) => Some((format!("{pod_name}-{}", volume.name), true)),
        (None, None) => None,
    });
    let claims: BTreeSet<_> = claims.collect();
    claims.into_iter().collect()
}

/// What to write before the pod can be bound to the node; nothing if all claims are bound. `others` are the pods on the node,
/// `free` are all volumes.
///
/// # Errors
/// Why the pod can't be bound, in kube-scheduler's words.
pub(super) fn plan(
    pod: &Pod,
    node: &Node,
    others: &[&Pod],
    wanted: &[Wanted],
    free: &[PersistentVolume],
) -> Result<Vec<Step>, String> {
    let refused = |why: &str| format!("0/1 nodes are available: {why}.");
    let (mut waiting, mut steps) = (Vec::new(), Vec::new());
    for one in wanted {
        let claim = usable(pod, one).map_err(|why| refused(&why))?;
        if is_for_one_pod(claim) && others.iter().any(|other| uses(other, claim)) {
            return Err(refused(IN_USE));
        }
        if is_bound(claim) {
            let volume = one.volume.as_ref().ok_or_else(|| refused(VOLUME_MISSING))?;
            if !is_reachable(volume, node) {
                return Err(refused(ELSEWHERE));
            }
        } else if volume_name(claim).is_none() && waits_for_pod(one) {
            // As upstream's FindPodVolumes: a claim whose provisioner was asked gets no other volume, even if one fits now.
            let class = one.class.as_ref();
            let is_made_here = |selected| {
                Some(selected) == node.metadata.name.as_deref()
                    && class.is_some_and(|class| can_provision(class, node))
            };
            match selected_node(claim) {
                None => waiting.push((claim, class)),
                Some(selected) if is_made_here(selected) => {
                    steps.push(Step::AwaitProvisioner(one.name.clone()));
                }
                Some(_) => return Err(refused(NO_VOLUME)),
            }
        } else {
            return Err(refused(UNBOUND));
        }
    }
    // The smallest first, so that none takes the large volume that another needs.
    waiting.sort_by_key(|(claim, _)| size_asked(claim));
    let mut taken = BTreeSet::new();
    for (claim, class) in waiting {
        let name = claim.metadata.name.clone().unwrap_or_default();
        // As upstream's FindMatchingVolume: a volume that is reserved for the claim comes first, and no other if the node can't
        // reach that one. So a pod that is tried again before the binder is done reserves no second volume.
        let reserved = free.iter().find(|volume| is_reserved_for(volume, claim) && offers(volume, claim));
        if let Some(volume) = reserved.filter(|volume| is_reachable(volume, node)) {
            let name = volume.metadata.name.clone().unwrap_or_default();
            let names_uid = claim_ref(volume).is_some_and(|of| of.uid.is_some());
            steps.push(match names_uid {
                true => Step::Await(name),
                false => Step::Reserve(name, reservation(volume, claim)),
            });
            continue;
        }
        let fitting =
            free.iter().filter(|volume| reserved.is_none() && !taken.contains(&volume.metadata.name));
        let fitting = fitting.filter(|volume| fits(volume, claim, node));
        if let Some(volume) = fitting.min_by_key(|volume| (size(volume), volume.metadata.name.clone())) {
            taken.insert(volume.metadata.name.clone());
            steps.push(Step::Reserve(
                volume.metadata.name.clone().unwrap_or_default(),
                reservation(volume, claim),
            ));
        } else if class.is_some_and(|class| can_provision(class, node)) {
            let selected = json!({ SELECTED_NODE: node.metadata.name });
            let of = json!({ "uid": claim.metadata.uid, "annotations": selected });
            steps.push(Step::Select(name, json!({ "metadata": of })));
        } else {
            return Err(refused(NO_VOLUME));
        }
    }
    Ok(steps)
}

/// The claim, if there is one that the pod may use.
fn usable<'a>(pod: &Pod, wanted: &'a Wanted) -> Result<&'a PersistentVolumeClaim, String> {
    let name = &wanted.name;
    let Some(claim) = &wanted.claim else {
        return Err(if wanted.is_ephemeral {
            format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}")
        } else {
            format!("persistentvolumeclaim {name:?} not found")
        });
    };
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost") {
        let volume = volume_name(claim).unwrap_or_default();
        return Err(format!(
            "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
        ));
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
    }
    let owners = claim.metadata.owner_references.iter().flatten();
    let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
    if wanted.is_ephemeral && controller.map(|owner| &owner.uid) != pod.metadata.uid.as_ref() {
        let (namespace, pod) = (&pod.metadata.namespace, &pod.metadata.name);
        let (namespace, pod) = (namespace.as_deref().unwrap_or_default(), pod.as_deref().unwrap_or_default());
        return Err(format!(
            "PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"
        ));
    }
    Ok(claim)
}

/// Whether at most one pod may use the claim at a time.
fn is_for_one_pod(claim: &PersistentVolumeClaim) -> bool {
    let modes = claim.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
    modes.into_iter().any(|mode| mode == "ReadWriteOncePod")
}

/// Whether the pod has a volume that stands for the claim.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    pod.metadata.namespace == claim.metadata.namespace
        && names(pod).into_iter().any(|(name, _)| Some(name) == claim.metadata.name)
}

/// The node that the claim's provisioner has been asked for a volume for.
fn selected_node(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.metadata.annotations.as_ref()?.get(SELECTED_NODE).map(String::as_str)
}

/// Whether the class has a provisioner, and allows the node.
fn can_provision(class: &StorageClass, node: &Node) -> bool {
    let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
    !matches!(&*class.provisioner, "" | NO_PROVISIONER)
        && (topologies.is_empty() || topologies.iter().any(|term| selects_node(term, node)))
}

/// Whether the node's labels have one of the values of each expression. A term without expressions selects no node.
fn selects_node(term: &TopologySelectorTerm, node: &Node) -> bool {
    let label = |key: &str| node.metadata.labels.as_ref()?.get(key);
    let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
    let is_met = |one: &TopologySelectorLabelRequirement| {
        label(&one.key).is_some_and(|value| one.values.contains(value))
    };
    !expressions.is_empty() && expressions.iter().all(is_met)
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    volume_name(claim).is_some() && annotations.is_some_and(|all| all.contains_key(BIND_COMPLETED))
}

fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

fn waits_for_pod(wanted: &Wanted) -> bool {
    let mode = wanted.class.as_ref().and_then(|class| class.volume_binding_mode.as_deref());
    mode == Some("WaitForFirstConsumer")
}

fn is_reachable(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|required| matches_any_term(&required.node_selector_terms, node))
}

/// The name of a claim's class; empty if it asks for a volume without class.
pub(super) fn class_of(claim: &PersistentVolumeClaim) -> &str {
    let annotated = claim.metadata.annotations.as_ref().and_then(|all| all.get(CLASS_ANNOTATION));
    let named = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    annotated.or(named).map(String::as_str).unwrap_or_default()
}

fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

/// Whether the volume names the claim. A user who reserves a volume need not name the claim's uid.
fn is_reserved_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let of = &claim.metadata;
    claim_ref(volume).is_some_and(|reserved| {
        (&reserved.namespace, &reserved.name) == (&of.namespace, &of.name)
            && reserved.uid.as_ref().is_none_or(|uid| Some(uid) == of.uid.as_ref())
    })
}

/// Whether the volume has the size, the class and the mode that the claim asks for. A volume that is reserved for a claim needs
/// no more.
fn offers(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (Some(has), Some(asks)) = (&volume.spec, &claim.spec) else { return false };
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    let annotated = volume.metadata.annotations.as_ref().and_then(|all| all.get(CLASS_ANNOTATION));
    let class = annotated.or(has.storage_class_name.as_ref()).map(String::as_str).unwrap_or_default();
    volume.metadata.deletion_timestamp.is_none()
        && class == class_of(claim)
        && size(volume) >= size_asked(claim)
        && mode(&has.volume_mode) == mode(&asks.volume_mode)
        && has.volume_attributes_class_name.as_deref().unwrap_or_default()
            == asks.volume_attributes_class_name.as_deref().unwrap_or_default()
}

/// Whether the volume is free, can be reached from the node, and is what the claim asks for.
fn fits(volume: &PersistentVolume, claim: &PersistentVolumeClaim, node: &Node) -> bool {
    let (Some(has), Some(asks)) = (&volume.spec, &claim.spec) else { return false };
    let modes = has.access_modes.as_deref().unwrap_or_default();
    volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Available")
        && has.claim_ref.is_none()
        && offers(volume, claim)
        && asks.access_modes.iter().flatten().all(|mode| modes.contains(mode))
        && asks.selector.as_ref().is_none_or(|selector| selects(selector, volume))
        && is_reachable(volume, node)
}

fn selects(selector: &LabelSelector, volume: &PersistentVolume) -> bool {
    let labels = selector.match_labels.iter().flatten();
    let mut parsed = steersman_api::LabelSelector::from_labels(
        labels.map(|(name, value)| (name.as_str(), value.as_str())),
    );
    for one in selector.match_expressions.iter().flatten() {
        let values = one.values.iter().flatten().map(String::as_str);
        if parsed.require(&one.key, &one.operator, values).is_err() {
            return false;
        }
    }
    let own = volume.metadata.labels.as_ref();
    parsed.matches_with(|name| own?.get(name).map(String::as_str))
}

fn size(volume: &PersistentVolume) -> Option<Quantity> {
    let capacity = volume.spec.as_ref()?.capacity.as_ref()?;
    capacity.get("storage")?.0.parse().ok()
}

fn size_asked(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    let PersistentVolumeClaimSpec { resources: Some(resources), .. } = claim.spec.as_ref()? else {
        return None;
    };
    let VolumeResourceRequirements { requests: Some(requests), .. } = resources else { return None };
    requests.get("storage")?.0.parse().ok()
}

/// What kube-scheduler writes to a volume that it reserves for a claim.
fn reservation(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> serde_json::Value {
    let (of, to) = (&volume.metadata, &claim.metadata);
    // Of this state only: the binder may have given it away.
    let mut metadata = json!({ "uid": of.uid, "resourceVersion": of.resource_version });
    // A volume that a user reserved stays reserved when the claim is gone.
    if claim_ref(volume).is_none() {
        metadata["annotations"] = json!({ "pv.kubernetes.io/bound-by-controller": "yes" });
    }
    json!({
        "metadata": metadata,
        "spec": { "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": to.namespace, "name": to.name,
            "uid": to.uid, "resourceVersion": to.resource_version,
        } },
    })
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::*;

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn pod(volumes: Value) -> Pod {
        let meta = json!({ "name": "p", "namespace": "d", "uid": "u" });
        read(json!({ "metadata": meta, "spec": { "containers": [], "volumes": volumes } }))
    }

    fn node() -> Node {
        read(json!({ "metadata": { "name": "n", "labels": { "host": "n" } } }))
    }

    fn claim(name: &str, size: &str, spec: Value) -> PersistentVolumeClaim {
        let mut whole = json!({
            "metadata": { "name": name, "namespace": "d", "uid": format!("u-{name}"), "resourceVersion": "7" },
            "spec": {
                "storageClassName": "local", "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": size } },
            },
            "status": { "phase": "Pending" },
        });
        whole["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        read(whole)
    }

    fn volume(name: &str, size: &str, spec: Value) -> PersistentVolume {
        let mut whole = json!({
            "metadata": { "name": name, "uid": format!("u-{name}"), "resourceVersion": "5", "labels": { "disk": name } },
            "spec": {
                "storageClassName": "local", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "capacity": { "storage": size },
            },
            "status": { "phase": "Available" },
        });
        whole["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        read(whole)
    }

    fn on(host: &str) -> Value {
        let terms = json!([{ "matchExpressions": [{ "key": "host", "operator": "In", "values": [host] }] }]);
        json!({ "nodeAffinity": { "required": { "nodeSelectorTerms": terms } } })
    }

    fn class(provisioner: &str, mode: &str) -> Option<StorageClass> {
        read(json!({
            "metadata": { "name": "local" }, "provisioner": provisioner, "volumeBindingMode": mode,
        }))
    }

    fn wanted(claim: PersistentVolumeClaim, class: Option<StorageClass>) -> Wanted {
        let name = claim.metadata.name.clone().unwrap();
        Wanted { name, is_ephemeral: false, claim: Some(claim), volume: None, class }
    }

    /// A claim that is bound to a volume with these members of its spec.
    fn bound(spec: Value) -> Wanted {
        let mut claim = claim("c", "1Gi", json!({ "volumeName": "v" }));
        claim.metadata.annotations = read(json!({ BIND_COMPLETED: "yes" }));
        Wanted { volume: Some(volume("v", "1Gi", spec)), ..wanted(claim, None) }
    }

    #[test]
    fn the_claims_of_a_pod_are_those_that_it_names_or_that_are_named_after_it() {
        let pod = pod(json!([
            { "name": "a", "persistentVolumeClaim": { "claimName": "c" } },
            { "name": "b", "persistentVolumeClaim": { "claimName": "c" } },
            { "name": "e", "ephemeral": {} }, { "name": "x", "emptyDir": {} },
        ]));
        assert_eq!(names(&pod), [("c".to_owned(), false), ("p-e".to_owned(), true)]);
    }

    #[test]
    fn a_pod_whose_claims_are_not_bound_says_why_in_upstreams_words() {
        let lazy = || class(NO_PROVISIONER, "WaitForFirstConsumer");
        let changed = |change: fn(&mut PersistentVolumeClaim)| {
            let mut claim = claim("c", "1Gi", json!({}));
            change(&mut claim);
            wanted(claim, lazy())
        };
        let missing = |is_ephemeral| Wanted {
            name: "c".to_owned(),
            is_ephemeral,
            claim: None,
            volume: None,
            class: None,
        };
        let owned = |uid: &str| {
            let owner =
                json!([{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true }]);
            let mut one = bound(json!({}));
            one.claim.as_mut().unwrap().metadata.owner_references = read(owner);
            Wanted { is_ephemeral: true, ..one }
        };
        for (one, expected) in [
            (bound(json!({})), None),
            (bound(on("n")), None),
            (bound(on("m")), Some(ELSEWHERE)),
            (Wanted { volume: None, ..bound(json!({})) }, Some(VOLUME_MISSING)),
            (missing(false), Some("persistentvolumeclaim \"c\" not found")),
            (
                missing(true),
                Some("waiting for ephemeral volume controller to create the persistentvolumeclaim \"c\""),
            ),
            (owned("u"), None),
            (owned("before"), Some("PVC d/c was not created for pod d/p (pod is not owner)")),
            (
                changed(|claim| claim.metadata.deletion_timestamp = read(json!("2026-01-01T00:00:00Z"))),
                Some("persistentvolumeclaim \"c\" is being deleted"),
            ),
            (
                changed(|claim| claim.status = read(json!({ "phase": "Lost" }))),
                Some("persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"\""),
            ),
            (
                wanted(claim("c", "1Gi", json!({})), class("example.com/disks", "Immediate")),
                Some("pod has unbound immediate PersistentVolumeClaims"),
            ),
            (
                wanted(claim("c", "1Gi", json!({})), None),
                Some("pod has unbound immediate PersistentVolumeClaims"),
            ),
            // It names a volume, and the binder is at work.
            (
                wanted(claim("c", "1Gi", json!({ "volumeName": "v" })), lazy()),
                Some("pod has unbound immediate PersistentVolumeClaims"),
            ),
            (
                wanted(claim("c", "1Gi", json!({})), lazy()),
                Some("1 node(s) didn't find available persistent volumes to bind"),
            ),
        ] {
            let expected = expected.map(|why| format!("0/1 nodes are available: {why}."));
            assert_eq!(plan(&pod(json!([])), &node(), &[], &[one], &[]).err(), expected);
        }
    }

    /// The volume that is reserved for a claim, and the claim's name, for each step.
    fn reserved(wanted: &[Wanted], free: &[PersistentVolume]) -> Option<Vec<(String, String)>> {
        let steps = plan(&pod(json!([])), &node(), &[], wanted, free).ok()?;
        let names = steps.into_iter().map(|step| match step {
            Step::Reserve(volume, patch) => {
                (volume, patch["spec"]["claimRef"]["name"].as_str().unwrap().to_owned())
            }
            Step::Await(volume) => (volume, "already".to_owned()),
            Step::Select(claim, _) => ("to be made".to_owned(), claim),
            Step::AwaitProvisioner(claim) => ("being made".to_owned(), claim),
        });
        Some(names.collect())
    }

    #[test]
    fn a_claim_gets_the_smallest_volume_of_the_node_that_fits() {
        let lazy = || class(NO_PROVISIONER, "WaitForFirstConsumer");
        let asked = || [wanted(claim("c", "2Gi", json!({})), lazy())];
        let fits = [("v".to_owned(), "c".to_owned())];
        assert_eq!(reserved(&asked(), &[volume("v", "2Gi", json!({}))]).unwrap(), fits);
        assert_eq!(reserved(&asked(), &[volume("v", "2Gi", on("n"))]).unwrap(), fits);
        let (large, small) = (volume("large", "9Gi", json!({})), volume("v", "2048Mi", json!({})));
        assert_eq!(reserved(&asked(), &[large, small]).unwrap(), fits);
        for unfit in [
            json!({ "capacity": { "storage": "1Gi" } }),
            json!({ "storageClassName": "other" }),
            json!({ "volumeMode": "Block" }),
            json!({ "accessModes": ["ReadWriteMany"] }),
            json!({ "claimRef": { "name": "x" } }),
            json!({ "volumeAttributesClassName": "fast" }),
            on("m"),
        ] {
            assert_eq!(reserved(&asked(), &[volume("v", "2Gi", unfit.clone())]), None, "{unfit}");
        }
        for (selector, expected) in [
            (json!({ "matchLabels": { "disk": "v" } }), true),
            (json!({ "matchLabels": { "disk": "w" } }), false),
            (json!({ "matchExpressions": [{ "key": "disk", "operator": "Exists" }] }), true),
            (json!({ "matchExpressions": [{ "key": "disk", "operator": "Odd" }] }), false),
        ] {
            let one = [wanted(claim("c", "2Gi", json!({ "selector": selector })), lazy())];
            let found = reserved(&one, &[volume("v", "2Gi", json!({}))]);
            assert_eq!(found.is_some(), expected, "{selector}");
        }
        let mut bound = volume("v", "2Gi", json!({}));
        bound.status = read(json!({ "phase": "Released" }));
        assert_eq!(reserved(&asked(), &[bound]), None);
    }

    #[test]
    fn each_claim_gets_a_volume_of_its_own_or_asks_its_provisioner() {
        let lazy = |provisioner| class(provisioner, "WaitForFirstConsumer");
        let (large, small) = (volume("large", "4Gi", json!({})), volume("small", "1Gi", json!({})));
        let two = |provisioner| {
            [
                wanted(claim("wants-large", "3Gi", json!({})), lazy(provisioner)),
                wanted(claim("wants-small", "1Gi", json!({})), lazy(provisioner)),
            ]
        };
        let pair = |volume: &str, claim: &str| (volume.to_owned(), claim.to_owned());
        assert_eq!(
            reserved(&two(NO_PROVISIONER), &[large.clone(), small.clone()]).unwrap(),
            [pair("small", "wants-small"), pair("large", "wants-large")]
        );
        assert_eq!(reserved(&two(NO_PROVISIONER), std::slice::from_ref(&small)), None);
        assert_eq!(
            reserved(&two("example.com/disks"), &[small]).unwrap(),
            [pair("small", "wants-small"), pair("to be made", "wants-large")]
        );
    }

    #[test]
    fn a_volume_that_is_reserved_for_the_claim_comes_before_all_others() {
        let lazy = |provisioner| class(provisioner, "WaitForFirstConsumer");
        let asked = |provisioner| [wanted(claim("c", "1Gi", json!({})), lazy(provisioner))];
        let reserved_as = |reference: Value| json!({ "claimRef": reference });
        let own = json!({ "namespace": "d", "name": "c", "uid": "u-c" });
        let pair = |volume: &str, claim: &str| Some(vec![(volume.to_owned(), claim.to_owned())]);
        let free = || volume("a-free-one", "1Gi", json!({}));
        let mut elsewhere = reserved_as(own.clone());
        elsewhere["nodeAffinity"] = on("m")["nodeAffinity"].clone();
        for (what, spec, expected) in [
            ("reserved", reserved_as(own), pair("v", "already")),
            ("by a user", reserved_as(json!({ "namespace": "d", "name": "c" })), pair("v", "c")),
            (
                "another uid",
                reserved_as(json!({ "namespace": "d", "name": "c", "uid": "x" })),
                pair("a-free-one", "c"),
            ),
            (
                "another namespace",
                reserved_as(json!({ "namespace": "e", "name": "c" })),
                pair("a-free-one", "c"),
            ),
            ("out of reach", elsewhere.clone(), None),
        ] {
            let mut of_claim = volume("v", "2Gi", spec);
            // The binder is at work.
            of_claim.status = read(json!({ "phase": "Bound" }));
            assert_eq!(reserved(&asked(NO_PROVISIONER), &[free(), of_claim]), expected, "{what}");
        }
        let one = [volume("v", "2Gi", elsewhere)];
        assert_eq!(reserved(&asked("example.com/disks"), &one), pair("to be made", "c"));
        let by_user = volume("v", "1Gi", reserved_as(json!({ "namespace": "d", "name": "c" })));
        let steps = plan(&pod(json!([])), &node(), &[], &asked(NO_PROVISIONER), &[by_user]).unwrap();
        let [Step::Reserve(_, patch)] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!(patch["metadata"]["annotations"], Value::Null);
        assert_eq!(patch["spec"]["claimRef"]["uid"], "u-c");
    }

    #[test]
    fn a_claim_for_one_pod_is_refused_while_another_pod_of_the_namespace_uses_it() {
        let used = |namespace: &str, volume: Value| {
            let mut other = pod(json!([volume]));
            other.metadata.namespace = Some(namespace.to_owned());
            other
        };
        let named = |name: &str| json!({ "name": "data", "persistentVolumeClaim": { "claimName": name } });
        for (modes, other, is_refused) in [
            (json!(["ReadWriteOncePod"]), used("d", named("c")), true),
            (json!(["ReadWriteOncePod"]), used("d", named("b")), false),
            (json!(["ReadWriteOncePod"]), used("e", named("c")), false),
            (json!(["ReadWriteOncePod"]), used("d", json!({ "name": "c", "emptyDir": {} })), false),
            (json!(["ReadWriteOnce"]), used("d", named("c")), false),
        ] {
            let mut one = bound(json!({}));
            one.claim.as_mut().unwrap().spec.as_mut().unwrap().access_modes = read(modes.clone());
            let planned = plan(&pod(json!([named("c")])), &node(), &[&other], &[one], &[]);
            let expected = "0/1 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with \
                            ReadWriteOncePod access mode already in-use by another pod.";
            assert_eq!(planned.err(), is_refused.then(|| expected.to_owned()), "{modes} {:?}", other.spec);
        }
    }

    #[test]
    fn a_claim_whose_provisioner_was_asked_waits_for_it_and_gets_no_other_volume() {
        let asked = |provisioner, node: &str| {
            let mut claim = claim("c", "1Gi", json!({}));
            claim.metadata.annotations = read(json!({ SELECTED_NODE: node }));
            [wanted(claim, class(provisioner, "WaitForFirstConsumer"))]
        };
        let free = [volume("v", "1Gi", json!({}))];
        let being_made = vec![("being made".to_owned(), "c".to_owned())];
        assert_eq!(reserved(&asked("example.com/disks", "n"), &free), Some(being_made));
        for one in
            [asked("example.com/disks", "m"), asked("example.com/disks", ""), asked(NO_PROVISIONER, "n")]
        {
            let refused = plan(&pod(json!([])), &node(), &[], &one, &free).unwrap_err();
            assert_eq!(refused, format!("0/1 nodes are available: {NO_VOLUME}."));
        }
    }

    #[test]
    fn a_provisioner_is_asked_only_for_a_node_that_the_class_allows() {
        let term = |expressions: Value| json!({ "matchLabelExpressions": expressions });
        let host = |values: Value| json!({ "key": "host", "values": values });
        let (here, zone) = (host(json!(["m", "n"])), json!({ "key": "zone", "values": ["z"] }));
        for (topologies, is_allowed) in [
            (json!(null), true),
            (json!([]), true),
            (json!([term(json!([here]))]), true),
            (json!([term(json!([host(json!(["m"]))]))]), false),
            (json!([term(json!([zone])), term(json!([here]))]), true),
            (json!([term(json!([here, zone]))]), false),
            (json!([term(json!([host(json!([]))]))]), false),
            (json!([term(json!([]))]), false),
        ] {
            let mut class = class("example.com/disks", "WaitForFirstConsumer");
            class.as_mut().unwrap().allowed_topologies = read(topologies.clone());
            let new = claim("c", "1Gi", json!({}));
            let mut selected = new.clone();
            selected.metadata.annotations = read(json!({ SELECTED_NODE: "n" }));
            for claim in [new, selected] {
                let found = reserved(&[wanted(claim, class.clone())], &[]);
                assert_eq!(found.is_some(), is_allowed, "{topologies}");
            }
        }
    }

    #[test]
    fn a_reservation_is_what_kube_scheduler_writes() {
        let lazy = class("example.com/disks", "WaitForFirstConsumer");
        let free = [volume("v", "1Gi", json!({}))];
        let one = [wanted(claim("c", "1Gi", json!({})), lazy)];
        let steps = plan(&pod(json!([])), &node(), &[], &one, &free).unwrap();
        let reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "d", "name": "c", "uid": "u-c",
            "resourceVersion": "7",
        });
        let expected = json!({
            "metadata": {
                "uid": "u-v", "resourceVersion": "5",
                "annotations": { "pv.kubernetes.io/bound-by-controller": "yes" },
            },
            "spec": { "claimRef": reference },
        });
        assert_eq!(steps, [Step::Reserve("v".to_owned(), expected)]);
        let steps = plan(&pod(json!([])), &node(), &[], &one, &[]).unwrap();
        let selected = json!({ "volume.kubernetes.io/selected-node": "n" });
        let expected = json!({ "metadata": { "uid": "u-c", "annotations": selected } });
        assert_eq!(steps, [Step::Select("c".to_owned(), expected)]);
    }
}
