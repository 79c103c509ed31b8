//! What the two programs share: the allocator of the published program, and the line that `benches/informer.sh` reads.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

#[path = "../../../src/alloc.rs"]
mod alloc;

/// Prints how long an informer took to sync, and the memory of the process.
///
/// # Errors
/// If `/proc/self/status` can't be read or lacks the memory, or standard output is closed.
pub fn report(informer: &str, pods: usize, took: Duration) -> Result<(), Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = |name: &str| {
        let found = status.lines().find(|line| line.starts_with(name));
        found.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).ok_or("the kernel must tell")
    };
    let (peak, resident, took) = (line("VmHWM")?, line("VmRSS")?, took.as_millis());
    writeln!(std::io::stdout(), "{informer} informer: {pods} pods synced in {took}ms, {peak}, {resident}")?;
    Ok(())
}
