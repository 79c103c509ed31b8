use std::time::Duration;

use steersman_api::{Meta, OwnerReference, ResourceVersion};
use steersman_controller::client::Propagation::{Background, Foreground, Orphan};
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;

use super::super::graph::Dependents;
use super::super::kinds::Completeness;
use super::super::owners::Standing;
use super::super::owners::Standing::{Dangling, Invalid, Solid, Unknown, Unmapped, Waiting};
use super::super::testing::{Change, SET, blocking, conflict, meta, to};
use super::super::writes::Wrote;
use super::super::{FOREGROUND, ORPHAN};
use super::object::{LISTING, Object, Outcome, Progress, Step, plan};
use super::owner::{self, Owner, Source, UNSEEN, UNWATCHED};

const SOON: Duration = Duration::from_secs(10);

/// An object with an owner for each standing: `o0`, `o1` and so on.
fn owned(standings: &[Standing]) -> Object {
    let owners: Vec<_> = (0..standings.len()).map(|at| to(SET, &format!("o{at}"))).collect();
    Object {
        meta: meta("p").owned(&owners),
        standings: standings.into(),
        dependents: Dependents::None,
        is_blocked: false,
        completeness: Completeness::Complete,
        progress: Progress::Begun,
        met_conflict: false,
    }
}

fn delete(propagation: steersman_controller::client::Propagation) -> Plan<Step> {
    Plan::step(Step::Delete(propagation, Some(ResourceVersion(1))))
}

fn release(owners: &[&str]) -> Plan<Step> {
    Plan::step(Step::Release(owners.iter().map(|uid| (*uid).into()).collect()))
}

fn later(wait: Duration) -> Plan<Step> {
    Plan::Done { requeue_after: Some(wait) }
}

#[test]
fn the_standings_of_its_owners_decide_about_an_object() {
    for (standings, expected) in [
        (&[][..], Plan::done()),
        (&[Solid], Plan::done()),
        (&[Solid, Solid], Plan::done()),
        (&[Dangling], delete(Background)),
        (&[Dangling, Dangling], delete(Background)),
        (&[Waiting], delete(Background)),
        (&[Waiting, Dangling], delete(Background)),
        (&[Solid, Dangling], release(&["o1"])),
        (&[Waiting, Solid], release(&["o0"])),
        (&[Dangling, Solid, Waiting], release(&["o0", "o2"])),
        (&[Invalid], Plan::done()),
        (&[Dangling, Invalid], Plan::done()),
        (&[Dangling, Unmapped(SOON)], later(SOON)),
        (&[Unknown, Unmapped(2 * SOON), Unmapped(SOON)], later(SOON)),
        (&[Unknown, Invalid], Plan::done()),
    ] {
        assert_eq!(plan(&owned(standings)), expected, "{standings:?}");
    }
}

#[test]
fn an_object_without_a_numeric_version_is_read_before_it_is_deleted() {
    // Some aggregated API servers have opaque versions, which can't be preconditions.
    let unversioned = |meta: Meta| Meta { resource_version: ResourceVersion::ANY, ..meta };
    for (newest, expected) in
        [(&["o0"][..], Plan::step(Step::Delete(Background, None))), (&["o0", "living"], release(&["o0"]))]
    {
        let mut object = owned(&[Dangling]);
        object.meta = unversioned(object.meta);
        assert_eq!(plan(&object), Plan::step(Step::Read));
        let owners: Vec<_> = newest.iter().map(|uid| to(SET, uid)).collect();
        let read = Outcome::Read(Some(Box::new(unversioned(meta("p").owned(&owners)))));
        let known = |one: &OwnerReference| if one.uid == "living".into() { Solid } else { Dangling };
        object.absorb(&Step::Read, StepResult::Done(read), known);
        assert_eq!(plan(&object), expected, "{newest:?}");
    }
    let mut kept = owned(&[Solid]);
    kept.meta = unversioned(kept.meta);
    assert_eq!(plan(&kept), Plan::done());
}

#[test]
fn owners_that_are_not_known_are_looked_up_first() {
    let mut object = owned(&[Unknown, Solid, Unknown]);
    let Plan::Act(batch) = plan(&object) else { panic!("the owners must be looked up") };
    assert_eq!(batch.steps, [Step::Look(0), Step::Look(2)]);
    let known = |_: &OwnerReference| Unknown;
    object.absorb(&Step::Look(0), StepResult::Done(Outcome::Standing(Dangling)), known);
    object.absorb(&Step::Look(2), StepResult::Done(Outcome::Standing(Solid)), known);
    assert_eq!(plan(&object), release(&["o0"]));
    object.absorb(&Step::Release(Vec::new()), StepResult::Done(Outcome::Wrote(Wrote::Done)), known);
    assert_eq!(plan(&object), Plan::done());
}

#[test]
fn the_objects_own_finalizers_say_what_becomes_of_its_dependents() {
    for (finalizers, expected) in [
        (&["example.com/held"][..], Background),
        (&[ORPHAN], Orphan),
        (&[FOREGROUND], Foreground),
        (&[FOREGROUND, ORPHAN], Orphan),
    ] {
        let mut object = owned(&[Dangling]);
        object.meta = object.meta.held_by(finalizers);
        assert_eq!(plan(&object), delete(expected), "{finalizers:?}");
    }
}

#[test]
fn an_object_with_dependents_is_deleted_in_the_foreground_if_its_owner_waits() {
    let with = |standings: &[Standing], dependents| Object { dependents, ..owned(standings) };
    assert_eq!(plan(&with(&[Waiting], Dependents::Some)), delete(Foreground));
    assert_eq!(plan(&with(&[Waiting, Dangling], Dependents::Some)), delete(Foreground));
    assert_eq!(plan(&with(&[Dangling], Dependents::Some)), delete(Background));
    assert_eq!(plan(&with(&[Solid], Dependents::Some)), Plan::done());
}

#[test]
fn an_object_in_a_circle_is_unblocked_before_it_is_deleted() {
    let mut object = Object { dependents: Dependents::Waiting, ..owned(&[Waiting]) };
    assert_eq!(plan(&object), delete(Foreground), "its reference blocks nothing");
    object.meta = object.meta.owned(&[blocking(SET, "o0")]);
    assert_eq!(plan(&object), Plan::step(Step::Unblock));
    let unblocked = Meta { resource_version: ResourceVersion(2), ..meta("p").owned(&[to(SET, "o0")]) };
    let changed = Outcome::Changed(Box::new(unblocked));
    object.absorb(&Step::Unblock, StepResult::Done(changed), |_| Unknown);
    assert_eq!(plan(&object), Plan::step(Step::Delete(Foreground, Some(ResourceVersion(2)))));
}

#[test]
fn an_object_that_is_being_deleted_is_left_alone() {
    for finalizers in [&["example.com/held"][..], &[ORPHAN], &[]] {
        let mut object = owned(&[Dangling]);
        object.meta = object.meta.deleted(finalizers);
        assert_eq!(plan(&object), Plan::done(), "{finalizers:?}");
    }
}

#[test]
fn a_foreground_deletion_ends_once_no_dependent_blocks_it() {
    let waiting = |is_blocked, completeness| {
        let mut object = Object { is_blocked, completeness, ..owned(&[Solid]) };
        object.meta = object.meta.deleted(&[FOREGROUND]);
        object
    };
    for (is_blocked, completeness, expected) in [
        (true, Completeness::Complete, Plan::done()),
        (false, Completeness::Complete, Plan::step(Step::Finish)),
        (false, Completeness::ButSick, Plan::step(Step::Finish)),
        (false, Completeness::Listing, later(LISTING)),
    ] {
        assert_eq!(plan(&waiting(is_blocked, completeness)), expected, "{is_blocked} {completeness:?}");
    }
}

#[test]
fn an_object_that_has_changed_since_the_plan_is_read_and_judged_again() {
    let conflict = || StepResult::Done(Outcome::Wrote(conflict()));
    let outdated = || {
        let mut object = owned(&[Dangling]);
        object.absorb(&Step::Delete(Background, None), conflict(), |_| Unknown);
        assert_eq!(plan(&object), Plan::step(Step::Read));
        object
    };
    let newest =
        |owners: &[OwnerReference]| Meta { resource_version: ResourceVersion(9), ..meta("p").owned(owners) };
    for (what, read, expected) in [
        ("gone", None, Plan::done()),
        ("same owners", Some(newest(&[to(SET, "o0")])), Plan::step(Step::Delete(Background, None))),
        ("a new owner", Some(newest(&[to(SET, "o0"), to(SET, "o9")])), release(&["o0"])),
        ("no owner", Some(newest(&[])), Plan::done()),
        ("being deleted", Some(newest(&[to(SET, "o0")]).deleted(&["x"])), Plan::done()),
    ] {
        let mut object = outdated();
        let known = |reference: &OwnerReference| if reference.uid == "o9".into() { Solid } else { Dangling };
        object.absorb(&Step::Read, StepResult::Done(Outcome::Read(read.map(Box::new))), known);
        assert_eq!(plan(&object), expected, "{what}");
    }
    let mut gone = owned(&[Dangling]);
    gone.absorb(&Step::Delete(Background, None), StepResult::Done(Outcome::Wrote(Wrote::Gone)), |_| Unknown);
    assert_eq!(plan(&gone), Plan::done());
}

#[test]
fn an_owner_that_no_cache_shows_is_looked_up_and_its_dependents_queued_if_it_is_absent() {
    use owner::Step::{Look, QueueDependents};
    let later = |wait| Plan::Done { requeue_after: Some(wait) };
    let owner = |standing, source| Owner { standing, source, is_watched: true };
    for (owner, expected) in [
        (owner(Unknown, Source::Known), Plan::step(Look)),
        (owner(Solid, Source::Known), Plan::done()),
        (owner(Dangling, Source::Known), Plan::step(QueueDependents)),
        (owner(Dangling, Source::Asked), Plan::step(QueueDependents)),
        (owner(Dangling, Source::Settled), Plan::done()),
        (owner(Solid, Source::Asked), later(UNSEEN)),
        (owner(Waiting, Source::Asked), later(UNSEEN)),
        (Owner { is_watched: false, ..owner(Solid, Source::Asked) }, later(UNWATCHED)),
        (owner(Unmapped(SOON), Source::Asked), later(SOON)),
        (owner(Invalid, Source::Asked), Plan::done()),
    ] {
        assert_eq!(owner::plan(owner), expected, "{owner:?}");
    }
}
