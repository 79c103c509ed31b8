//! All pods together, without tasks: who is told what, and what is forgotten.

use super::*;
use crate::pod_workers::states::{Begin, NewWorker, Table};
use crate::pod_workers::status::Work;

fn begin(table: &mut Table, worker: &NewWorker) -> Option<&'static str> {
    match table.begin(&worker.pod, worker.number) {
        Begin::Job(job, _) => Some(match job.work {
            Work::Sync { .. } => "sync",
            Work::Terminate(..) => "terminate",
            Work::TerminateRuntime(_) => "terminate-runtime",
            Work::CleanUp(_) => "clean-up",
        }),
        Begin::Idle => Some("idle"),
        Begin::NotYet => Some("not yet"),
        Begin::Over | Begin::NeverStarted(_) => None,
    }
}

fn desired(pods: &[Pod]) -> Vec<Arc<Pod>> {
    pods.iter().cloned().map(Arc::new).collect()
}

#[test]
fn a_pod_has_one_worker_until_it_is_finished() {
    let mut table = Table::default();
    let worker = table.update(create(pod("a")), false).unwrap();
    assert!(table.update(update(pod("a")), false).is_none());
    assert_eq!(begin(&mut table, &worker), Some("sync"));
    assert_eq!(begin(&mut table, &worker), Some("idle"));
    table.update(kill(pod("a")), false);
    assert_eq!(begin(&mut table, &worker), Some("terminate"));
    table.complete_terminating(&worker.pod, worker.number);
    assert_eq!(begin(&mut table, &worker), Some("clean-up"));
    table.complete_terminated(&worker.pod, worker.number);
    assert_eq!(begin(&mut table, &worker), None);
    assert!(table.update(update(pod("a")), false).is_none(), "it is not started again");
}

#[test]
fn a_pod_that_is_wanted_again_has_a_new_worker_once_the_old_one_is_forgotten() {
    let mut table = Table::default();
    let old = table.update(create(pod("a")), false).unwrap();
    begin(&mut table, &old);
    table.update(kill(pod("a")), false);
    table.update(create(pod("a")), false);
    assert_eq!(begin(&mut table, &old), Some("terminate"));
    let known = table.sync_known_pods(&desired(&[pod("a")]));
    assert_eq!(known.len(), 1, "it still ends");
    table.complete_terminating(&old.pod, old.number);
    begin(&mut table, &old);
    table.complete_terminated(&old.pod, old.number);
    assert!(table.sync_known_pods(&desired(&[pod("a")])).is_empty(), "to be told of again");
    let new = table.update(create(pod("a")), false).unwrap();
    assert_eq!(begin(&mut table, &old), None, "the old worker does not take the new one's work");
    assert_eq!(begin(&mut table, &new), Some("sync"));
    table.complete_terminated(&old.pod, old.number);
    assert_eq!(begin(&mut table, &new), Some("idle"), "nor ends it");
}

#[test]
fn a_finished_pod_is_remembered_while_a_source_has_it() {
    let mut table = Table::default();
    let worker = table.update(create(in_phase(pod("a"), "Failed")), true).unwrap();
    assert_eq!(begin(&mut table, &worker), Some("clean-up"));
    table.complete_terminated(&worker.pod, worker.number);
    let known = table.sync_known_pods(&desired(&[pod("a")]));
    let expected = Known { lifecycle: Lifecycle::Terminated, orphan: false, config: KnownConfig::Regular };
    assert_eq!(known, HashMap::from([("a".into(), expected)]));
    assert!(table.sync_known_pods(&[]).is_empty());
}

#[test]
fn pods_that_no_source_has_are_brought_to_their_end() {
    let mut table = Table::default();
    let started = table.update(create(pod("started")), false).unwrap();
    begin(&mut table, &started);
    let waiting = table.update(create(pod("waiting")), false).unwrap();
    let known = table.sync_known_pods(&[]);
    let expected = Known { lifecycle: Lifecycle::Terminating, orphan: true, config: KnownConfig::Regular };
    assert_eq!(known, HashMap::from([("started".into(), expected)]));
    assert_eq!(begin(&mut table, &started), Some("terminate"));
    assert_eq!(begin(&mut table, &waiting), None, "it never started");
    // It failed: every housekeeping has it tried again.
    assert_eq!(begin(&mut table, &started), Some("idle"));
    table.sync_known_pods(&[]);
    assert_eq!(begin(&mut table, &started), Some("terminate"));
}

#[test]
fn a_pod_of_the_runtime_alone_is_forgotten_at_its_end() {
    let mut table = Table::default();
    let worker = table.update(Update::kill_runtime_pod(runtime_pod("a")), false).unwrap();
    assert_eq!(begin(&mut table, &worker), Some("terminate-runtime"));
    let expected = Known { lifecycle: Lifecycle::Terminating, orphan: true, config: KnownConfig::None };
    assert_eq!(table.sync_known_pods(&[]), HashMap::from([("a".into(), expected)]));
    table.complete_terminating_runtime(&worker.pod, worker.number);
    assert!(table.sync_known_pods(&[]).is_empty());
}

#[test]
fn an_update_that_is_ignored_leaves_no_trace() {
    let mut table = Table::default();
    let sync = Update { kind: UpdateKind::Sync, ..Update::kill_runtime_pod(runtime_pod("a")) };
    assert!(table.update(sync, false).is_none());
    assert!(table.sync_known_pods(&[]).is_empty());
}

/// What [`States`] answers to each question about a pod.
#[derive(Debug, PartialEq)]
struct Answers {
    known_terminated: bool,
    may_run: bool,
    finished: bool,
    requested: bool,
    containers_terminating: bool,
    runtime_removable: bool,
    content_removable: bool,
}

fn answers(states: &States, uid: &str) -> Answers {
    let uid = uid.into();
    Answers {
        known_terminated: states.is_pod_known_terminated(&uid),
        may_run: states.could_have_running_containers(&uid),
        finished: states.should_pod_be_finished(&uid),
        requested: states.is_pod_termination_requested(&uid),
        containers_terminating: states.should_pod_containers_be_terminating(&uid),
        runtime_removable: states.should_pod_runtime_be_removed(&uid),
        content_removable: states.should_pod_content_be_removed(&uid),
    }
}

fn expect(bits: [u8; 7]) -> Answers {
    let [known_terminated, may_run, finished, requested, containers_terminating, runtime, content] =
        bits.map(|bit| bit == 1);
    Answers {
        known_terminated,
        may_run,
        finished,
        requested,
        containers_terminating,
        runtime_removable: runtime,
        content_removable: content,
    }
}

#[test]
fn what_is_answered_in_each_state() {
    let states = States::new();
    assert_eq!(answers(&states, "unknown"), expect([0, 1, 0, 0, 0, 0, 0]), "not all are known yet");
    let worker = states.table().update(create(pod("a")), false).unwrap();
    assert_eq!(answers(&states, "a"), expect([0, 1, 0, 0, 0, 0, 0]));
    begin(&mut states.table(), &worker);
    states.table().update(update(deleted(pod("a"), 5)), false);
    assert_eq!(answers(&states, "a"), expect([0, 1, 0, 1, 0, 0, 0]), "its worker has not seen it");
    begin(&mut states.table(), &worker);
    assert_eq!(answers(&states, "a"), expect([0, 1, 0, 1, 1, 0, 0]));
    states.table().complete_terminating(&worker.pod, worker.number);
    assert_eq!(answers(&states, "a"), expect([1, 0, 0, 1, 1, 1, 1]));
    begin(&mut states.table(), &worker);
    states.table().complete_terminated(&worker.pod, worker.number);
    assert_eq!(answers(&states, "a"), expect([1, 0, 1, 1, 1, 1, 1]));
    states.table().sync_known_pods(&[]);
    for gone in ["a", "unknown"] {
        assert_eq!(answers(&states, gone), expect([0, 0, 1, 0, 1, 1, 1]));
    }
}

#[test]
fn what_a_pod_has_stays_until_it_is_deleted_unless_it_is_evicted() {
    let states = States::new();
    let evicted = Update { kill: Some(Kill { evict: true, ..Kill::default() }), ..kill(pod("evicted")) };
    for (update, before, after) in [
        (kill(pod("killed")), false, false),
        (evicted, true, true),
        (create(deleted(pod("deleted"), 1)), false, true),
    ] {
        let worker = states.table().update(update, false).unwrap();
        assert_eq!(begin(&mut states.table(), &worker), Some("terminate"));
        assert_eq!(states.should_pod_content_be_removed(&worker.pod), before, "{}", worker.pod);
        states.table().complete_terminating(&worker.pod, worker.number);
        assert_eq!(states.should_pod_content_be_removed(&worker.pod), after, "{}", worker.pod);
    }
}
