//! Upstream's flags that have no effect in this version. It accepts them, so that upstream's manifests work.

use clap::{Arg, ArgAction, ArgMatches};

use super::effects::{Effect, effect_of};
use super::values::boolean;

/// The flags without effect of one command.
pub(crate) struct Unheeded {
    /// The boolean flags.
    pub(crate) switches: &'static [&'static str],
    /// The flags of other types.
    pub(crate) settings: &'static [&'static str],
}

impl Unheeded {
    /// The flags for clap, hidden from the help.
    pub(crate) fn flags(&self) -> impl Iterator<Item = Arg> {
        let hidden = |name: &'static str| Arg::new(name).long(name).hide(true).action(ArgAction::Append);
        let switches = self.switches.iter().map(move |name| {
            let switch = hidden(name).num_args(0..=1).require_equals(true).default_missing_value("true");
            switch.value_parser(boolean)
        });
        let settings = self.settings.iter().map(move |name| hidden(name).num_args(1));
        switches.chain(settings)
    }

    /// A warning for each of these flags on the command line.
    pub(crate) fn warnings(&self, matches: &ArgMatches) -> Vec<String> {
        let all = self.switches.iter().chain(self.settings);
        let given = all.filter(|name| matches.contains_id(name));
        given.map(|flag| format!("flag --{flag} has no effect in this version")).collect()
    }

    /// What each of these flags of kube-controller-manager on the command line would have changed: the flag, and the rest of a sentence.
    pub(crate) fn missed(&self, matches: &ArgMatches) -> Vec<String> {
        let switches = self.switches.iter().map(|name| (*name, switched(matches, name)));
        let settings = self.settings.iter().map(|name| (*name, set(matches, name)));
        let missed = switches.chain(settings).filter_map(|(name, value)| missed(name, &value?));
        missed.collect()
    }

    /// The names of the flags.
    #[cfg(test)]
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.switches.iter().chain(self.settings).copied()
    }
}

/// The last value of a boolean flag on the command line.
fn switched(matches: &ArgMatches, name: &str) -> Option<String> {
    matches.get_many::<bool>(name)?.next_back().map(ToString::to_string)
}

/// The last value of another flag.
fn set(matches: &ArgMatches, name: &str) -> Option<String> {
    matches.get_many::<String>(name)?.next_back().cloned()
}

/// What a flag would have changed with this value, if anything.
fn missed(name: &str, value: &str) -> Option<String> {
    match effect_of(name).expect("each flag without effect must have a sentence") {
        Effect::NoneUpstream | Effect::Given(_) => None,
        Effect::Missing { unless, .. } if unless.contains(&value) => None,
        Effect::Missing { would, .. } => Some(format!("--{name} {would}")),
    }
}

/// The flags of kube-controller-manager 1.36 without effect.
pub(crate) const CONTROLLER_MANAGER: Unheeded = Unheeded {
    switches: &[
        "allow-untagged-cloud",
        "configure-cloud-routes",
        "contention-profiling",
        "enable-hostpath-provisioner",
        "enable-leader-migration",
        "log-json-split-stream",
        "log-text-split-stream",
    ],
    settings: &[
        "allow-metric-labels",
        "allow-metric-labels-manifest",
        "cloud-config",
        "cloud-provider",
        "cluster-name",
        "concurrent-service-syncs",
        "concurrent-validating-admission-policy-status-syncs",
        "emulated-version",
        "external-cloud-volume-plugin",
        "flex-volume-plugin-dir",
        "kube-api-content-type",
        "leader-migration-config",
        "log-flush-frequency",
        "log-json-info-buffer-size",
        "log-text-info-buffer-size",
        "min-compatibility-version",
        "node-sync-period",
        "pv-recycler-increment-timeout-nfs",
        "pv-recycler-minimum-timeout-hostpath",
        "pv-recycler-minimum-timeout-nfs",
        "pv-recycler-pod-template-filepath-hostpath",
        "pv-recycler-pod-template-filepath-nfs",
        "pv-recycler-timeout-increment-hostpath",
        "route-reconciliation-period",
        "show-hidden-metrics-for-version",
    ],
};
