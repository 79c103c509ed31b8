use std::time::Duration;

use futures::FutureExt;

use super::testing::{pod, with_sandbox};
use super::*;
use crate::container::{ContainerState, SandboxStatus};
use crate::kuberuntime::actions::testing::sandbox;

const RUNNING: ContainerState = ContainerState::Running;
const EXITED: ContainerState = ContainerState::Exited;
const UNKNOWN: ContainerState = ContainerState::Unknown;

/// A core with a clock of its own, whose inspections are done at once, well or not.
struct Harness {
    core: Generic,
    now: Instant,
    /// Pods whose inspection fails.
    failing: HashSet<Uid>,
    /// The pods inspected at the last list.
    inspected: Vec<String>,
    /// What inspections find beside the pod's uid.
    finds: PodStatus,
}

impl Harness {
    fn new() -> Self {
        Self {
            core: Generic::new(StatusCache::new()),
            now: Instant::now(),
            failing: HashSet::new(),
            inspected: Vec::new(),
            finds: PodStatus::default(),
        }
    }

    /// Lists a second later; the events as `pod Kind container`, sorted.
    fn list(&mut self, pods: Vec<RuntimePod>) -> Vec<String> {
        self.now += Duration::from_secs(1);
        let listed = self.core.listed(pods, self.now);
        self.finish(listed)
    }

    fn finish(&mut self, listed: Listed) -> Vec<String> {
        self.inspected = listed.inspections.iter().map(|inspection| inspection.pod.uid.to_string()).collect();
        let mut events = listed.events;
        for inspection in listed.inspections {
            let uid = inspection.pod.uid.clone();
            let result = if self.failing.contains(&uid) {
                Err(Arc::new(std::io::Error::other("no answer")) as RuntimeError)
            } else {
                Ok(PodStatus { uid, ..self.finds.clone() })
            };
            events.extend(self.core.inspected(inspection, result));
        }
        told(events)
    }

    fn status(&self, uid: &str) -> super::super::cache::Status {
        self.core.reader().get(&Uid::from(uid))
    }

    fn is_newer(&self, uid: &str, than: Instant) -> bool {
        self.core.reader().get_newer_than(&Uid::from(uid), than).now_or_never().is_some()
    }
}

fn told(events: Vec<PodLifecycleEvent>) -> Vec<String> {
    let tell = |event: PodLifecycleEvent| {
        let (pod, kind) = (event.pod, event.kind.as_str());
        match event.kind {
            EventKind::ContainerStarted(ref id)
            | EventKind::ContainerDied(ref id)
            | EventKind::ContainerRemoved(ref id)
            | EventKind::ContainerChanged(ref id) => format!("{pod} {kind} {id}"),
            EventKind::PodSync => format!("{pod} {kind}"),
        }
    };
    let mut told: Vec<String> = events.into_iter().map(tell).collect();
    told.sort();
    told
}

#[tokio::test(start_paused = true)]
async fn what_changed_between_lists_is_told_once() {
    let mut pleg = Harness::new();
    let first =
        || vec![pod("a", &[("a1", EXITED), ("a2", RUNNING), ("a3", UNKNOWN)]), pod("b", &[("b1", EXITED)])];
    assert_eq!(pleg.list(first()), ["a ContainerDied a1", "a ContainerStarted a2", "b ContainerDied b1"]);
    assert!(pleg.list(first()).is_empty());
    assert!(pleg.inspected.is_empty(), "what did not change is not inspected");
    let second = vec![pod("a", &[("a2", EXITED), ("a3", RUNNING)]), pod("b", &[("b4", RUNNING)])];
    assert_eq!(
        pleg.list(second),
        [
            "a ContainerDied a2",
            "a ContainerRemoved a1",
            "a ContainerStarted a3",
            "b ContainerRemoved b1",
            "b ContainerStarted b4"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn sandboxes_are_told_of_as_containers_are() {
    let mut pleg = Harness::new();
    let (ready, dead) = (SandboxState::Ready, SandboxState::NotReady);
    let both = with_sandbox(with_sandbox(pod("a", &[("a1", RUNNING)]), "s1", dead), "s2", ready);
    assert_eq!(
        pleg.list(vec![both]),
        ["a ContainerDied s1", "a ContainerStarted a1", "a ContainerStarted s2"]
    );
    let later = with_sandbox(pod("a", &[("a1", RUNNING)]), "s2", dead);
    assert_eq!(pleg.list(vec![later]), ["a ContainerDied s2", "a ContainerRemoved s1"]);
}

#[tokio::test(start_paused = true)]
async fn the_death_of_what_vanished_is_told_before_its_removal() {
    for lists in [1, 3] {
        let mut pleg = Harness::new();
        for _ in 0..lists {
            pleg.list(vec![pod("a", &[("a1", RUNNING), ("a2", RUNNING), ("a3", EXITED)])]);
        }
        let events = pleg.list(vec![pod("a", &[("a1", RUNNING)])]);
        assert_eq!(events, ["a ContainerDied a2", "a ContainerRemoved a2", "a ContainerRemoved a3"]);
        assert_eq!(pleg.list(vec![]), ["a ContainerDied a1", "a ContainerRemoved a1"]);
        assert!(pleg.list(vec![]).is_empty());
        assert!(pleg.core.records.is_empty());
        assert_eq!(*pleg.status("a").unwrap(), PodStatus::unknown_to_runtime(Uid::from("a")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_tells_nothing_sure_is_inspected_and_not_told() {
    let mut pleg = Harness::new();
    assert!(pleg.list(vec![pod("a", &[("a1", ContainerState::Created)])]).is_empty());
    assert_eq!(pleg.inspected, ["a"]);
    assert!(pleg.list(vec![pod("a", &[("a1", UNKNOWN)])]).is_empty());
    assert!(pleg.inspected.is_empty());
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_inspection_only_that_pod_is_inspected_again() {
    let mut pleg = Harness::new();
    let pods = || vec![pod("a", &[("a1", RUNNING)]), pod("b", &[("b1", RUNNING)])];
    pleg.failing.insert(Uid::from("b"));
    assert_eq!(pleg.list(pods()), ["a ContainerStarted a1"]);
    assert!(pleg.status("a").is_ok() && pleg.status("b").is_err());
    assert!(pleg.list(pods()).is_empty());
    assert_eq!(pleg.inspected, ["b"]);
    pleg.failing.clear();
    assert_eq!(pleg.list(pods()), ["b ContainerStarted b1"]);
    assert_eq!(pleg.inspected, ["b"]);
    assert!(pleg.status("b").is_ok());
    assert!(pleg.list(pods()).is_empty());
    assert!(pleg.inspected.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_inspected_on_request_and_then_synced() {
    for (fails, gone, events, inspected, asked_again) in [
        (false, false, &["a PodSync"][..], &["a"][..], false),
        (true, false, &[], &["a"], true),
        (false, true, &["a ContainerDied a1", "a ContainerRemoved a1"], &[], false),
    ] {
        let mut pleg = Harness::new();
        let listed = || vec![pod("a", &[("a1", RUNNING)])];
        pleg.list(listed());
        pleg.core.reinspect(Uid::from("a"));
        if fails {
            pleg.failing.insert(Uid::from("a"));
        }
        assert_eq!(pleg.list(if gone { vec![] } else { listed() }), events);
        assert_eq!(pleg.inspected, inspected);
        assert_eq!(!pleg.core.reinspect.is_empty(), asked_again);
    }
    let mut pleg = Harness::new();
    pleg.core.reinspect(Uid::from("nobody"));
    assert!(pleg.list(vec![]).is_empty());
    assert!(pleg.core.reinspect.is_empty(), "who is not there is forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_pod_under_inspection_delays_no_other_and_no_list_looks_at_it() {
    let mut pleg = Harness::new();
    let start = pleg.now;
    pleg.list(vec![pod("a", &[("a1", RUNNING)]), pod("b", &[("b1", RUNNING)])]);
    let changed = || vec![pod("a", &[("a1", EXITED)]), pod("b", &[("b1", EXITED)])];
    pleg.now += Duration::from_secs(1);
    let mut listed = pleg.core.listed(changed(), pleg.now);
    let hung = listed.inspections.remove(0);
    assert_eq!(pleg.finish(listed), ["b ContainerDied b1"]);
    let asked = start + Duration::from_millis(1500);
    assert!(pleg.is_newer("b", asked) && pleg.is_newer("new", asked));
    assert!(!pleg.is_newer("a", asked), "its change is known, its status is not");

    // Meanwhile it goes altogether, and others change.
    assert_eq!(pleg.list(vec![pod("b", &[("b1", EXITED), ("b2", RUNNING)])]), ["b ContainerStarted b2"]);
    assert_eq!(pleg.inspected, ["b"]);
    assert!(!pleg.is_newer("a", asked));

    let uid = Uid::from("a");
    assert_eq!(
        told(pleg.core.inspected(hung, Ok(PodStatus::unknown_to_runtime(uid)))),
        ["a ContainerDied a1"]
    );
    assert!(pleg.is_newer("a", asked));
    assert_eq!(pleg.list(vec![pod("b", &[("b1", EXITED), ("b2", RUNNING)])]), ["a ContainerRemoved a1"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_one_pod_makes_only_that_one_newer() {
    let mut pleg = Harness::new();
    pleg.list(vec![pod("a", &[("a1", RUNNING)]), pod("b", &[("b1", RUNNING)])]);
    let asked = pleg.now;
    pleg.now += Duration::from_millis(100);
    let (a, b) = (Uid::from("a"), Uid::from("b"));
    let listed = pleg.core.listed_one(&a, Some(pod("a", &[("a1", RUNNING)])), pleg.now);
    assert!(pleg.finish(listed).is_empty());
    assert!(pleg.is_newer("a", asked) && !pleg.is_newer("b", asked));
    let listed = pleg.core.listed_one(&a, Some(pod("a", &[("a1", EXITED)])), pleg.now);
    assert_eq!(pleg.finish(listed), ["a ContainerDied a1"]);
    let listed = pleg.core.listed_one(&b, None, pleg.now);
    assert_eq!(pleg.finish(listed), ["b ContainerDied b1", "b ContainerRemoved b1"]);
}

#[tokio::test(start_paused = true)]
async fn an_older_list_does_not_undo_a_newer_one() {
    let mut pleg = Harness::new();
    pleg.list(vec![pod("a", &[("a1", RUNNING)])]);
    let older = pleg.now + Duration::from_millis(100);
    let newer = pleg.now + Duration::from_millis(200);
    let listed = pleg.core.listed_one(&Uid::from("a"), Some(pod("a", &[("a1", EXITED)])), newer);
    assert_eq!(pleg.finish(listed), ["a ContainerDied a1"]);
    for late in [vec![pod("a", &[("a1", RUNNING)])], vec![]] {
        let listed = pleg.core.listed(late, older);
        assert!(pleg.finish(listed).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_outlive_the_sandbox() {
    let of = |state, ips: &[&str]| PodStatus {
        sandboxes: vec![SandboxStatus { state, ..sandbox("s", 0) }],
        ips: ips.iter().map(|ip| (*ip).to_owned()).collect(),
        ..PodStatus::default()
    };
    let (ready, dead) = (SandboxState::Ready, SandboxState::NotReady);
    for (finds, ips) in [
        (of(dead, &[]), &["10.0.0.1"][..]),
        (of(ready, &[]), &[]),
        (of(ready, &["10.0.0.2"]), &["10.0.0.2"]),
        (PodStatus::default(), &["10.0.0.1"]),
    ] {
        let mut pleg = Harness::new();
        pleg.finds = of(ready, &["10.0.0.1"]);
        pleg.list(vec![pod("a", &[("a1", RUNNING)])]);
        pleg.finds = finds;
        pleg.list(vec![pod("a", &[("a1", EXITED)])]);
        assert_eq!(pleg.status("a").unwrap().ips, ips);
    }
}
