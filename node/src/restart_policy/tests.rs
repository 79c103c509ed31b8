use k8s_openapi::api::core::v1::PodStatus as ApiPodStatus;
use serde_json::json;

use super::{RestartOfAll, container_should_restart, runs_once, should_all_containers_restart};
use crate::container::PodStatus;
use crate::kuberuntime::actions::testing::{Scene, base, plain_init};

fn rule(action: &str, operator: &str, values: &[i32]) -> serde_json::Value {
    json!({"action": action, "exitCodes": {"operator": operator, "values": values}})
}

fn with_rules(scene: Scene, policy: Option<&str>, rules: &[serde_json::Value]) -> Scene {
    scene.but(|scene| {
        let container = &mut scene.spec().containers[0];
        container.restart_policy = policy.map(Into::into);
        container.restart_policy_rules = Some(serde_json::from_value(json!(rules)).unwrap());
    })
}

#[test]
fn the_first_rule_that_matches_decides_then_the_containers_policy_then_the_pods() {
    let restart = |operator, values: &[i32]| rule("Restart", operator, values);
    for (pod, own, rules, exit_code, restarts) in [
        ("Never", Some("Never"), vec![restart("In", &[42])], 42, true),
        ("Never", Some("Never"), vec![restart("In", &[42])], 1, false),
        ("Never", Some("Never"), vec![restart("NotIn", &[42])], 1, true),
        ("Never", Some("Never"), vec![restart("NotIn", &[42])], 42, false),
        ("Never", Some("OnFailure"), vec![restart("In", &[0])], 0, true),
        ("Never", Some("OnFailure"), vec![restart("In", &[0])], 1, true),
        ("Never", Some("Never"), vec![rule("RestartAllContainers", "In", &[3])], 3, true),
        ("Never", Some("Never"), vec![rule("Other", "In", &[3]), restart("In", &[3])], 3, false),
        ("Never", Some("Never"), vec![restart("Near", &[3])], 3, false),
        ("Never", None, vec![restart("In", &[42])], 42, false),
        ("Always", Some("Never"), vec![], 1, false),
        ("Always", Some("Sometimes"), vec![], 1, true),
        ("OnFailure", None, vec![], 0, false),
        ("OnFailure", None, vec![], 1, true),
        ("Sometimes", None, vec![], 0, true),
    ] {
        let scene = with_rules(base().policy(pod), own, &rules);
        let spec = scene.pod.spec.as_ref().unwrap();
        let decided = container_should_restart(&spec.containers[0], spec, exit_code);
        assert_eq!(decided, restarts, "{pod} {own:?} {rules:?} {exit_code}");
    }
}

#[test]
fn a_pod_runs_once_if_neither_policies_nor_rules_restart_anything() {
    for (pod, own, rules, once) in [
        ("Never", None, vec![], true),
        ("Never", Some("Never"), vec![], true),
        ("Never", Some("Never"), vec![rule("Restart", "In", &[42])], false),
        ("Never", Some("Never"), vec![rule("Other", "In", &[42])], true),
        ("Never", None, vec![rule("Restart", "In", &[42])], true),
        ("Never", Some("OnFailure"), vec![], false),
        ("OnFailure", None, vec![], false),
        ("Always", Some("Never"), vec![], false),
    ] {
        let scene = with_rules(base().policy(pod), own, &rules).but(|scene| {
            scene.spec().containers.truncate(1);
        });
        assert_eq!(runs_once(scene.pod.spec.as_ref().unwrap()), once, "{pod} {own:?} {rules:?}");
    }
}

#[test]
fn all_containers_restart_when_one_asks_by_its_end_or_the_pod_says_so() {
    let asking = || with_rules(base(), Some("Never"), &[rule("RestartAllContainers", "In", &[7])]);
    let restarts = |scene: &Scene, written: Option<serde_json::Value>| {
        let written: Option<ApiPodStatus> = written.map(|json| serde_json::from_value(json).unwrap());
        should_all_containers_restart(&scene.pod, Some(&scene.status), written.as_ref())
    };
    let condition =
        |status| Some(json!({"conditions": [{"type": "AllContainersRestarting", "status": status}]}));
    assert!(restarts(&asking().exited(0, 7), None));
    assert!(!restarts(&asking().exited(0, 8), None));
    assert!(!restarts(&asking(), None), "it still runs");
    assert!(!restarts(&base().exited(0, 7), None), "nobody asks");
    assert!(restarts(&base(), condition("True")));
    assert!(!restarts(&base(), condition("False")));

    let ended = json!({"containerStatuses": [{
        "name": "foo1", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 7}}
    }]});
    assert!(!restarts(&asking(), Some(ended.clone())), "what runs now goes before what was written");
    let written: ApiPodStatus = serde_json::from_value(ended).unwrap();
    assert!(should_all_containers_restart(&asking().pod, None, Some(&written)));
}

#[test]
fn a_pod_has_started_over_once_the_runtime_knows_no_container_of_it() {
    let scene = base().with_init(plain_init());
    let asked = |status| {
        let written = json!({"conditions": [{"type": "AllContainersRestarting", "status": "True"}]});
        RestartOfAll::of(&scene.pod, status, &serde_json::from_value(written).unwrap())
    };
    assert_eq!(asked(&scene.status), RestartOfAll::Removing);
    assert_eq!(asked(&PodStatus::default()), RestartOfAll::Removed);
    let nobody_asks = RestartOfAll::of(&scene.pod, &PodStatus::default(), &ApiPodStatus::default());
    assert_eq!(nobody_asks, RestartOfAll::NotAsked);
}
