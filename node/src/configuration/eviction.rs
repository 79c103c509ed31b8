//! Eviction thresholds: what the node should not lack.

use std::time::Duration;

use steersman_api::Quantity;

use super::error::Fault;
use super::kubelet_configuration::KubeletConfiguration;

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Memory that the node can still give.
    MemoryAvailable,
    /// Memory that pods can still have of what the node gives them.
    AllocatableMemoryAvailable,
    /// Bytes of the file system with logs and volumes.
    NodeFsAvailable,
    /// Its inodes.
    NodeFsInodesFree,
    /// Bytes of the file system with images.
    ImageFsAvailable,
    /// Its inodes.
    ImageFsInodesFree,
    /// Bytes of the file system with containers' own layers.
    ContainerFsAvailable,
    /// Its inodes.
    ContainerFsInodesFree,
    /// Numbers for processes.
    PidAvailable,
}

impl Signal {
    const ALL: [(Self, &'static str); 9] = [
        (Self::MemoryAvailable, "memory.available"),
        (Self::AllocatableMemoryAvailable, "allocatableMemory.available"),
        (Self::NodeFsAvailable, "nodefs.available"),
        (Self::NodeFsInodesFree, "nodefs.inodesFree"),
        (Self::ImageFsAvailable, "imagefs.available"),
        (Self::ImageFsInodesFree, "imagefs.inodesFree"),
        (Self::ContainerFsAvailable, "containerfs.available"),
        (Self::ContainerFsInodesFree, "containerfs.inodesFree"),
        (Self::PidAvailable, "pid.available"),
    ];

    /// The signal of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(signal, _)| *signal)
    }

    /// As configuration and metrics have it.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(signal, _)| *signal == self).map_or("", |(_, name)| name)
    }
}

/// An amount, or a part of a capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// So much.
    Quantity(Quantity),
    /// That part of the capacity, 1 being all of it.
    Fraction(f32),
}

impl Amount {
    /// How much that is of `capacity`, in whole units; fractions are cut off.
    pub fn of(self, capacity: i64) -> i64 {
        match self {
            Self::Quantity(quantity) => quantity.value(),
            // In double precision, as upstream multiplies; amounts of a machine stay far below 2^53.
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
            Self::Fraction(fraction) => (capacity as f64 * f64::from(fraction)) as i64,
        }
    }
}

/// When less than that is left, pods have to go.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// Of what.
    pub signal: Signal,
    /// How much must be left.
    pub value: Amount,
    /// How long it may be less; none for a hard threshold.
    pub grace_period: Option<Duration>,
    /// How much to reclaim at least.
    pub min_reclaim: Option<Amount>,
}

impl KubeletConfiguration {
    /// The thresholds, hard ones first, by name of their signals. Those of 0% and 100% are none.
    ///
    /// # Errors
    /// The first field that can't be, with its value.
    pub fn thresholds(&self) -> Result<Vec<Threshold>, Fault> {
        let mut thresholds = Vec::new();
        for (name, value) in &self.eviction_hard {
            let (signal, value) = threshold("evictionHard", name, value)?;
            thresholds.extend(value.map(|value| Threshold {
                signal,
                value,
                grace_period: None,
                min_reclaim: None,
            }));
        }
        for name in self.eviction_soft_grace_period.keys() {
            signal("evictionSoftGracePeriod", name)?;
        }
        for (name, value) in &self.eviction_soft {
            let (signal, value) = threshold("evictionSoft", name, value)?;
            let Some(value) = value else { continue };
            let Some(grace) = self.eviction_soft_grace_period.get(name) else {
                let why = "a grace period must be specified for it in evictionSoftGracePeriod";
                return Err(Fault::new(format!("evictionSoft.{name}"), why));
            };
            let grace_period = Some(grace.0);
            thresholds.push(Threshold { signal, value, grace_period, min_reclaim: None });
        }
        for (name, text) in &self.eviction_minimum_reclaim {
            let signal = signal("evictionMinimumReclaim", name)?;
            let amount = amount(text).and_then(|amount| match amount {
                Amount::Fraction(fraction) if fraction <= 0.0 => Err("must be positive".to_owned()),
                Amount::Quantity(quantity) if quantity < Quantity::default() => {
                    Err("must not be negative".to_owned())
                }
                amount => Ok(amount),
            });
            let path = || format!("evictionMinimumReclaim.{name}");
            let amount = amount.map_err(|why| Fault::new(path(), format!("{text:?}: {why}")))?;
            for threshold in thresholds.iter_mut().filter(|threshold| threshold.signal == signal) {
                threshold.min_reclaim = Some(amount);
            }
        }
        Ok(thresholds)
    }
}

fn signal(field: &str, name: &str) -> Result<Signal, Fault> {
    Signal::parse(name).ok_or_else(|| Fault::new(format!("{field}.{name}"), "unsupported eviction signal"))
}

/// None for a threshold that is switched off.
fn threshold(field: &str, name: &str, text: &str) -> Result<(Signal, Option<Amount>), Fault> {
    let signal = signal(field, name)?;
    if text == "0%" || text == "100%" {
        return Ok((signal, None));
    }
    let amount = amount(text).and_then(|amount| match amount {
        Amount::Fraction(fraction) if !(0.0..=1.0).contains(&fraction) => {
            Err("must be between 0% and 100%".to_owned())
        }
        Amount::Quantity(quantity) if quantity <= Quantity::default() => Err("must be positive".to_owned()),
        amount => Ok(amount),
    });
    let fault = |why| Fault::new(format!("{field}.{name}"), format!("{text:?}: {why}"));
    Ok((signal, Some(amount.map_err(fault)?)))
}

fn amount(text: &str) -> Result<Amount, String> {
    match text.strip_suffix('%') {
        Some(percentage) => {
            let percentage: f32 = percentage.parse().map_err(|_| "is no percentage".to_owned())?;
            Ok(Amount::Fraction(percentage / 100.0))
        }
        None => text.parse().map(Amount::Quantity).map_err(|_| "is no quantity".to_owned()),
    }
}
