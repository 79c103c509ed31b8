//! Whether the machine runs short of memory, disk or tasks. Pure, but for [`Usage::measure`].
//!
//! As upstream's eviction manager tells it: a pressure is seen while less than a threshold is left, soft ones too, and told of
//! until it was not seen for a while. Nothing is evicted here.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::configuration::{Signal, Threshold};
use crate::machine::{Amount, FileSystem, Machine};

/// What the machine runs short of. In the order in which upstream lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pressure {
    /// Of memory.
    Memory,
    /// Of space or inodes.
    Disk,
    /// Of tasks.
    Pid,
}

impl Pressure {
    /// The type of the condition that tells of it.
    pub fn condition(self) -> &'static str {
        match self {
            Self::Memory => "MemoryPressure",
            Self::Disk => "DiskPressure",
            Self::Pid => "PIDPressure",
        }
    }
}

impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.condition())
    }
}

/// What is left of everything that can run short; `None` for what could not be measured, which counts as enough.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Memory.
    pub memory: Option<Amount>,
    /// Where the node keeps its pods.
    pub node_fs: Option<FileSystem>,
    /// Where the runtime keeps images.
    pub image_fs: Option<FileSystem>,
    /// Tasks.
    pub tasks: Option<Amount>,
}

impl Usage {
    /// Measures. Blocks. What fails is logged.
    pub fn measure(machine: &Machine, root_dir: &Path, image_fs: Option<&Path>) -> Self {
        Self {
            memory: logged(machine.memory_usage()),
            node_fs: logged(FileSystem::of(root_dir)),
            image_fs: image_fs.and_then(|path| logged(FileSystem::of(path))),
            tasks: logged(machine.task_usage()),
        }
    }

    fn of(&self, signal: Signal) -> Option<Amount> {
        match signal {
            Signal::MemoryAvailable => self.memory,
            // Containers lie either with the pods or with the images, and have that file system's thresholds; what pods
            // may still have of their own memory is not measured.
            Signal::AllocatableMemoryAvailable
            | Signal::ContainerFsAvailable
            | Signal::ContainerFsInodesFree => None,
            Signal::NodeFsAvailable => self.node_fs.map(|file_system| file_system.bytes),
            Signal::NodeFsInodesFree => self.node_fs.map(|file_system| file_system.inodes),
            Signal::ImageFsAvailable => self.image_fs.map(|file_system| file_system.bytes),
            Signal::ImageFsInodesFree => self.image_fs.map(|file_system| file_system.inodes),
            Signal::PidAvailable => self.tasks,
        }
    }
}

fn logged<T>(measured: Result<T, crate::machine::Error>) -> Option<T> {
    measured.inspect_err(|error| tracing::warn!(%error, "Usage could not be measured")).ok()
}

/// The pressures that these thresholds show.
pub fn pressures(thresholds: &[Threshold], usage: &Usage) -> BTreeSet<Pressure> {
    let met = |threshold: &&Threshold| {
        usage
            .of(threshold.signal)
            .is_some_and(|amount| threshold.value.of(amount.capacity) > amount.available)
    };
    thresholds.iter().filter(met).map(|threshold| pressure_of(threshold.signal)).collect()
}

fn pressure_of(signal: Signal) -> Pressure {
    match signal {
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => Pressure::Memory,
        Signal::ContainerFsAvailable
        | Signal::ContainerFsInodesFree
        | Signal::NodeFsAvailable
        | Signal::NodeFsInodesFree
        | Signal::ImageFsAvailable
        | Signal::ImageFsInodesFree => Pressure::Disk,
        Signal::PidAvailable => Pressure::Pid,
    }
}

/// When each pressure was last seen.
#[derive(Debug, Default)]
pub struct LastSeen(Vec<(Pressure, Instant)>);

impl LastSeen {
    /// Takes in what is seen `now`; answers with what is to be told: all that was seen less than `period` ago.
    pub fn update(
        &mut self,
        seen: &BTreeSet<Pressure>,
        period: Duration,
        now: Instant,
    ) -> BTreeSet<Pressure> {
        self.0.retain(|(known, at)| !seen.contains(known) && now.saturating_duration_since(*at) < period);
        self.0.extend(seen.iter().map(|pressure| (*pressure, now)));
        self.0.iter().map(|(pressure, _)| *pressure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(available: i64, capacity: i64) -> Amount {
        Amount { available, capacity }
    }

    fn seen(usage: Usage) -> Vec<Pressure> {
        let mut configuration = crate::configuration::KubeletConfiguration::default();
        configuration.eviction_hard.insert("pid.available".to_owned(), "10".to_owned());
        pressures(&configuration.thresholds().unwrap(), &usage).into_iter().collect()
    }

    #[test]
    fn less_than_a_threshold_is_a_pressure() {
        let plenty = FileSystem { bytes: amount(50, 100), inodes: amount(50, 100) };
        let fs =
            |bytes, inodes| Some(FileSystem { bytes: amount(bytes, 1000), inodes: amount(inodes, 1000) });
        let enough = Usage {
            memory: Some(amount(100 << 20, 1 << 30)),
            node_fs: Some(plenty),
            image_fs: Some(plenty),
            tasks: Some(amount(10, 100)),
        };
        for (usage, expected) in [
            (Usage::default(), vec![]),
            (enough, vec![]),
            (Usage { memory: Some(amount((100 << 20) - 1, 1 << 30)), ..enough }, vec![Pressure::Memory]),
            (Usage { node_fs: fs(99, 500), ..enough }, vec![Pressure::Disk]),
            (Usage { node_fs: fs(500, 49), ..enough }, vec![Pressure::Disk]),
            (Usage { image_fs: fs(149, 500), ..enough }, vec![Pressure::Disk]),
            (Usage { image_fs: fs(500, 49), ..enough }, vec![Pressure::Disk]),
            (
                Usage { tasks: Some(amount(9, 100)), node_fs: fs(0, 0), ..enough },
                vec![Pressure::Disk, Pressure::Pid],
            ),
        ] {
            assert_eq!(seen(usage), expected, "{usage:?}");
        }
        let without_inodes = FileSystem { bytes: amount(50, 100), inodes: amount(0, 0) };
        assert_eq!(seen(Usage { node_fs: Some(without_inodes), ..enough }), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pressure_is_told_of_for_a_while_after_it_was_last_seen() {
        let (mut last, period) = (LastSeen::default(), Duration::from_secs(300));
        let (memory, none) = (BTreeSet::from([Pressure::Memory]), BTreeSet::new());
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(last.update(&none, period, start), none);
        assert_eq!(last.update(&memory, period, at(10)), memory);
        assert_eq!(last.update(&memory, period, at(20)), memory);
        assert_eq!(last.update(&none, period, at(319)), memory);
        assert_eq!(last.update(&none, period, at(320)), none);
    }
}
