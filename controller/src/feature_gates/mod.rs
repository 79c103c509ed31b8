//! Feature gates: switches for features that are experimental or about to be removed.
//!
//! Parses and checks `--feature-gates` as kube-controller-manager does. A controller names the gates that it reads in its
//! row of the registry ([`Descriptor::gates`](crate::registry::Descriptor::gates)) and asks [`FeatureGates::enabled`].

mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use prometheus::{IntGaugeVec, Opts};

/// The maturity of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Experimental, and off by default.
    Alpha,
    /// Complete, and usually on by default.
    Beta,
    /// Permanent: upstream will remove the gate.
    Ga,
    /// Upstream will remove the feature.
    Deprecated,
}

impl Stage {
    /// The stage as metrics and help show it; empty for GA.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Ga => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

/// A gate of Kubernetes 1.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Such as `JobManagedBy`.
    pub name: &'static str,
    /// The feature's maturity.
    pub stage: Stage,
    /// Whether the feature is on by default.
    pub default: bool,
    /// Whether the default can't be changed any more.
    pub locked: bool,
    /// Gates that must be on if this one is.
    pub requires: &'static [&'static str],
}

impl Gate {
    const fn new(name: &'static str, stage: Stage, default: bool) -> Self {
        Self { name, stage, default, locked: false, requires: &[] }
    }

    const fn locked(mut self) -> Self {
        self.locked = true;
        self
    }

    const fn requires(mut self, gates: &'static [&'static str]) -> Self {
        self.requires = gates;
        self
    }
}

/// Why the gates are invalid, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An item has no `=`.
    #[error("missing bool value for {0}")]
    NoValue(String),
    /// A value is neither true nor false.
    #[error("invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")]
    NotBool {
        /// The gate.
        name: String,
        /// The value.
        value: String,
    },
    /// The name has the prefix of another component than `kube`.
    #[error("component not registered: {0}")]
    Component(String),
    /// Kubernetes 1.36 has no such gate.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    /// The gate is locked to its default.
    #[error("cannot set feature gate {name} to {value}, feature is locked to {}", !value)]
    Locked {
        /// The gate.
        name: &'static str,
        /// The requested value.
        value: bool,
    },
    /// A gate is on and another one that it depends on is off.
    #[error("{name} is enabled, but depends on features that are disabled: [{}]", disabled.join(" "))]
    Dependency {
        /// The gate that is on.
        name: &'static str,
        /// The gates that are off.
        disabled: Vec<&'static str>,
    },
}

/// Which gates are on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// The gates that were set by their own name.
    set: BTreeMap<&'static str, bool>,
    /// `AllAlpha` and `AllBeta`: the value of the stage's gates that were not set by their own name.
    alpha: Option<bool>,
    beta: Option<bool>,
}

impl FeatureGates {
    /// Parses items such as `JobManagedBy=true` and `kube:AllBeta=false`. If several items name a gate, the last one
    /// counts.
    ///
    /// # Errors
    /// The error of the first invalid item.
    pub fn parse<'a>(items: impl IntoIterator<Item = &'a str>) -> Result<Self, Error> {
        let mut gates = Self::default();
        for item in items.into_iter().map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once('=').ok_or_else(|| Error::NoValue(item.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            let name = match name.split_once(':') {
                None | Some(("kube", _)) => name.trim_start_matches("kube:"),
                Some((component, _)) => return Err(Error::Component(component.to_owned())),
            };
            let on = parse_bool(value)
                .ok_or_else(|| Error::NotBool { name: name.to_owned(), value: value.to_owned() })?;
            match name {
                "AllAlpha" => gates.alpha = Some(on),
                "AllBeta" => gates.beta = Some(on),
                _ => {
                    let gate = gate(name).ok_or_else(|| Error::Unknown(name.to_owned()))?;
                    if gate.locked && gate.default != on {
                        return Err(Error::Locked { name: gate.name, value: on });
                    }
                    gates.set.insert(gate.name, on);
                }
            }
        }
        gates.check_dependencies()?;
        Ok(gates)
    }

    fn check_dependencies(&self) -> Result<(), Error> {
        for gate in table::GATES.iter().filter(|gate| self.holds(gate)) {
            let disabled: Vec<_> = gate.requires.iter().copied().filter(|name| !self.enabled(name)).collect();
            if !disabled.is_empty() {
                return Err(Error::Dependency { name: gate.name, disabled });
            }
        }
        Ok(())
    }

    /// Whether a feature is on.
    ///
    /// # Panics
    /// If Kubernetes 1.36 has no gate of that name.
    pub fn enabled(&self, name: &str) -> bool {
        self.holds(gate(name).expect("a controller must name an existing gate"))
    }

    /// Whether the gate was set by its own name.
    pub fn is_set(&self, name: &str) -> bool {
        self.set.contains_key(name)
    }

    fn holds(&self, gate: &Gate) -> bool {
        let of_stage = match gate.stage {
            Stage::Alpha => self.alpha,
            Stage::Beta => self.beta,
            Stage::Ga | Stage::Deprecated => None,
        };
        let of_stage = of_stage.filter(|_| !gate.locked);
        self.set.get(gate.name).copied().or(of_stage).unwrap_or(gate.default)
    }

    /// Notes for the log, in upstream's words, about the gates that were set and that upstream will remove.
    pub fn removals(&self) -> Vec<String> {
        let set = self.set.iter().map(|(name, on)| (gate(name).expect("a gate that was set must exist"), on));
        set.filter_map(|(gate, on)| {
            let name = gate.name;
            match gate.stage {
                Stage::Ga => Some(format!(
                    "setting GA feature gate {name}={on}: it will be removed in a future release"
                )),
                Stage::Deprecated => Some(format!(
                    "setting deprecated feature gate {name}={on}: it will be removed in a future release"
                )),
                Stage::Alpha | Stage::Beta => None,
            }
        })
        .collect()
    }

    /// Warnings for the log about the gates that were set and have no effect, since they are not among those that this
    /// program reads.
    pub fn without_effect(&self, read: &BTreeSet<&'static str>) -> Vec<String> {
        let changed = |name: &str, on: bool| gate(name).is_some_and(|gate| gate.default != on);
        let idle = self.set.iter().filter(|(name, on)| changed(name, **on) && !read.contains(*name));
        let idle = idle.map(|(name, on)| {
            format!("feature gate {name}={on} has no effect: no controller of this program reads it")
        });
        let stages = [("AllAlpha", self.alpha), ("AllBeta", self.beta)];
        let stages = stages.into_iter().filter_map(|(name, value)| {
            let value = value?;
            Some(format!(
                "feature gate {name}={value} has no effect on gates that no controller of this program reads"
            ))
        });
        idle.chain(stages).collect()
    }

    /// Registers `kubernetes_feature_enabled`, which has a series for each gate.
    ///
    /// # Errors
    /// The metric is registered already.
    pub fn register(&self, registry: &prometheus::Registry) -> prometheus::Result<()> {
        let help = "This metric records the data about the stage and enablement of a k8s feature.";
        let gauge = IntGaugeVec::new(Opts::new("kubernetes_feature_enabled", help), &["name", "stage"])?;
        for gate in table::GATES {
            gauge.with_label_values(&[gate.name, gate.stage.name()]).set(self.holds(gate).into());
        }
        for (name, stage, on) in [("AllAlpha", Stage::Alpha, self.alpha), ("AllBeta", Stage::Beta, self.beta)]
        {
            gauge.with_label_values(&[name, stage.name()]).set(on.unwrap_or(false).into());
        }
        registry.register(Box::new(gauge))
    }
}

/// The gate with that name.
pub fn gate(name: &str) -> Option<&'static Gate> {
    let at = table::GATES.binary_search_by(|gate| gate.name.cmp(name)).ok()?;
    table::GATES.get(at)
}

/// The names of all gates, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    table::GATES.iter().map(|gate| gate.name)
}

/// Parses Go's words for true and false, as `strconv.ParseBool`.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
