//! Which autoscalers select a pod.

use steersman_api::ObjectKey;
use steersman_api::meta::Labels;

use super::super::rivals::Rivals;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

#[test]
fn autoscalers_that_select_the_same_pods_are_found() {
    let mut rivals = Rivals::default();
    let namespace = "default".into();
    let selecting = |rivals: &Rivals, pods: &[Labels]| -> Vec<String> {
        rivals.selecting(&namespace, pods).iter().map(|key| key.name.to_string()).collect()
    };
    for (name, selector) in [("web", "app=web"), ("tier", "app in (web,api),tier=front"), ("all", "app")] {
        assert!(rivals.add(&key(name)) && !rivals.add(&key(name)));
        rivals.set(&key(name), &selector.parse().unwrap());
    }
    let (web, front) = (labels(&[("app", "web")]), labels(&[("app", "api"), ("tier", "front")]));
    assert_eq!(selecting(&rivals, std::slice::from_ref(&web)), ["all", "web"]);
    assert_eq!(selecting(&rivals, std::slice::from_ref(&front)), ["all", "tier"]);
    assert_eq!(selecting(&rivals, &[web.clone(), front.clone()]), ["all", "tier", "web"]);
    // An autoscaler that is gone, and one that was never added.
    assert!(rivals.remove(&key("all")) && !rivals.remove(&key("all")));
    rivals.set(&key("all"), &"app".parse().unwrap());
    // An autoscaler whose target has another selector now.
    rivals.set(&key("web"), &"app=other".parse().unwrap());
    assert_eq!(selecting(&rivals, &[web.clone(), front]), ["tier"]);
    assert!(rivals.selecting(&"elsewhere".into(), [&web]).is_empty());
    // An autoscaler whose target was scaled to zero, and to some replicas again.
    rivals.set(&key("web"), &"app=web".parse().unwrap());
    assert_eq!(selecting(&rivals, std::slice::from_ref(&web)), ["web"]);
    rivals.unset(&key("web"));
    rivals.unset(&key("unknown"));
    assert!(selecting(&rivals, std::slice::from_ref(&web)).is_empty());
    rivals.set(&key("web"), &"app=web".parse().unwrap());
    assert_eq!(selecting(&rivals, &[web]), ["web"]);
}
