//! The memory of the running process.

use std::error::Error;

/// The highest resident memory since the start, and that of now, as the kernel prints them.
///
/// # Errors
/// If `/proc/self/status` can not be read or lacks them.
pub fn of_this_process() -> Result<(String, String), Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = |name: &str| {
        let found = status.lines().find(|line| line.starts_with(name));
        found.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).ok_or("the kernel must tell")
    };
    Ok((line("VmHWM")?, line("VmRSS")?))
}
