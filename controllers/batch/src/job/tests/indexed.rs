//! Jobs whose pods have indexes.

use super::super::controller::draft;
use super::*;
use steersman_controller::pod_template::PodName;

fn indexed(completions: usize) -> Observed {
    job().parallel(2).completions(Completions::Indexes(completions))
}

#[test]
fn the_first_indexes_that_have_no_pod_and_no_success_get_one() {
    let observed = indexed(9)
        .parallel(4)
        .status(|status| (status.succeeded, status.completed_indexes) = (2, "0,3".into()))
        .with([pod("a").index(1)]);
    assert_eq!(told(observed), ["create 2 4 5", "write active=4"]);
}

#[test]
fn a_success_is_entered_by_its_index_and_needs_no_uid() {
    let observed = indexed(4)
        .status(|status| (status.succeeded, status.completed_indexes) = (1, "0".into()))
        .with([pod("b").index(2).succeeded(), pod("a").index(1).succeeded(), pod("c").index(3)])
        .parallel(1)
        .settled();
    assert_eq!(told(observed), ["write completedIndexes=0-2 succeeded=3", "release a b"]);
}

#[test]
fn an_index_counts_once_however_many_of_its_pods_succeed() {
    let observed =
        indexed(4).parallel(0).with([pod("a").index(1).succeeded(), pod("b").index(1).succeeded()]);
    assert_eq!(told(observed), ["write completedIndexes=1 succeeded=1", "release a b"]);
    let again = indexed(4)
        .parallel(0)
        .status(|status| (status.succeeded, status.completed_indexes) = (1, "1".into()))
        .with([pod("c").index(1).succeeded()]);
    assert_eq!(told(again), ["release c"]);
}

#[test]
fn pods_without_a_place_go_and_count_for_nothing() {
    let observed = indexed(2).with([
        pod("none"),
        pod("beyond").index(2),
        pod("a").index(0),
        pod("b").index(1),
        pod("twin").index(1).phase(Phase::Pending),
        pod("failed").index(7).failed(),
    ]);
    assert_eq!(
        told(observed),
        ["discard twin beyond none", "write active=2 terminating=3", "release failed"]
    );
}

#[test]
fn a_job_that_was_scaled_down_forgets_what_lies_beyond() {
    let observed =
        indexed(2).status(|status| (status.succeeded, status.completed_indexes) = (3, "0,2-3".into()));
    assert_eq!(told(observed), ["create 1", "write active=1 completedIndexes=0 succeeded=1"]);
}

#[test]
fn an_indexed_job_is_complete_when_every_index_is() {
    let observed = indexed(3)
        .status(|status| (status.succeeded, status.completed_indexes) = (2, "0,2".into()))
        .with([pod("a").index(1).succeeded()]);
    let lines = told(observed);
    assert_eq!(
        lines[..2],
        ["write completedIndexes=0-2 SuccessCriteriaMet=True(CompletionsReached) succeeded=3", "release a"]
    );
    assert!(lines[2].contains("Complete=True"), "{lines:?}");
}

#[test]
fn a_pod_knows_its_index_by_annotation_label_variable_and_host_name() {
    let meta = job().job.meta;
    let key = "batch.kubernetes.io/job-completion-index";
    let pod = draft(&meta, Some(7), None);
    assert_eq!(pod.labels, [(key.into(), "7".into())]);
    assert_eq!(pod.annotations, pod.labels);
    assert_eq!(pod.hostname.as_deref(), Some("pi-7"));
    assert_eq!(pod.name, PodName::Generated("pi-7-".into()));
    assert_eq!(pod.variables[0].name, "JOB_COMPLETION_INDEX");
    assert_eq!(pod.variables[0].field_path, format!("metadata.labels['{key}']"));
    assert_eq!(pod.finalizers, ["batch.kubernetes.io/job-tracking"]);
    let plain = draft(&meta, None, None);
    assert_eq!(plain.name, PodName::Generated("pi-".into()));
    assert!(plain.labels.is_empty() && plain.variables.is_empty() && plain.hostname.is_none());
}
