//! The table of controllers, and how they are built.

use std::sync::Arc;

use steersman_informer::AnyInformer;

use crate::context::ControllerContext;
use crate::options::{AnyOptions, OptionSet, Options};
use crate::rbac::Rule;
use crate::runner::{BuiltController, Controllers, Loop, Metrics};

mod selection;
#[cfg(test)]
mod tests;

pub use selection::{Choice, Selection};

/// Makes a controller: asks for its informers, maps their changes to the keys of its queue, and returns its loops.
///
/// Pure and quick: nothing is read from the API server and nothing runs before all controllers are made.
///
/// # Errors
/// The process can't start.
pub type Constructor = fn(&ControllerContext) -> Result<Construction, BoxError>;

/// Whatever kept a controller from being made.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a constructor comes to.
pub enum Construction {
    /// A controller.
    Controller {
        /// What it does.
        loops: Vec<Loop>,
        /// What must have synced before it does anything.
        caches: Vec<Arc<dyn AnyInformer>>,
    },
    /// It is not wanted with these settings.
    Declined {
        /// Why, for the log.
        reason: String,
    },
}

impl Construction {
    /// A controller of these loops, which begin once all `caches` have synced.
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

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Upstream's name.
    pub name: &'static str,
    /// Other names it answers to. Once given, never taken away: they stand in manifests.
    pub aliases: &'static [&'static str],
    /// Whether `*` means it too.
    pub by_default: ByDefault,
    /// Who provides it.
    pub provider: Provider,
    /// The rights that it needs at the API server.
    pub rules: &'static [Rule],
    /// The feature gates that it reads.
    pub gates: &'static [&'static str],
    /// Makes its settings, with their defaults.
    options: Option<fn() -> Box<dyn AnyOptions>>,
}

/// Whether `--controllers=*` enables a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByDefault {
    /// It does.
    On,
    /// It must be named.
    Off,
}

/// Who provides a controller.
#[derive(Clone, Copy, Debug)]
pub enum Provider {
    /// This program.
    Here(Constructor),
    /// kube-controller-manager has it, this program does not have it yet. Its name is known, so that manifests that
    /// enable or disable it by name go on working; it is never run.
    Elsewhere,
}

impl Descriptor {
    /// A controller of this program, on by default.
    pub const fn new(name: &'static str, aliases: &'static [&'static str], constructor: Constructor) -> Self {
        Self { provider: Provider::Here(constructor), ..Self::elsewhere(name, aliases) }
    }

    /// One that this program does not have yet.
    pub const fn elsewhere(name: &'static str, aliases: &'static [&'static str]) -> Self {
        Self {
            name,
            aliases,
            by_default: ByDefault::On,
            provider: Provider::Elsewhere,
            rules: &[],
            gates: &[],
            options: None,
        }
    }

    /// The same controller with settings.
    #[must_use]
    pub const fn options<O: Options>(mut self) -> Self {
        self.options = Some(|| Box::new(O::default()));
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

    /// Whether it answers to `name`.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// Whether this program has it.
    pub fn is_here(&self) -> bool {
        matches!(self.provider, Provider::Here(_))
    }
}

/// Why the controllers can't be had. The process should not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--controllers` names what nobody knows.
    #[error("{name:?} is not in the list of known controllers: {}", known.join(", "))]
    Unknown {
        /// As given, without a leading `-`.
        name: String,
        /// Those of this program, with their aliases.
        known: Vec<String>,
    },
    /// A constructor failed.
    #[error("building {controller}: {source}")]
    Construct {
        /// Which.
        controller: &'static str,
        /// Its error.
        source: BoxError,
    },
}

/// The table of controllers.
#[derive(Clone, Debug)]
pub struct Registry {
    rows: Vec<Descriptor>,
}

impl Registry {
    /// A table of these rows.
    ///
    /// # Panics
    /// If two rows answer to one name.
    pub fn new(rows: Vec<Descriptor>) -> Self {
        let mut names = std::collections::BTreeSet::new();
        for name in rows.iter().flat_map(|row| row.aliases.iter().chain([&row.name])) {
            assert!(names.insert(name), "controllers must not share the name {name:?}");
        }
        Self { rows }
    }

    /// The rows, in the order in which they are built.
    pub fn rows(&self) -> &[Descriptor] {
        &self.rows
    }

    /// The settings of all controllers of this program, with their defaults.
    pub fn options(&self) -> OptionSet {
        OptionSet::of(self.rows.iter().filter_map(|row| row.options).map(|make| make()))
    }

    /// Makes the controllers that are enabled and that this program has. Nothing runs yet.
    ///
    /// # Errors
    /// The first constructor that failed.
    pub fn build(
        &self,
        selection: &Selection,
        context: &ControllerContext,
        metrics: &Metrics,
    ) -> Result<Controllers, Error> {
        let mut built = Vec::new();
        let mut elsewhere = Vec::new();
        for row in &self.rows {
            let controller = row.name;
            match (selection.choice(row), row.provider) {
                (Choice::Disabled, Provider::Here(_)) => tracing::info!(controller, "Controller is disabled"),
                (Choice::Disabled, Provider::Elsewhere) => {}
                (Choice::Named, Provider::Elsewhere) => {
                    tracing::warn!(controller, "Skipping controller: this version does not have it");
                }
                (Choice::ByDefault, Provider::Elsewhere) => elsewhere.push(controller),
                (Choice::Named | Choice::ByDefault, Provider::Here(construct)) => {
                    match construct(context).map_err(|source| Error::Construct { controller, source })? {
                        Construction::Controller { loops, caches } => {
                            built.push(BuiltController { name: controller, loops, caches });
                        }
                        Construction::Declined { reason } => {
                            tracing::info!(controller, reason, "Skipping controller");
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
        Ok(Controllers::new(built, context.clock.clone(), metrics.clone()))
    }
}
