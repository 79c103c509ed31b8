//! Who goes to make room.

use k8s_openapi::api::core::v1::PodStatus;

use super::*;
use crate::admission::preemption;

/// What a pod asks for, in thousandths and MiB; a guaranteed one has the same as its limit.
fn sized(name: &str, cpu: i64, memory: i64, guaranteed: bool) -> Pod {
    let list = json!({ "cpu": format!("{cpu}m"), "memory": format!("{memory}Mi") });
    let resources = match (cpu, guaranteed) {
        (0, _) => json!({}),
        (_, true) => json!({ "requests": list, "limits": list }),
        (_, false) => json!({ "requests": list }),
    };
    pod(name, container(json!({ "resources": resources })))
}

fn with_priority(mut pod: Pod, priority: i32) -> Pod {
    pod.spec.as_mut().unwrap().priority = Some(priority);
    pod
}

/// The pods of the table by their names.
fn named(name: &str) -> Pod {
    match name {
        "best-effort" => sized(name, 0, 0, false),
        "tiny" => sized(name, 1, 1, false),
        "burstable" => sized(name, 100, 100, false),
        "large burstable" => sized(name, 300, 300, false),
        "guaranteed" => sized(name, 100, 100, true),
        "large guaranteed" => sized(name, 300, 300, true),
        "cluster critical" => with_priority(sized(name, 100, 100, true), 2_000_000_000),
        "node critical" => with_priority(sized(name, 100, 100, true), 2_000_001_000),
        other => panic!("no pod {other}"),
    }
}

const ALL: &[&str] =
    &["cluster critical", "best-effort", "burstable", "large burstable", "guaranteed", "large guaranteed"];

fn chosen(preemptor: &str, others: &[&str], cpu: i64, memory: i64, pods: i64) -> Result<Vec<String>, String> {
    let others: Vec<_> = others.iter().map(|name| Arc::new(named(name))).collect();
    let shortages: Vec<_> = [("cpu", cpu), ("memory", memory << 20), ("pods", pods)]
        .into_iter()
        .filter(|(_, amount)| *amount > 0)
        .map(|(resource, amount)| Shortage { resource: resource.to_owned(), amount })
        .collect();
    let victims = preemption::choose(&named(preemptor), &others.iter().collect::<Vec<_>>(), &shortages)?;
    Ok(victims.into_iter().filter_map(|victim| victim.metadata.name.clone()).collect())
}

#[test]
fn the_fewest_and_least_guaranteed_pods_go() {
    for (others, cpu, memory, pods, expected) in [
        (&[][..], 0, 0, 0, &[][..]),
        (&["burstable"], 100, 100, 1, &["burstable"]),
        (&["burstable", "best-effort"], 0, 0, 1, &["best-effort"]),
        (&["burstable", "guaranteed"], 0, 0, 1, &["burstable"]),
        (&["best-effort", "large burstable", "burstable"], 100, 100, 0, &["burstable"]),
        (&["best-effort", "burstable", "large burstable"], 150, 150, 0, &["large burstable"]),
        (ALL, 350, 350, 0, &["large burstable", "burstable"]),
        (ALL, 0, 550, 0, &["large burstable", "large guaranteed"]),
        (&["tiny", "burstable"], 1, 0, 0, &["tiny"]),
    ] {
        let expected = expected.iter().map(|name| (*name).to_owned()).collect();
        let found = chosen("cluster critical", others, cpu, memory, pods);
        assert_eq!(found, Ok(expected), "{others:?} {cpu} {memory} {pods}");
    }
}

#[test]
fn critical_pods_go_for_more_critical_ones_alone() {
    assert_eq!(chosen("node critical", &["cluster critical"], 100, 0, 0).unwrap(), ["cluster critical"]);
    let none = |listed: &str| Err(format!("no set of running pods found to reclaim resources: [{listed}]"));
    assert_eq!(chosen("cluster critical", &["node critical"], 100, 0, 0), none("(res: cpu, q: 100), "));
    assert_eq!(chosen("cluster critical", &["cluster critical"], 0, 0, 1), none("(res: pods, q: 1), "));
    assert_eq!(
        chosen("cluster critical", &["burstable"], 200, 0, 2),
        none("(res: cpu, q: 100), (res: pods, q: 1), ")
    );
    assert_eq!(chosen("cluster critical", &["best-effort"], 1, 0, 0), none("(res: cpu, q: 1), "));
}

#[test]
fn a_critical_pod_that_lacks_only_room_has_others_go() {
    let others = [named("burstable"), sized("large", 1900, 100, false)];
    let asking = |priority| with_priority(asking(json!({ "cpu": "300m" })), priority);
    assert_eq!(admitted(&asking(0), &others), insufficient("cpu", 300, 2000, 2000));
    let shared: Vec<_> = others.iter().cloned().map(Arc::new).collect();
    let situation = Situation { node: Some(&node()), pressures: &BTreeSet::new(), others: &shared };
    let admission = admit(&asking(2_000_000_000), &policy(), situation);
    let expected = Preemption { victims: vec![shared[1].clone()], signal: "cpu".to_owned() };
    assert_eq!(admission, Ok(Admission::After(expected)));

    let mut of_static = asking(0);
    of_static.metadata.annotations =
        Some([("kubernetes.io/config.source".to_owned(), "file".to_owned())].into());
    let Ok(Admission::After(preemption)) = admit(&of_static, &policy(), situation) else { panic!("no room") };
    assert_eq!(preemption.victims[0].metadata.name.as_deref(), Some("large"));
}

#[test]
fn a_critical_pod_for_which_no_room_can_be_made_says_what_is_missing() {
    let large = with_priority(asking(json!({ "cpu": "5" })), 2_000_001_000);
    let message = "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of \
                   pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 3000), ]";
    let expected = refused("UnexpectedAdmissionError", message);
    assert_eq!(admitted(&large, &[named("burstable")]), expected);
}

#[test]
fn nobody_goes_for_a_pod_that_is_refused_for_another_reason() {
    let mut critical = with_priority(asking(json!({ "cpu": "2" })), 2_000_000_000);
    critical.spec.as_mut().unwrap().host_network = Some(true);
    critical.spec.as_mut().unwrap().host_users = Some(false);
    let rejection = admitted(&critical, &[named("burstable")]).unwrap_err();
    assert_eq!(rejection.0, "PodFeatureUnsupported");
}

#[test]
fn a_victim_fails_and_says_what_for() {
    let mut victim = named("burstable");
    victim.metadata.generation = Some(3);
    let mut status: PodStatus = serde_json::from_value(json!({
        "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
    }))
    .unwrap();
    preemption::preempted(&victim).apply(&mut status);
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({
            "phase": "Failed", "reason": "Preempting", "message": "Preempted in order to admit critical pod",
            "conditions": [
                { "type": "Ready", "status": "True" },
                {
                    "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet",
                    "observedGeneration": 3,
                    "message": "Pod was preempted by Kubelet to accommodate a critical pod.",
                },
            ],
        })
    );
}
