//! The flag `--feature-gates`.

use std::collections::BTreeSet;

use steersman_controller::feature_gates::{Error, FeatureGates};

use super::values::items;

/// The gate for releasing the lease at shutdown. This program always releases it.
const RELEASE_ON_EXIT: &str = "ControllerManagerReleaseLeaderElectionLockOnExit";

/// Parses lists such as `Name=true,kube:Other=false`. Returns the gates, and the warnings for the log.
///
/// # Errors
/// If kube-controller-manager would refuse an item, too.
pub(crate) fn parse(lists: &[String]) -> Result<(FeatureGates, Vec<String>), Error> {
    let gates = FeatureGates::parse(items(lists))?;
    let registry = steersman_controllers::builtin();
    let mut read: BTreeSet<_> = registry.rows().iter().flat_map(|row| row.gates).copied().collect();
    read.insert(RELEASE_ON_EXIT);
    let mut warnings = gates.warnings(&read);
    if gates.is_set(RELEASE_ON_EXIT) && !gates.enabled(RELEASE_ON_EXIT) {
        warnings.push(format!(
            "feature gate {RELEASE_ON_EXIT}=false has no effect: the lease is always released"
        ));
    }
    Ok((gates, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(list: &str) -> Vec<String> {
        parse(&[list.to_owned()]).unwrap().1
    }

    #[test]
    fn gates_without_effect_cause_warnings() {
        assert_eq!(warned(""), [""; 0]);
        assert_eq!(warned("ControllerManagerReleaseLeaderElectionLockOnExit=true"), [""; 0]);
        assert_eq!(
            warned("kube:ControllerManagerReleaseLeaderElectionLockOnExit=f,StorageVersionMigrator=true"),
            [
                "feature gate StorageVersionMigrator=true has no effect: no controller of this program reads it",
                "feature gate ControllerManagerReleaseLeaderElectionLockOnExit=false has no effect: \
                 the lease is always released",
            ]
        );
    }

    #[test]
    fn lists_may_be_repeated() {
        let lists =
            ["CoordinatedLeaderElection=true".to_owned(), "CoordinatedLeaderElection=false".to_owned()];
        assert!(!parse(&lists).unwrap().0.enabled("CoordinatedLeaderElection"));
    }
}
