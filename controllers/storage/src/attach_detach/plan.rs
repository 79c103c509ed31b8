//! What must be done next for a volume.
//!
//! At each node where no pod needs the volume, in this order:
//!
//! ```text
//! the kubelet has unmounted it, or is overruled ─> unlist it in the node's status ─> ask the API server whether the
//! kubelet uses it after all ─> delete the VolumeAttachment ─> wait until the external attacher has let it go
//! ```
//!
//! A kubelet mounts only what its node's status lists, and reports in that status what it is about to mount before it looks
//! at the list. So a kubelet either sees that the volume is gone from the list, or the controller sees that it is in use.
//!
//! At each node where a pod needs it:
//!
//! ```text
//! no other node may have it ─> create the VolumeAttachment ─> wait for the external attacher ─> list it
//! ```
//!
//! The write that unlists a volume is refused if the kubelet has begun to use the volume. A disk that nodes reach by themselves
//! needs no more than that.
//!
//! The one way around the consent of a kubelet is force: see [`force`].

use std::time::Duration;

use steersman_api::{ArcStr, ObjectKey, Uid};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use tokio::time::Instant;

use super::names::VolumeName;
use super::observed::{Observed, Site, User};

/// How long the external attacher may take before the controller reports a failure, as upstream.
pub(super) const ATTACHER_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of calls at a time for one volume.
const CALLS: usize = 8;

/// An action for a volume at the node that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub node: ArcStr,
    pub action: Action,
}

/// An action for a volume at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Adds the volume to the list in the node's status.
    List,
    /// Takes the volume from the list in the node's status.
    Unlist,
    /// As [`Self::Unlist`], unless the kubelet uses the volume in that version of the node.
    UnlistUnused,
    /// Asks the API server whether the node's kubelet uses the volume.
    CheckUse,
    /// Asks the API server for the VolumeAttachment.
    Probe,
    /// Creates the VolumeAttachment of a PersistentVolume.
    Create(ArcStr),
    /// Deletes the VolumeAttachment with this uid.
    Delete(Uid),
    /// Gives up on the kubelet.
    Force(Reason),
    /// Tells the pods that the volume is attached.
    Announce,
    /// Tells the pods that attaching failed, and waits before the next attempt.
    Fail(String),
    /// Tells each pod why it does not get the volume while another node has it.
    Refuse(Vec<(User, String)>),
}

/// Why a volume is detached without the kubelet's consent. The metric's label `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The node is not ready, and has not unmounted the volume in time.
    Timeout,
    /// The node has the taint `node.kubernetes.io/out-of-service`.
    OutOfService,
}

impl Reason {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::OutOfService => "out-of-service",
        }
    }
}

/// What comes next at a node.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Do(Action),
    /// Nothing until something changes, or that time.
    Wait(Option<Instant>),
}

const NOTHING: Next = Next::Wait(None);

pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    let (mut steps, mut wake) = (Vec::new(), None::<Instant>);
    for (node, site) in &observed.sites {
        match next(observed, node, site) {
            Next::Do(action) => steps.push(Step { node: node.clone(), action }),
            Next::Wait(Some(until)) => wake = Some(wake.map_or(until, |wake| wake.min(until))),
            Next::Wait(None) => {}
        }
    }
    if steps.is_empty() {
        return Plan::Done { requeue_after: wake.map(|wake| wake.saturating_duration_since(observed.now)) };
    }
    Plan::Act(Batch { steps, pace: Pace::Together(CALLS), on_failure: OnFailure::PlanAgain })
}

fn next(observed: &Observed, node: &ArcStr, site: &Site) -> Next {
    if site.users.is_empty() { detach(observed, site) } else { attach(observed, node, site) }
}

/// Why the controller may overrule the kubelet, and otherwise when it may: the node is out of service, or has been neither
/// ready nor rid of the volume for too long. A node that does not exist is not ready.
fn force(observed: &Observed, site: &Site) -> Result<Reason, Option<Instant>> {
    let is_ready = site.node.is_some_and(|node| node.ready);
    let since = site.memory.unneeded_since.unwrap_or(observed.now);
    let due = observed.settings.force_after.map(|wait| since + wait).filter(|_| !is_ready);
    if due.is_some_and(|due| due < observed.now) {
        return Ok(Reason::Timeout);
    }
    if site.node.is_some_and(|node| node.out_of_service) {
        return Ok(Reason::OutOfService);
    }
    // The clock must have passed that time.
    Err(due.map(|due| due + Duration::from_millis(1)))
}

fn detach(observed: &Observed, site: &Site) -> Next {
    if !site.may_be_attached() {
        return NOTHING;
    }
    let (memory, force) = (&site.memory, force(observed, site));
    let is_going = site.attachment.as_ref().is_some_and(|attachment| attachment.deleting);
    if !is_going {
        if let Err(due) = force
            && site.in_use
        {
            return Next::Wait(due);
        }
        if let Some(until) = memory.detaching.until(observed.now) {
            return Next::Wait(Some(until));
        }
    }
    if site.is_listed() {
        let unlist = match force {
            Ok(reason) if observed.volume.is_disk() && !memory.forced => {
                return Next::Do(Action::Force(reason));
            }
            // The cache may not show yet that the kubelet uses it.
            Err(_) if !is_going => Action::UnlistUnused,
            _ => Action::Unlist,
        };
        return memory.listing.until(observed.now).map_or(Next::Do(unlist), |at| Next::Wait(Some(at)));
    }
    let Some(attachment) = &site.attachment else { return NOTHING };
    match force {
        Ok(reason) if !memory.forced => Next::Do(Action::Force(reason)),
        Err(due) if is_going => Next::Wait(due),
        Ok(_) if is_going => NOTHING,
        Err(_) if !site.is_unused => Next::Do(Action::CheckUse),
        _ => Next::Do(Action::Delete(attachment.uid.clone())),
    }
}

fn attach(observed: &Observed, name: &ArcStr, site: &Site) -> Next {
    let Some(node) = site.node.filter(|node| node.managed) else { return NOTHING };
    let (memory, now) = (&site.memory, observed.now);
    let after = |backoff: &super::backoff::Backoff, action: Action| {
        backoff.until(now).map_or(Next::Do(action), |until| Next::Wait(Some(until)))
    };
    if observed.volume.is_disk() {
        return match (node.listed, memory.announced) {
            (true, true) => NOTHING,
            (true, false) => Next::Do(Action::Announce),
            (false, _) => turn(observed, name, site).unwrap_or_else(|| after(&memory.listing, Action::List)),
        };
    }
    let Some(attachment) = &site.attachment else {
        return match (node.listed, observed.settings.verify) {
            (true, false) => NOTHING,
            (true, true) if !site.is_probed => after(&memory.attaching, Action::Probe),
            (true, true) => after(&memory.listing, Action::Unlist),
            (false, _) if !observed.attachable => NOTHING,
            (false, _) => create(observed, name, site),
        };
    };
    if attachment.deleting {
        let due = memory.detaching_since.map(|since| since + ATTACHER_TIMEOUT);
        return match site.has_failed_to_detach(now) {
            true if node.listed => NOTHING,
            true => after(&memory.attaching, Action::Fail("volume attachment is being deleted".to_owned())),
            false => Next::Wait(due),
        };
    }
    if attachment.attached {
        return match (node.listed, memory.announced) {
            (true, _) => NOTHING,
            (false, false) => Next::Do(Action::Announce),
            (false, true) => after(&memory.listing, Action::List),
        };
    }
    if node.listed {
        return match (observed.settings.verify, site.is_probed) {
            (false, _) => NOTHING,
            (true, false) => after(&memory.attaching, Action::Probe),
            (true, true) => after(&memory.listing, Action::Unlist),
        };
    }
    if let Some(error) = &attachment.attach_error {
        return after(&memory.attaching, Action::Fail(error.to_string()));
    }
    let deadline = memory.attaching_since.unwrap_or(now) + ATTACHER_TIMEOUT;
    if now < deadline {
        return Next::Wait(Some(deadline));
    }
    after(&memory.attaching, Action::Fail(timeout(&observed.volume)))
}

fn timeout(volume: &VolumeName) -> String {
    let (driver, handle) = volume.csi().unwrap_or_default();
    format!("timed out waiting for external-attacher of {driver} CSI driver to attach volume {handle}")
}

fn create(observed: &Observed, name: &ArcStr, site: &Site) -> Next {
    turn(observed, name, site).unwrap_or_else(|| {
        let action = Action::Create(site.users[0].persistent_volume.clone());
        site.memory.attaching.until(observed.now).map_or(Next::Do(action), |until| Next::Wait(Some(until)))
    })
}

/// What comes next at a node that wants the volume and can't have it yet, because another node may have it. `None` if it is
/// the node's turn.
fn turn(observed: &Observed, name: &ArcStr, site: &Site) -> Option<Next> {
    if !observed.exclusive {
        return None;
    }
    let others = || observed.sites.iter().filter(|(other, _)| *other != name);
    let mut blocking = others().filter(|(_, other)| other.blocks()).peekable();
    if blocking.peek().is_some() {
        // A node that is about to lose the volume is no reason to complain, unless that fails.
        let mut keeps = blocking.filter(|(_, other)| {
            let is_going = other.attachment.as_ref().is_some_and(|one| one.deleting)
                && !other.has_failed_to_detach(observed.now);
            let is_leaving =
                other.users.is_empty() && (is_going || matches!(detach(observed, other), Next::Do(_)));
            other.is_attached() && !is_leaving
        });
        let is_kept = keeps.next().is_some();
        if !is_kept || site.memory.reported_elsewhere {
            return Some(NOTHING);
        }
        let users: Vec<&User> =
            others().filter(|(_, other)| other.is_attached()).flat_map(|(_, other)| &other.users).collect();
        let refusal = |user: &User| (user.clone(), refusal(&user.pod, &users));
        return Some(Next::Do(Action::Refuse(site.users.iter().map(refusal).collect())));
    }
    // Of several nodes that want the volume, the one with the first name gets it.
    let wants = |other: &Site| {
        !other.users.is_empty() && !other.may_be_attached() && other.node.is_some_and(|node| node.managed)
    };
    observed.sites.range::<ArcStr, _>(..name).any(|(_, other)| wants(other)).then_some(NOTHING)
}

/// Why a pod does not get the volume, without names from other namespaces.
fn refusal(pod: &ObjectKey, users: &[&User]) -> String {
    let (near, far): (Vec<&User>, Vec<&User>) =
        users.iter().partition(|user| user.pod.namespace == pod.namespace);
    let names: Vec<_> = near.iter().map(|user| user.pod.name.as_str()).collect();
    let (names, far) = (names.join(", "), far.len());
    match (near.is_empty(), far) {
        (true, 0) => {
            "Volume is already exclusively attached to one node and can't be attached to another".to_owned()
        }
        (true, far) => format!("Volume is already used by {far} pod(s) in different namespaces"),
        (false, 0) => format!("Volume is already used by pod(s) {names}"),
        (false, far) => {
            format!("Volume is already used by pod(s) {names} and {far} pod(s) in different namespaces")
        }
    }
}
