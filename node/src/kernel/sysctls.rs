//! The sysctls that a node needs, as upstream's `setupKernelTunables` has them.

use std::path::PathBuf;
use std::{fs, io};

use super::Kernel;

/// A sysctl by its path under `/proc/sys`, and the value that nodes need.
type Wanted = (&'static str, i64);

/// Upstream's values (`component-helpers/node/util/sysctl`).
pub(super) const WANTED: [Wanted; 6] = [
    // Memory that pods asked for and do not use is no reason to refuse others theirs.
    ("vm/overcommit_memory", 1),
    // The kernel kills processes when memory runs out; it does not panic.
    ("vm/panic_on_oom", 0),
    // A machine that panics restarts after 10 seconds.
    ("kernel/panic", 10),
    ("kernel/panic_on_oops", 1),
    // Runtimes create a key for each container, of 25 bytes on average.
    ("kernel/keys/root_maxkeys", 1_000_000),
    ("kernel/keys/root_maxbytes", 25_000_000),
];

/// The sysctls that differ from what nodes need, where `protectKernelDefaults` forbids to set them. The start must end.
#[derive(Debug, thiserror::Error)]
#[error("protectKernelDefaults: {}", .0.join("; "))]
pub struct Mismatches(Vec<String>);

/// A sysctl that must be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: &'static str,
    pub(super) from: i64,
    pub(super) to: i64,
}

/// What to set, and what could not be read and why. `read` has the contents of a sysctl's file.
pub(super) fn plan(
    read: impl Fn(&'static str) -> io::Result<String>,
) -> (Vec<Change>, Vec<(&'static str, String)>) {
    let (mut changes, mut unreadable) = (Vec::new(), Vec::new());
    for (path, wanted) in WANTED {
        match read(path).map(|text| text.trim().parse::<i64>()) {
            Ok(Ok(value)) if value == wanted => {}
            Ok(Ok(value)) => changes.push(Change { path, from: value, to: wanted }),
            Ok(Err(error)) => unreadable.push((path, error.to_string())),
            Err(error) => unreadable.push((path, error.to_string())),
        }
    }
    (changes, unreadable)
}

/// The name of a sysctl, such as `vm.overcommit_memory`.
fn name(path: &str) -> String {
    path.replace('/', ".")
}

impl Kernel {
    /// Sets the sysctls that differ from what nodes need. Logs a warning for each that the machine refuses: in a user
    /// namespace, or in a container, they belong to somebody else. Blocks shortly.
    pub fn set_sysctls(&self) {
        let (changes, unreadable) = plan(|path| fs::read_to_string(self.file(path)));
        for (path, error) in unreadable {
            tracing::warn!(sysctl = name(path), error, "Can't read a kernel setting that nodes need");
        }
        for Change { path, from, to } in changes {
            match fs::write(self.file(path), to.to_string()) {
                Ok(()) => tracing::info!(sysctl = name(path), from, to, "Set a kernel setting"),
                Err(error) => {
                    tracing::warn!(sysctl = name(path), from, to, %error, "Can't set a kernel setting that nodes need");
                }
            }
        }
    }

    /// Checks that all sysctls have the values that nodes need, and changes nothing. Blocks shortly.
    ///
    /// # Errors
    /// Some have not, or can't be read.
    pub fn check_sysctls(&self) -> Result<(), Mismatches> {
        let (changes, unreadable) = plan(|path| fs::read_to_string(self.file(path)));
        let differing = changes.into_iter().map(|Change { path, from, to }| {
            format!("invalid kernel flag: {}, expected value: {to}, actual value: {from}", name(path))
        });
        let unreadable =
            unreadable.into_iter().map(|(path, error)| format!("reading {}: {error}", name(path)));
        let all: Vec<String> = differing.chain(unreadable).collect();
        if all.is_empty() { Ok(()) } else { Err(Mismatches(all)) }
    }

    fn file(&self, path: &str) -> PathBuf {
        self.root.join("proc/sys").join(path)
    }
}
