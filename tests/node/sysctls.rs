//! Kernel settings that agents change and that are not theirs to keep.

use std::path::PathBuf;

/// The sysctls that agents set, under `/proc/sys`.
const SET_BY_AGENTS: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

/// The sysctls of this machine as they were. Writes them back when it is dropped.
pub struct Sysctls(Vec<(PathBuf, String)>);

impl Sysctls {
    /// As they are now.
    pub fn now() -> Self {
        let paths = SET_BY_AGENTS.map(|path| PathBuf::from("/proc/sys").join(path));
        Self(
            paths
                .into_iter()
                .filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?)))
                .collect(),
        )
    }
}

impl Drop for Sysctls {
    fn drop(&mut self) {
        for (path, value) in &self.0 {
            // One that agents may not write either is as it was.
            let _ = std::fs::write(path, value.trim());
        }
    }
}
