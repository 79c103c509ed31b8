//! What a process has taken of the machine.

use std::fs;
use std::io;
use std::time::Duration;

use crate::Error;

/// A process of this machine.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
}

/// What a process has taken until some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Resident memory now, in bytes.
    pub(crate) resident: u64,
    /// The most resident memory since the process started, in bytes.
    pub(crate) peak: u64,
    /// Processor time since the process started, in user and system mode.
    pub(crate) processor: Duration,
}

impl Process {
    pub(crate) fn new(pid: u32) -> Self {
        Self { pid }
    }

    /// What the process has taken until now.
    ///
    /// # Errors
    /// The process has ended.
    pub(crate) fn usage(&self) -> Result<Usage, Error> {
        let read = |name: &str| match fs::read_to_string(format!("/proc/{}/{name}", self.pid)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::Ended { pid: self.pid }),
            read => read.map_err(|source| Error::Process { pid: self.pid, source }),
        };
        let (status, stat) = (read("status")?, read("stat")?);
        let (resident, peak) = (kilobytes(&status, "VmRSS"), kilobytes(&status, "VmHWM"));
        let (Some(resident), Some(peak), Some(ticks)) = (resident, peak, ticks(&stat)) else {
            // A process that has ended, and whose parent has not yet taken notice, has no memory.
            return Err(Error::Ended { pid: self.pid });
        };
        let processor = Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second());
        Ok(Usage { resident: resident * 1024, peak: peak * 1024, processor })
    }
}

/// A field of `/proc/PID/status`, in kB.
fn kilobytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Ticks in user and system mode. The name, in brackets, may have spaces, so the fields are counted behind it.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_time() {
        let usage = Process::new(std::process::id()).usage().unwrap();
        assert!(usage.peak >= usage.resident && usage.resident > 100_000, "{usage:?}");
    }

    #[test]
    fn a_name_with_brackets_and_spaces_hides_nothing() {
        assert_eq!(ticks("7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0"), Some(42));
    }

    #[test]
    fn a_process_that_does_not_exist_has_ended() {
        assert!(matches!(Process::new(u32::MAX).usage(), Err(Error::Ended { .. })));
    }
}
