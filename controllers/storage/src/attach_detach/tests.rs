//! Tests of the plan: a volume and its nodes in, actions out.

use std::time::Duration;

use steersman_api::{ArcStr, ObjectKey, Uid};
use steersman_controller::controller::{StepResult, SyncError};
use steersman_controller::plan::Plan;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::names::VolumeName;
use super::observed::{Attachment, Node, Observed, Settings, Site, User};
use super::outcome::Outcome;
use super::plan::{Action, Reason, Step, plan};

mod index;
mod simulation;

const MINUTE: Duration = Duration::from_secs(60);

fn volume() -> VolumeName {
    VolumeName::new("d.example.com", "vol-1").unwrap()
}

fn disk() -> VolumeName {
    VolumeName::parse("kubernetes.io/iscsi/10.0.0.1:3260:iqn.d:0").unwrap()
}

fn user(pod: &str) -> User {
    let pod: ObjectKey = pod.parse().unwrap();
    User { uid: Uid::from(&*pod.name), pod, persistent_volume: "pv".into(), migrated: false }
}

/// A node that is ready, and managed by the controller.
fn site() -> Site {
    let node = Node { managed: true, ready: true, out_of_service: false, listed: false };
    Site { node: Some(node), ..Site::default() }
}

impl Site {
    fn wanted_by(mut self, pods: &[&str]) -> Self {
        self.users = pods.iter().map(|pod| user(pod)).collect();
        self
    }
    fn node(mut self, change: impl FnOnce(&mut Node)) -> Self {
        change(self.node.as_mut().unwrap());
        self
    }
    fn listed(self) -> Self {
        self.node(|node| node.listed = true)
    }
    fn not_ready(self) -> Self {
        self.node(|node| node.ready = false)
    }
    fn gone(mut self) -> Self {
        self.node = None;
        self
    }
    fn in_use(mut self) -> Self {
        self.in_use = true;
        self
    }
    fn attachment(mut self, change: impl FnOnce(&mut Attachment)) -> Self {
        let mut attachment = self.attachment.take().unwrap_or_default();
        attachment.uid = Uid::from("va");
        change(&mut attachment);
        self.attachment = Some(attachment);
        self
    }
    fn attached(self) -> Self {
        self.attachment(|one| one.attached = true)
    }
    fn unneeded_for(mut self, time: Duration) -> Self {
        self.memory.unneeded_since = Some(start() - time);
        self
    }
}

/// The time of all observations. Not the first moment of the clock, so that there are moments before it.
fn start() -> Instant {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *START.get_or_init(|| Instant::now() + 60 * MINUTE)
}

fn observed<const N: usize>(sites: [(&str, Site); N]) -> Observed {
    let mut observed = Observed {
        volume: volume(),
        attachable: true,
        exclusive: true,
        sites: sites.into_iter().map(|(name, site)| (name.into(), site)).collect(),
        settings: Settings { force_after: Some(6 * MINUTE), verify: true },
        now: start(),
    };
    observed.settle();
    observed
}

/// Carries out plans, with each step as `answer` says, until nothing is left to do. Returns the actions in short.
fn run(observed: &mut Observed, answer: impl Fn(&Step) -> StepResult<Outcome>) -> Vec<String> {
    let mut done = Vec::new();
    for _ in 0..50 {
        match plan(observed) {
            Plan::Done { .. } => return done,
            Plan::Act(batch) => {
                for step in batch.steps {
                    done.push(format!("{} {}", short(&step.action), step.node));
                    let result = answer(&step);
                    observed.absorb(step, result);
                }
            }
        }
    }
    panic!("the plan never ends: {done:?}");
}

fn short(action: &Action) -> String {
    match action {
        Action::Create(pv) => format!("create({pv})"),
        Action::Delete(uid) => format!("delete({uid})"),
        Action::Fail(message) => format!("fail({message})"),
        Action::Force(reason) => format!("force({})", reason.as_str()),
        Action::Refuse(refused) => {
            let all: Vec<_> = refused.iter().map(|(user, why)| format!("{}: {why}", user.pod)).collect();
            format!("refuse({})", all.join("; "))
        }
        other => format!("{other:?}").to_lowercase(),
    }
}

/// An API server that does what it is asked, an external attacher that is slow, and a kubelet that uses nothing.
fn works(step: &Step) -> StepResult<Outcome> {
    let waiting = Attachment { uid: Uid::from("new"), ..Attachment::default() };
    StepResult::Done(match &step.action {
        Action::CheckUse => Outcome::Use { in_use: false, listed: false },
        Action::Create(_) => Outcome::Found(Some(waiting)),
        Action::Delete(uid) => Outcome::Found(Some(Attachment { uid: uid.clone(), ..Attachment::default() })),
        Action::Probe => Outcome::Found(None),
        _ => Outcome::Done,
    })
}

fn fails(_: &Step) -> StepResult<Outcome> {
    StepResult::Failed(SyncError::Failed("no".to_owned()))
}

#[test]
fn names_are_upstreams() {
    let volume = volume();
    assert_eq!(volume.as_str(), "kubernetes.io/csi/d.example.com^vol-1");
    assert_eq!(volume.csi(), Some(("d.example.com", "vol-1")));
    // printf '%s' vol-1d.example.comn1 | sha256sum
    let digest = "30f6d22005837af41fef7d63fe7b3970943d7d3f3347148ba9b313bbaab0f238";
    assert_eq!(volume.attachment("n1").unwrap(), format!("csi-{digest}"));
    assert_eq!(VolumeName::parse(volume.as_str()), Some(volume));
    let odd = VolumeName::new("d", "a^b").unwrap();
    assert_eq!(odd.csi(), Some(("d", "a^b")));
    assert_eq!((disk().csi(), disk().attachment("n1")), (None, None));
    assert_eq!(disk().plugin(), "kubernetes.io/iscsi");
    assert_eq!(VolumeName::parse("kubernetes.io/fc/[5005]:0").unwrap().plugin(), "kubernetes.io/fc");
    for foreign in [
        "",
        "kubernetes.io/fc/",
        "kubernetes.io/fcx/y",
        "kubernetes.io/nfs/x",
        "kubernetes.io/csi/d",
        "kubernetes.io/csi/^h",
        "kubernetes.io/csi/d^",
    ] {
        assert_eq!(VolumeName::parse(foreign), None, "{foreign}");
    }
}

#[test]
fn the_steps_of_one_node() {
    let error = |text: &str| Some(ArcStr::from(text));
    let wanted = || site().wanted_by(&["ns/p"]);
    let multi = "timed out waiting for external-attacher of d.example.com CSI driver to attach volume vol-1";
    let timeout = format!("fail({multi}) n");
    for (name, site, expected) in [
        // Attaching.
        ("nothing is known", site(), &[][..]),
        ("a pod wants the volume", wanted(), &["create(pv) n"]),
        ("the attacher has not answered", wanted().attachment(|_| {}), &[]),
        (
            "the attacher is too slow",
            Site { memory: waiting_for(3 * MINUTE), ..wanted().attachment(|_| {}) },
            &[&timeout],
        ),
        ("it is attached", wanted().attached(), &["announce n", "list n"]),
        ("it is attached and listed", wanted().attached().listed().in_use(), &[]),
        (
            "the driver fails",
            wanted().attachment(|one| one.attach_error = error("no disk")),
            &["fail(no disk) n"],
        ),
        (
            "somebody has deleted the attachment",
            wanted().attached().listed().attachment(|one| one.deleting = true),
            &[],
        ),
        (
            "it can't be detached, and a pod wants it",
            wanted().attached().attachment(|one| (one.deleting, one.detach_error) = (true, error("busy"))),
            &["fail(volume attachment is being deleted) n"],
        ),
        (
            "it takes too long to be detached, and a pod wants it",
            Site {
                memory: detaching_for(3 * MINUTE),
                ..wanted().attached().attachment(|one| one.deleting = true)
            },
            &["fail(volume attachment is being deleted) n"],
        ),
        (
            "it is being detached, and a pod wants it",
            Site {
                memory: detaching_for(MINUTE),
                ..wanted().attached().attachment(|one| one.deleting = true)
            },
            &[],
        ),
        ("the attachment is gone", wanted().listed().in_use(), &["probe n", "unlist n", "create(pv) n"]),
        (
            "the driver lost it",
            wanted().listed().attachment(|_| {}),
            &["probe n", "unlist n", "create(pv) n"],
        ),
        ("the kubelet attaches for itself", wanted().node(|node| node.managed = false), &[]),
        ("the node is gone, its pods are not", wanted().gone(), &[]),
        ("the node is gone with an attachment, its pods are not", wanted().gone().attached().in_use(), &[]),
        // Detaching.
        ("it is still mounted", site().attached().listed().in_use(), &[]),
        ("it is unmounted", site().attached().listed(), &["unlistunused n", "checkuse n", "delete(va) n"]),
        ("it was never attached", site().attachment(|_| {}), &["checkuse n", "delete(va) n"]),
        (
            "it was not attached",
            site().attachment(|one| one.attach_error = error("no")),
            &["checkuse n", "delete(va) n"],
        ),
        ("only the node lists it", site().listed(), &["unlistunused n"]),
        ("it is going", site().attachment(|one| one.deleting = true), &[]),
        ("it can't go", site().attachment(|one| (one.deleting, one.detach_error) = (true, error("no"))), &[]),
        (
            "it is going, and still listed",
            site().listed().attachment(|one| one.deleting = true),
            &["unlist n"],
        ),
        (
            "a node that is not managed",
            site().attached().node(|node| node.managed = false),
            &["checkuse n", "delete(va) n"],
        ),
        // Force.
        (
            "not ready for a while",
            site().attached().listed().in_use().not_ready().unneeded_for(6 * MINUTE),
            &[],
        ),
        (
            "not ready for too long",
            site().attached().listed().in_use().not_ready().unneeded_for(7 * MINUTE),
            &["unlist n", "force(timeout) n", "delete(va) n"],
        ),
        ("ready, and mounted for long", site().attached().listed().in_use().unneeded_for(60 * MINUTE), &[]),
        (
            "out of service",
            site().attached().listed().in_use().not_ready().node(|node| node.out_of_service = true),
            &["unlist n", "force(out-of-service) n", "delete(va) n"],
        ),
        (
            "out of service, and a pod has not ended",
            wanted().attached().listed().in_use().not_ready().node(|node| node.out_of_service = true),
            &[],
        ),
        ("the node is gone, was in use", site().gone().attached().in_use(), &[]),
        (
            "the node is gone for long",
            site().gone().attached().in_use().unneeded_for(7 * MINUTE),
            &["force(timeout) n", "delete(va) n"],
        ),
        ("the node is gone, was not in use", site().gone().attached(), &["checkuse n", "delete(va) n"]),
        (
            "it can't go, and the node is not ready for too long",
            site().attachment(|one| one.deleting = true).not_ready().unneeded_for(7 * MINUTE),
            &["force(timeout) n"],
        ),
    ] {
        let mut observed = observed([("n", site)]);
        assert_eq!(run(&mut observed, works), expected, "{name}");
    }
}

fn detaching_for(time: Duration) -> super::observed::Memory {
    super::observed::Memory { detaching_since: Some(start() - time), ..Default::default() }
}

fn waiting_for(time: Duration) -> super::observed::Memory {
    super::observed::Memory { attaching_since: Some(start() - time), ..Default::default() }
}

#[test]
fn a_volume_for_one_node_waits_until_no_other_node_has_it() {
    let (here, there) = ("here", "there");
    let wanted = || site().wanted_by(&["ns/new"]);
    let sorry = "refuse(ns/new: Volume is already exclusively attached to one node and can't be attached to another) here";
    let going = || site().attachment(|one| one.deleting = true);
    for (name, other, expected) in [
        ("nobody has it", site(), &["create(pv) here"][..]),
        (
            "a pod there has it",
            site().wanted_by(&["ns/old"]).attached().listed(),
            &["refuse(ns/new: Volume is already used by pod(s) old) here"],
        ),
        (
            "pods of two namespaces have it",
            site().wanted_by(&["ns/a", "ns/b", "x/c"]).attached().listed(),
            &[
                "refuse(ns/new: Volume is already used by pod(s) a, b and 1 pod(s) in different namespaces) here",
            ],
        ),
        (
            "a pod of another namespace has it",
            site().wanted_by(&["x/c"]).attached().listed(),
            &["refuse(ns/new: Volume is already used by 1 pod(s) in different namespaces) here"],
        ),
        ("its pod is gone, it is still mounted", site().attached().listed().in_use(), &[sorry]),
        (
            "it is unmounted there",
            site().attached().listed(),
            &["unlistunused there", "checkuse there", "delete(va) there"],
        ),
        ("it is going", going(), &[]),
        ("it is going for long", Site { memory: detaching_for(3 * MINUTE), ..going().attached() }, &[sorry]),
        (
            "it can't go",
            going().attached().attachment(|one| one.detach_error = Some("busy".into())),
            &[sorry],
        ),
        ("it is going by force", Site { memory: forced(), ..going().not_ready() }, &["create(pv) here"]),
        ("it is being attached there", site().wanted_by(&["ns/old"]).attachment(|_| {}), &[]),
        ("both want it, and the first name wins", site().wanted_by(&["ns/old"]), &["create(pv) here"]),
        ("there is no node there", site().gone().wanted_by(&["ns/old"]), &["create(pv) here"]),
    ] {
        let mut observed = observed([(here, wanted()), (there, other)]);
        assert_eq!(run(&mut observed, works), expected, "{name}");
        assert!(run(&mut observed, works).is_empty(), "{name}: it must not be said twice");
    }
    let many = observed([(here, wanted()), (there, site().wanted_by(&["ns/old"]).attached().listed())]);
    assert_eq!(run(&mut Observed { exclusive: false, ..many }, works), ["create(pv) here"]);
}

#[test]
fn a_disk_is_attached_by_the_list_alone() {
    let wanted = || site().wanted_by(&["ns/p"]);
    for (name, site, expected) in [
        ("a pod wants it", wanted(), &["list n", "announce n"][..]),
        ("it is listed", wanted().listed(), &[]),
        ("it is listed and in use", wanted().listed().in_use(), &[]),
        ("the kubelet attaches for itself", wanted().node(|node| node.managed = false), &[]),
        ("the node is gone", wanted().gone(), &[]),
        ("it is still mounted", site().listed().in_use(), &[]),
        ("it is unmounted", site().listed(), &["unlistunused n"]),
        ("it is unlisted", site().in_use(), &[]),
        (
            "not ready for too long",
            site().listed().in_use().not_ready().unneeded_for(7 * MINUTE),
            &["force(timeout) n", "unlist n"],
        ),
        (
            "out of service",
            site().listed().in_use().node(|node| node.out_of_service = true),
            &["force(out-of-service) n", "unlist n"],
        ),
    ] {
        let mut observed = Observed { volume: disk(), ..observed([("n", site)]) };
        observed.settle();
        assert_eq!(run(&mut observed, works), expected, "{name}");
    }
    let wanted = || site().wanted_by(&["ns/new"]);
    let mine = ["list here", "announce here"];
    for (name, other, expected) in [
        ("nobody has it", site(), &mine[..]),
        (
            "a pod there has it",
            site().wanted_by(&["ns/old"]).listed(),
            &["refuse(ns/new: Volume is already used by pod(s) old) here"],
        ),
        ("it is unmounted there", site().listed(), &["unlistunused there", "list here", "announce here"]),
        ("both want it, and the first name wins", site().wanted_by(&["ns/old"]), &mine),
    ] {
        let mut observed = Observed { volume: disk(), ..observed([("here", wanted()), ("there", other)]) };
        observed.settle();
        let mut done = run(&mut observed, works);
        done.retain(|step| !step.ends_with("there") || step.starts_with("unlist"));
        done.retain(|step| !(name.starts_with("both") && step.starts_with("refuse")));
        assert_eq!(done, expected, "{name}");
    }
    let in_use = |step: &Step| match step.action {
        Action::UnlistUnused => StepResult::Done(Outcome::Use { in_use: true, listed: true }),
        _ => works(step),
    };
    let mut observed = Observed { volume: disk(), ..observed([("n", site().listed())]) };
    observed.settle();
    assert_eq!(run(&mut observed, in_use), ["unlistunused n"]);
    assert!(observed.sites["n"].is_listed(), "the kubelet has begun to use it");
}

fn forced() -> super::observed::Memory {
    super::observed::Memory { forced: true, ..Default::default() }
}

#[test]
fn a_list_that_the_cache_does_not_show_is_cleared_first() {
    let mut observed = observed([("n", site().attached())]);
    let checks = std::cell::Cell::new(0);
    let answer = |step: &Step| match step.action {
        Action::CheckUse => {
            checks.set(checks.get() + 1);
            StepResult::Done(Outcome::Use { in_use: false, listed: checks.get() == 1 })
        }
        _ => works(step),
    };
    let expected = ["checkuse n", "unlistunused n", "checkuse n", "delete(va) n"];
    assert_eq!(run(&mut observed, answer), expected);
}

#[test]
fn a_kubelet_that_uses_the_volume_after_all_keeps_it() {
    let mut observed = observed([("n", site().attached().listed())]);
    let in_use = |step: &Step| match step.action {
        Action::CheckUse => StepResult::Done(Outcome::Use { in_use: true, listed: false }),
        _ => works(step),
    };
    assert_eq!(run(&mut observed, in_use), ["unlistunused n", "checkuse n"]);
    assert_eq!(plan(&observed), Plan::done(), "the node's next status tells");

    // The cache does not show yet that the kubelet uses it.
    let mut observed = self::observed([("n", site().attached().listed())]);
    let in_use = |step: &Step| match step.action {
        Action::UnlistUnused => StepResult::Done(Outcome::Use { in_use: true, listed: true }),
        _ => works(step),
    };
    assert_eq!(run(&mut observed, in_use), ["unlistunused n"]);
    assert!(observed.sites["n"].is_listed());
}

#[test]
fn what_fails_is_tried_again_after_a_wait_that_doubles() {
    for (name, site, first) in [
        ("creating", site().wanted_by(&["ns/p"]), "create(pv) n"),
        ("unlisting", site().attached().listed(), "unlistunused n"),
        ("deleting", site().attached(), "checkuse n"),
    ] {
        let mut observed = observed([("n", site)]);
        for wait in [500, 1000, 2000] {
            assert_eq!(run(&mut observed, fails), [first], "{name}");
            let Plan::Done { requeue_after: Some(after) } = plan(&observed) else { panic!("{name}") };
            assert_eq!(after, Duration::from_millis(wait), "{name}");
            observed.now += after;
            observed.settle();
        }
    }
    let (mut backoff, now) = (Backoff::default(), start());
    (0..40).for_each(|_| backoff.fail(now));
    assert_eq!(backoff.until(now), Some(now + Duration::from_secs(122)));
    assert_eq!(backoff.until(now + Duration::from_secs(122)), None);
}

#[test]
fn the_time_of_an_attachment_ends_when_pods_are_told_and_of_a_detachment_when_it_is_gone() {
    let mut observed = observed([("n", site().wanted_by(&["ns/p"]).attachment(|_| {}))]);
    observed.now += MINUTE;
    observed.sites.get_mut("n").unwrap().attachment.as_mut().unwrap().attached = true;
    observed.settle();
    assert_eq!(observed.sites["n"].memory.attaching_since, Some(start()));
    assert_eq!(run(&mut observed, works), ["announce n", "list n"]);
    observed.settle();
    assert_eq!(observed.sites["n"].memory.attaching_since, None);

    observed.sites.get_mut("n").unwrap().users.clear();
    observed.settle();
    assert_eq!(run(&mut observed, works), ["unlistunused n", "checkuse n", "delete(va) n"]);
    assert_eq!(observed.take_detached(), [], "the external attacher has not let it go");
    observed.now += MINUTE;
    observed.settle();
    observed.sites.get_mut("n").unwrap().attachment = None;
    assert_eq!(observed.take_detached(), [(false, MINUTE)]);
    assert_eq!(observed.take_detached(), [], "it is counted once");
}

#[test]
fn flags_switch_force_and_verification_off() {
    let lost = || site().wanted_by(&["ns/p"]).listed();
    let silent = || site().attached().listed().in_use().not_ready().unneeded_for(60 * MINUTE);
    for (name, settings, site, expected) in [
        ("no force", Settings { force_after: None, verify: true }, silent(), &[][..]),
        (
            "no force, but out of service",
            Settings { force_after: None, verify: true },
            silent().node(|node| node.out_of_service = true),
            &["unlist n", "force(out-of-service) n", "delete(va) n"],
        ),
        ("no verification", Settings { force_after: None, verify: false }, lost(), &[]),
        (
            "no verification, lost",
            Settings { force_after: None, verify: false },
            lost().attachment(|_| {}),
            &[],
        ),
    ] {
        let mut observed = Observed { settings, ..observed([("n", site)]) };
        assert_eq!(run(&mut observed, works), expected, "{name}");
    }
    let mut unattachable = Observed { attachable: false, ..observed([("n", site().wanted_by(&["ns/p"]))]) };
    assert!(run(&mut unattachable, works).is_empty(), "the driver needs no attachments");
    assert_eq!(Reason::Timeout.as_str(), "timeout");
}

#[test]
fn a_plan_wakes_up_when_force_is_due_and_when_the_attacher_is_late() {
    for (name, site, expected) in [
        ("force", site().attached().in_use().not_ready(), 6 * MINUTE + Duration::from_millis(1)),
        ("attacher", site().wanted_by(&["ns/p"]).attachment(|_| {}), 2 * MINUTE),
    ] {
        assert_eq!(plan(&observed([("n", site)])), Plan::Done { requeue_after: Some(expected) }, "{name}");
    }
}
