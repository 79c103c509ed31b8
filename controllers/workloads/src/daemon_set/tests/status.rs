use super::*;

fn status(observed: &Observed) -> Status {
    // Nothing else is to be done in this sync.
    let observed = observed.clone().with(|o| o.done.failed = true).with(|o| {
        (o.done.created, o.done.deleted, o.done.cause) = (true, true, Some(Cause::Placement));
    });
    match &steps(&observed)[..] {
        [Step::WriteStatus(status)] => (**status).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_status_counts_nodes_by_their_oldest_pod() {
    let observed = set(
        &["available", "ready", "unready", "old", "none", "ending", "two"],
        vec![
            pod("a", "available"),
            Pod { ready: Some(Some(ago(5))), ..pod("b", "ready") },
            unready(pod("c", "unready")),
            old("d", "old"),
            deleting(pod("e", "ending")),
            deleting(failed(pod("f", "none"))),
            unready(old("g", "two")),
            pod("h", "two"),
            pod("i", "tainted"),
            deleting(pod("j", "unfit")),
            pod("k", "gone"),
        ],
    )
    .node("tainted", Verdict::Keep)
    .node("unfit", Verdict::Unfit)
    .with(|o| o.set.min_ready = Duration::from_secs(30));
    let expected = Status {
        current_number_scheduled: 6,
        number_misscheduled: 2,
        desired_number_scheduled: 7,
        number_ready: 4,
        observed_generation: 3,
        updated_number_scheduled: 4,
        number_available: 3,
        number_unavailable: 4,
        collision_count: None,
    };
    assert_eq!(status(&observed), expected);
}

#[test]
fn a_pod_is_updated_by_its_revision_or_by_the_number_of_its_template() {
    let cases = [
        ("the revision", NEW, "", None, 1),
        ("another revision", OLD, "", None, 0),
        ("no label", "", "", None, 0),
        ("the number", OLD, "7", Some(7), 1),
        ("another number", OLD, "6", Some(7), 0),
        ("a number that the set lacks", OLD, "7", None, 0),
        ("the revision with another number", NEW, "6", Some(7), 1),
    ];
    for (what, hash, generation, of_set, updated) in cases {
        let labelled = Pod { hash: hash.into(), generation: generation.into(), ..pod("a", "n") };
        let observed = set(&["n"], vec![labelled]).with(|o| o.set.template_generation = of_set);
        assert_eq!(status(&observed).updated_number_scheduled, updated, "{what}");
    }
}

#[test]
fn a_settled_set_is_looked_at_again_when_the_next_pod_becomes_available() {
    let ready = |name: &str, seconds| Pod { ready: Some(Some(ago(seconds))), ..pod(name, name) };
    let mut observed = set(&["a", "b", "c"], vec![ready("a", 5), ready("b", 20), ready("c", 40)])
        .with(|o| o.set.min_ready = Duration::from_secs(30));
    observed.set.status = status(&observed);
    assert_eq!(plan(&observed, now()), Plan::Done { requeue_after: Some(Duration::from_secs(10)) });
    observed.pods.iter_mut().for_each(|pod| pod.ready = Some(None));
    observed.set.status = status(&observed);
    assert_eq!(observed.set.status.number_available, 0);
    assert_eq!(plan(&observed, now()), Plan::Done { requeue_after: Some(Duration::from_secs(30)) });
    observed.set.min_ready = Duration::ZERO;
    observed.set.status = status(&observed);
    assert_eq!(plan(&observed, now()), Plan::done());
}

#[test]
fn a_status_keeps_the_collision_count_and_never_describes_an_older_generation() {
    let observed = set(&["n"], vec![pod("a", "n")]).with(|o| {
        o.set.status = Status { collision_count: Some(2), observed_generation: 9, ..Status::default() };
    });
    let status = status(&observed);
    assert_eq!((status.collision_count, status.observed_generation), (Some(2), 9));
}
