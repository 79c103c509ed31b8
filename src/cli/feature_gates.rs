//! The flag `--feature-gates`.

use std::collections::BTreeSet;

use steersman_controller::feature_gates::{self, Error, FeatureGates};
use steersman_controller::registry::Descriptor;

use super::pflag::Refusal;
use super::typed::nearest;
use super::values::items;

/// The gate for releasing the lease at shutdown. This program always releases it.
const RELEASE_ON_EXIT: &str = "ControllerManagerReleaseLeaderElectionLockOnExit";

/// The gates of the secure port's pages.
const PAGES: [&str; 2] = ["ComponentFlagz", "ComponentStatusz"];

/// The parsed flag.
pub(crate) struct Parsed {
    /// Which gates are on.
    pub gates: FeatureGates,
    /// Notes for the log about gates that upstream will remove.
    pub notes: Vec<String>,
    /// Warnings about gates that were set and have no effect.
    pub idle: Vec<String>,
}

/// Parses lists such as `Name=true,kube:Other=false`.
///
/// # Errors
/// If kube-controller-manager would refuse an item, too.
pub(crate) fn parse(lists: &[String]) -> Result<Parsed, Refusal> {
    let gates = FeatureGates::parse(items(lists)).map_err(|error| {
        let why = format!("{error}{}", remedy(&error));
        Refusal::of_value("--feature-gates", &lists.join(","), why)
    })?;
    let registry = steersman_controllers::builtin();
    let mut read: BTreeSet<_> = registry.rows().iter().flat_map(|row| row.gates).copied().collect();
    read.insert(RELEASE_ON_EXIT);
    read.extend(PAGES);
    // The gates that switch whole controllers on and off.
    let (here, elsewhere): (Vec<&Descriptor>, Vec<&Descriptor>) =
        registry.rows().iter().partition(|row| row.is_here());
    read.extend(here.iter().flat_map(|row| row.required_gates()));
    let mut idle = Vec::new();
    for row in elsewhere {
        for gate in row.required_gates().iter().filter(|gate| gates.is_set(gate) && !read.contains(**gate)) {
            idle.push(format!(
                "feature gate {gate}={} has no effect: this version does not have the controller {}",
                gates.enabled(gate),
                row.name
            ));
        }
    }
    read.extend(registry.rows().iter().flat_map(|row| row.required_gates()));
    idle.extend(gates.without_effect(&read));
    if gates.is_set(RELEASE_ON_EXIT) && !gates.enabled(RELEASE_ON_EXIT) {
        idle.push(format!(
            "feature gate {RELEASE_ON_EXIT}=false has no effect: the lease is always released"
        ));
    }
    Ok(Parsed { notes: gates.removals(), idle, gates })
}

/// What to write instead, where the error does not say it.
fn remedy(error: &Error) -> String {
    match error {
        Error::NoValue(name) => format!("; write {name}=true or {name}=false"),
        Error::Unknown(name) => nearest(name, feature_gates::names())
            .map(|meant| format!(", did you mean {meant}?"))
            .unwrap_or_default(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(list: &str) -> Vec<String> {
        parse(&[list.to_owned()]).unwrap().idle
    }

    #[test]
    fn gates_without_effect_cause_warnings() {
        assert_eq!(warned(""), [""; 0]);
        assert_eq!(warned("ControllerManagerReleaseLeaderElectionLockOnExit=true"), [""; 0]);
        assert_eq!(
            warned("kube:ControllerManagerReleaseLeaderElectionLockOnExit=f,StorageVersionMigrator=true"),
            [
                "feature gate StorageVersionMigrator=true has no effect: this version does not have the controller \
                 storage-version-migrator-controller",
                "feature gate ControllerManagerReleaseLeaderElectionLockOnExit=false has no effect: \
                 the lease is always released",
            ]
        );
    }

    #[test]
    fn lists_may_be_repeated() {
        let lists =
            ["CoordinatedLeaderElection=true".to_owned(), "CoordinatedLeaderElection=false".to_owned()];
        assert!(!parse(&lists).unwrap().gates.enabled("CoordinatedLeaderElection"));
    }
}
