//! The table of controllers, and the code that builds them.

use std::sync::Arc;

use steersman_informer::AnyInformer;

use crate::context::ControllerContext;
use crate::feature_gates;
use crate::options::{AnyOptions, OptionSet, Options};
use crate::rbac::Rule;
use crate::runner::{BuiltController, Controllers, Disabled, Loop, Metrics};

mod selection;
#[cfg(test)]
mod tests;
mod upstream;

pub use selection::{Choice, Selection};

/// Builds a controller: requests its informers, maps their changes to the keys of its queue, and returns its loops.
///
/// A constructor must be quick, call no API server and start no task: the manager builds all controllers before it
/// starts any.
///
/// # Errors
/// Whatever keeps the controller from being built. The process then does not start.
pub type Constructor = fn(&ControllerContext) -> Result<Construction, BoxError>;

/// Why a controller could not be built.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The result of a constructor.
pub enum Construction {
    /// A controller.
    Controller {
        /// Its loops, which run while this process leads.
        loops: Vec<Loop>,
        /// The caches that must sync before the loops start.
        caches: Vec<Arc<dyn AnyInformer>>,
    },
    /// No controller: the settings turn it off.
    Declined {
        /// The reason, which the manager logs.
        reason: String,
    },
}

impl Construction {
    /// A controller with these loops, which start once all `caches` have synced.
    pub fn new(
        loops: impl IntoIterator<Item = Loop>,
        caches: impl IntoIterator<Item = Arc<dyn AnyInformer>>,
    ) -> Self {
        Self::Controller { loops: loops.into_iter().collect(), caches: caches.into_iter().collect() }
    }

    /// No controller, for this reason.
    pub fn declined(reason: impl Into<String>) -> Self {
        Self::Declined { reason: reason.into() }
    }
}

/// A row of the table: one controller.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Upstream's name for the controller.
    pub name: &'static str,
    /// Other names that `--controllers` accepts. Never remove one: manifests contain them.
    pub aliases: &'static [&'static str],
    /// Whether `--controllers=*` enables the controller.
    pub by_default: ByDefault,
    /// The program that has the controller.
    pub provider: Provider,
    /// The rights that the controller needs at the API server.
    pub rules: &'static [Rule],
    /// The feature gates that the controller reads.
    pub gates: &'static [&'static str],
    /// Makes the controller's settings, with their defaults.
    options: Option<fn() -> Box<dyn AnyOptions>>,
    /// As `options`, for those in a section of the configuration that is not the controller's own.
    shared_options: Option<fn() -> Box<dyn AnyOptions>>,
}

/// Whether `--controllers=*` enables a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByDefault {
    /// `*` enables it.
    On,
    /// Only its name enables it.
    Off,
}

/// The program that has a controller.
#[derive(Clone, Copy, Debug)]
pub enum Provider {
    /// This program.
    Here(Constructor),
    /// kube-controller-manager; this program does not have the controller yet, and never runs it. `--controllers`
    /// accepts its name, so that manifests that enable or disable it by name still work.
    Elsewhere,
}

impl Descriptor {
    /// A controller of this program, on by default.
    pub const fn new(name: &'static str, aliases: &'static [&'static str], constructor: Constructor) -> Self {
        Self { provider: Provider::Here(constructor), ..Self::elsewhere(name, aliases) }
    }

    /// A controller that this program does not have yet.
    pub const fn elsewhere(name: &'static str, aliases: &'static [&'static str]) -> Self {
        Self {
            name,
            aliases,
            by_default: ByDefault::On,
            provider: Provider::Elsewhere,
            rules: &[],
            gates: &[],
            options: None,
            shared_options: None,
        }
    }

    /// The same controller with settings.
    #[must_use]
    pub const fn options<O: Options>(mut self) -> Self {
        self.options = Some(|| Box::new(O::default()));
        self
    }

    /// The same controller with settings in a second section of the configuration, which upstream shares among
    /// controllers. Only one row of a table may have the same settings.
    #[must_use]
    pub const fn shared_options<O: Options>(mut self) -> Self {
        self.shared_options = Some(|| Box::new(O::default()));
        self
    }

    /// The same controller with the rights that it needs.
    #[must_use]
    pub const fn rules(mut self, rules: &'static [Rule]) -> Self {
        self.rules = rules;
        self
    }

    /// The same controller with the feature gates that it reads.
    #[must_use]
    pub const fn gates(mut self, gates: &'static [&'static str]) -> Self {
        self.gates = gates;
        self
    }

    /// The same controller, which runs only if `--controllers` names it.
    #[must_use]
    pub const fn off_by_default(mut self) -> Self {
        self.by_default = ByDefault::Off;
        self
    }

    /// Whether `name` is the controller's name or an alias of it.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// Whether the controller does not run unless a feature gate is set.
    fn is_experiment(&self) -> bool {
        let gates = self.required_gates().iter().filter_map(|name| feature_gates::gate(name));
        gates.into_iter().any(|gate| !gate.default)
    }

    /// Whether this program has the controller.
    pub fn is_here(&self) -> bool {
        matches!(self.provider, Provider::Here(_))
    }
}

/// Why the controllers can't be built. The process should not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--controllers` names an unknown controller.
    #[error("{name:?} is not in the list of known controllers: {}", known.join(", "))]
    Unknown {
        /// The item without its leading `-`.
        name: String,
        /// The controllers of this program, with their aliases.
        known: Vec<String>,
    },
    /// A constructor failed.
    #[error("building {controller}: {source}")]
    Construct {
        /// The controller's name.
        controller: &'static str,
        /// The constructor's error.
        source: BoxError,
    },
}

/// The table of controllers.
#[derive(Clone, Debug)]
pub struct Registry {
    rows: Vec<Descriptor>,
}

impl Registry {
    /// A table with these rows.
    ///
    /// # Panics
    /// If two rows share a name or an alias.
    pub fn new(rows: Vec<Descriptor>) -> Self {
        let mut names = std::collections::BTreeSet::new();
        for name in rows.iter().flat_map(|row| row.aliases.iter().chain([&row.name])) {
            assert!(names.insert(name), "controllers must not share the name {name:?}");
        }
        Self { rows }
    }

    /// The rows, in the order in which [`build`](Self::build) builds them.
    pub fn rows(&self) -> &[Descriptor] {
        &self.rows
    }

    /// The settings of all controllers of this program, with their defaults.
    pub fn options(&self) -> OptionSet {
        OptionSet::of(
            self.rows
                .iter()
                .flat_map(|row| row.options.into_iter().chain(row.shared_options))
                .map(|make| make()),
        )
    }

    /// Builds the controllers of this program that `selection` enables. They do not run yet.
    ///
    /// # Errors
    /// The error of the first constructor that failed.
    pub fn build(
        &self,
        selection: &Selection,
        context: &ControllerContext,
        metrics: &Metrics,
    ) -> Result<Controllers, Error> {
        let mut built = Vec::new();
        let (mut elsewhere, mut disabled) = (Vec::new(), Vec::new());
        let mut disable = |controller, reason: String| disabled.push(Disabled { controller, reason });
        for row in &self.rows {
            let controller = row.name;
            let choice = selection.choice(row);
            if choice == Choice::Disabled {
                tracing::info!(controller, "Warning: controller is disabled");
                disable(controller, "--controllers does not enable it".to_owned());
                continue;
            }
            if row.required_gates().iter().any(|gate| !context.gates.enabled(gate)) {
                let gates = row.required_gates();
                tracing::info!(controller, requiredFeatureGates = ?gates, "Controller is disabled by a feature gate");
                disable(controller, format!("needs the feature gates {}", gates.join(", ")));
                continue;
            }
            if row.is_of_cloud_provider() {
                tracing::info!(controller, "Skipping a cloud provider controller");
                disable(controller, "belongs to cloud providers".to_owned());
                continue;
            }
            if !row.is_here() {
                disable(controller, "this version does not have it".to_owned());
            }
            match row.provider {
                Provider::Elsewhere if row.is_experiment() || choice == Choice::Named => {
                    let gates = row.required_gates();
                    tracing::warn!(
                        controller,
                        requiredFeatureGates = ?gates,
                        "Skipping controller: this version does not have it, though it is switched on"
                    );
                }
                Provider::Elsewhere => elsewhere.push(controller),
                Provider::Here(construct) => {
                    let acting = row.account().map(|account| context.acting_as(account));
                    let context = acting.as_ref().unwrap_or(context);
                    match construct(context).map_err(|source| Error::Construct { controller, source })? {
                        Construction::Controller { loops, caches } => {
                            built.push(BuiltController { name: controller, loops, caches });
                        }
                        Construction::Declined { reason } => {
                            tracing::info!(controller, reason, "Warning: skipping controller");
                            disable(controller, reason);
                        }
                    }
                }
            }
        }
        if !elsewhere.is_empty() {
            let controllers = elsewhere.join(", ");
            tracing::warn!(
                controllers,
                "Controllers of kube-controller-manager that this version does not have"
            );
        }
        let first_looks = context.first_looks.clone();
        let controllers = Controllers::new(built, context.clock.clone(), metrics.clone(), first_looks);
        Ok(controllers.with_disabled(disabled))
    }
}
