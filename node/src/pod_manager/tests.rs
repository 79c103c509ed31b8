use super::*;
use crate::pod_config::annotations::{CONFIG_HASH, CONFIG_MIRROR, CONFIG_SOURCE};

fn pod(uid: &str, name: &str, annotations: &[(&str, &str)]) -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.uid = Some(uid.to_owned());
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace = Some("ns".to_owned());
    let pairs = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    pod.metadata.annotations = Some(pairs.collect());
    Arc::new(pod)
}

fn static_pod(uid: &str, name: &str) -> Arc<Pod> {
    pod(uid, name, &[(CONFIG_SOURCE, "file"), (CONFIG_HASH, "h")])
}

fn mirror(uid: &str, name: &str) -> Arc<Pod> {
    pod(uid, name, &[(CONFIG_SOURCE, "api"), (CONFIG_MIRROR, "h")])
}

fn uids(pods: &[Arc<Pod>]) -> Vec<&str> {
    let mut uids: Vec<&str> = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
    uids.sort_unstable();
    uids
}

#[test]
fn a_mirror_and_its_static_pod_find_each_other_whichever_comes_first() {
    for mirror_first in [true, false] {
        let pods = PodManager::new();
        let mut both = [static_pod("s", "web"), mirror("m", "web")];
        if mirror_first {
            both.reverse();
        }
        both.into_iter().for_each(|pod| pods.set(pod));
        pods.set(pod("a", "other", &[]));
        assert_eq!(pods.translate(&"m".into()), "s".into());
        for own in ["s", "a", "unknown", ""] {
            assert_eq!(pods.translate(&own.into()), own.into());
        }
        assert_eq!(pods.static_pod_of("m").as_deref(), Some("s"));
        assert_eq!(pods.static_pod_of("a"), None);
        assert_eq!(pods.mirror_of(&static_pod("s", "web")).map(|pod| uid(&pod)), Some("m".into()));
        assert!(pods.mirror_of(&pod("a", "other", &[])).is_none());
        assert!(
            matches!(pods.paired(mirror("m", "web")), Paired::Mirror { pod: Some(pod), .. } if uid(&pod) == "s".into())
        );
        assert!(matches!(pods.paired(static_pod("s", "web")), Paired::Pod { mirror: Some(_), .. }));
        assert!(matches!(pods.paired(pod("a", "other", &[])), Paired::Pod { mirror: None, .. }));
    }
}

fn uid(pod: &Pod) -> Uid {
    crate::pod_workers::uid_of(pod)
}

#[test]
fn mirrors_are_no_pods() {
    let pods = PodManager::new();
    pods.set(mirror("m", "web"));
    assert!(pods.pod(&"m".into()).is_none() && pods.by_full_name("web_ns").is_none());
    assert!(pods.by_uid("m").is_some(), "the status manager finds it");
    pods.set(static_pod("s", "web"));
    assert_eq!(pods.by_full_name("web_ns").map(|pod| uid(&pod)), Some("s".into()));
    assert_eq!(uids(&pods.pods()), ["s"]);
}

#[test]
fn a_mirror_whose_static_pod_is_gone_is_orphaned() {
    let pods = PodManager::new();
    pods.set(mirror("m1", "web"));
    pods.set(mirror("m2", "db"));
    pods.set(static_pod("s", "web"));
    let all = pods.all();
    assert_eq!((uids(&all.pods), uids(&all.mirrors)), (vec!["s"], vec!["m1", "m2"]));
    assert_eq!(uids(&all.orphaned_mirrors), ["m2"]);
    pods.remove(&static_pod("s", "web"));
    assert_eq!(uids(&pods.all().orphaned_mirrors), ["m1", "m2"]);
    assert_eq!(pods.static_pod_of("m1").as_deref(), Some("s"), "what is last told of it goes there");
    assert_eq!(pods.mirror_uid_of("s").as_deref(), Some("m1"));
    pods.remove(&mirror("m1", "web"));
    assert_eq!((pods.static_pod_of("m1"), pods.mirror_uid_of("s")), (None, None));
    assert_eq!(uids(&pods.all().mirrors), ["m2"]);
}

/// A changed manifest is a new pod of the old one's name.
#[test]
fn a_name_stays_with_the_pod_that_took_it_last() {
    let pods = PodManager::new();
    pods.set(mirror("m", "web"));
    pods.set(static_pod("old", "web"));
    pods.set(static_pod("new", "web"));
    assert_eq!(pods.translate(&"m".into()), "new".into());
    pods.remove(&static_pod("old", "web"));
    assert_eq!(pods.by_full_name("web_ns").map(|pod| uid(&pod)), Some("new".into()));
    assert_eq!(uids(&pods.pods()), ["new"]);
    assert!(pods.all().orphaned_mirrors.is_empty());
}

#[test]
fn a_pod_is_as_it_was_last_told() {
    let pods = PodManager::new();
    pods.set(pod("a", "web", &[]));
    pods.set(pod("a", "web", &[("x", "y")]));
    let told = pods.pod(&"a".into()).unwrap();
    assert_eq!(told.metadata.annotations.as_ref().map(|all| all.len()), Some(1));
    assert_eq!(pods.pods().len(), 1);
}
