//! Decides who expands the volume of a claim.

use steersman_api::{ArcStr, Meta, Quantity, Uid};
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;
use steersman_kinds::volume_source::VolumeSource;

/// A claim and its volume.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The claim's metadata.
    pub claim: Meta,
    /// The storage that the claim asks for.
    pub request: Quantity,
    /// The storage that the claim has.
    pub capacity: Quantity,
    /// The claim's volume, once it has been read.
    pub volume: Option<Volume>,
    /// The CSI driver that the claim's annotation names already. May be empty.
    pub resizer: ArcStr,
    /// Whether the claim's user has been told who expands the volume.
    pub is_told: bool,
}

/// The volume of a claim, as the API server has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Volume {
    /// The namespace and the uid of the claim that the volume names. `None` if it names none.
    pub claim: Option<(ArcStr, Uid)>,
    /// Where the volume's data is.
    pub source: VolumeSource,
}

/// An action of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the volume.
    ReadVolume,
    /// Fail: the volume names another claim.
    Fail,
    /// Record who expands the volume.
    Tell(Expander),
    /// Name this CSI driver in the claim's annotation.
    SetResizer(&'static str),
}

/// Who expands a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expander {
    /// The CSI driver to which this plugin was migrated.
    Migrated(&'static str),
    /// An external controller.
    External,
    /// None: this program does not expand FlexVolumes.
    Declined,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The volume as read.
    Read(Volume),
    /// The step was carried out.
    Done,
}

impl Observed {
    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
        match (step, result) {
            (_, StepResult::Done(Outcome::Read(volume))) => self.volume = Some(volume),
            (Step::Tell(_), StepResult::Done(_)) => self.is_told = true,
            (Step::SetResizer(driver), StepResult::Done(_)) => self.resizer = driver.into(),
            _ => {}
        }
    }
}

/// Tells the user of a claim that asks for more than it has who expands its volume.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    if observed.request <= observed.capacity {
        return Plan::done();
    }
    let Some(volume) = &observed.volume else { return Plan::step(Step::ReadVolume) };
    let claim = &observed.claim;
    let names_it = |(namespace, uid): &(ArcStr, Uid)| *namespace == claim.key.namespace && *uid == claim.uid;
    if !volume.claim.as_ref().is_some_and(names_it) {
        return Plan::step(Step::Fail);
    }
    let source = volume.source.kind;
    let expander = match source {
        Some(kind) if kind.migrated_to.is_some() => Expander::Migrated(kind.plugin),
        Some(kind) if kind.member == "flexVolume" => Expander::Declined,
        _ => Expander::External,
    };
    if !observed.is_told {
        return Plan::step(Step::Tell(expander));
    }
    match source.and_then(|kind| kind.migrated_to) {
        Some(driver) if observed.resizer != driver => Plan::step(Step::SetResizer(driver)),
        _ => Plan::done(),
    }
}
