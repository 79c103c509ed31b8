//! How finished pods are counted.

use super::*;

fn uncounted(succeeded: &[&str], failed: &[&str]) -> Option<Uncounted> {
    let uids = |names: &[&str]| names.iter().map(|name| Uid::from(*name)).collect();
    Some(Uncounted { succeeded: uids(succeeded), failed: uids(failed) })
}

/// A job with plenty left to do.
fn long() -> Observed {
    job().parallel(1).completions(Completions::Count(100))
}

#[test]
fn a_finished_pod_is_entered_then_released_then_counted() {
    let observed =
        long().with([pod("a").succeeded(), pod("b").failed(), pod("c").deleting(), pod("d")]).settled();
    assert_eq!(
        told(observed),
        [
            "write failed:[b c] succeeded:[a]",
            "release a b c",
            // Pod d is active: the next sync counts the others, together with what has finished by then.
            "again after 1s",
        ]
    );
    let next = long()
        .status(|status| status.uncounted = uncounted(&["a"], &["b", "c"]))
        .with([pod("a").succeeded().untracked(), pod("d").succeeded(), pod("e")])
        .settled();
    assert_eq!(
        told(next),
        ["write failed=2 succeeded=1 failed:[] succeeded:[d]", "release d", "again after 1s"]
    );
}

#[test]
fn whatever_a_process_has_left_undone_the_next_one_goes_on_with() {
    let d = || pod("d");
    for (name, status, pods, expected) in [
        (
            "it has entered the pod",
            uncounted(&["a"], &[]),
            vec![pod("a").succeeded(), d()],
            &["release a", "write succeeded=1 succeeded:[]"][..],
        ),
        (
            "it has released the pod",
            uncounted(&["a"], &[]),
            vec![pod("a").succeeded().untracked(), d()],
            &["write succeeded=1 succeeded:[]"],
        ),
        ("the pod is gone since", uncounted(&[], &["a"]), vec![d()], &["write failed=1 failed:[]"]),
        ("it has counted the pod", uncounted(&[], &[]), vec![pod("a").succeeded().untracked(), d()], &[]),
    ] {
        let observed = long().status(|s| s.uncounted = status).with(pods).settled();
        assert_eq!(told(observed), expected, "{name}");
    }
}

#[test]
fn a_pod_that_was_entered_as_failed_stays_failed_though_it_succeeds_in_the_end() {
    let observed = long()
        .status(|status| status.uncounted = uncounted(&[], &["a"]))
        .with([pod("a").deleting().succeeded(), pod("d")])
        .settled();
    assert_eq!(told(observed), ["release a", "write failed=1 failed:[]"]);
}

#[test]
fn a_pod_whose_finalizer_could_not_be_taken_off_stays_entered() {
    let mut observed = long().with([pod("a").succeeded(), pod("b").succeeded(), pod("d")]).settled();
    let mut lines = Vec::new();
    while let Plan::Act(batch) = plan(&observed, now()) {
        lines.push(describe(&batch.steps));
        for step in batch.steps {
            let fails = matches!(&step, Step::Release(pod) if pod.name == "b");
            let error = steersman_controller::controller::SyncError::Failed("no".to_owned());
            let result = if fails {
                StepResult::Failed(error)
            } else {
                StepResult::Done(success(&step, &observed, 0))
            };
            observed.absorb(step, result);
        }
    }
    assert_eq!(lines, ["write succeeded:[a b]", "release a b"], "the key's back-off says when to try again");
    let next = Observed { done: Done::default(), rest: None, ..observed };
    assert_eq!(told(next), ["write succeeded=1 succeeded:[b]", "release b", "again after 1s"]);
}

#[test]
fn no_more_than_five_hundred_finished_pods_are_in_the_status_at_once() {
    let pods = (0..700).map(|at| pod(&format!("p{at:04}")).succeeded());
    let observed = job().parallel(0).completions(Completions::Count(1_000)).with(pods);
    assert_eq!(
        told(observed),
        [
            "write succeeded:[500 of them]",
            "release 500 of them",
            "write succeeded=500 succeeded:[]",
            "again after 1s",
        ]
    );
}

#[test]
fn the_backoff_moves_with_the_write_that_enters_the_pods() {
    let mut observed = long().with([pod("a").failed().finished_at(second(995)), pod("d")]).settled();
    let before = observed.backoff;
    let Plan::Act(batch) = plan(&observed, now()) else { panic!("nothing is planned") };
    let step = batch.steps.into_iter().next().unwrap();
    observed.absorb(step.clone(), StepResult::Skipped);
    assert_eq!(observed.backoff, before);
    observed.absorb(step, StepResult::Done(Outcome::Written(ResourceVersion(2))));
    assert_eq!(observed.backoff, before.after(&[], &[second(995)]));
    story(&mut observed);
    assert_eq!(observed.backoff, before.after(&[], &[second(995)]), "counted once");
}

#[test]
fn the_backoff_is_recalled_from_pods_that_are_counted() {
    let status = Status { uncounted: uncounted(&[], &["b"]), ..Status::default() };
    let pods = [
        pod("success").succeeded().untracked().finished_at(second(10)),
        pod("before").failed().untracked().finished_at(second(5)),
        pod("a").failed().untracked().finished_at(second(20)),
        pod("b").failed().finished_at(second(30)),
        pod("not entered").failed().finished_at(second(40)),
    ];
    let expected = Backoff::default().after(&[], &[second(20), second(30)]);
    assert_eq!(Backoff::recall(&status, &pods), expected);
}
