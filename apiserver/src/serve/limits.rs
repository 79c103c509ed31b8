//! Limits on clients of a server.

use std::time::Duration;

/// Limits on clients of a server that listens. Times are upstream's where upstream has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of open connections, never more than half of the descriptors that the process may open. Beyond it, a new
    /// connection closes another one by the rule of [`steersman_serving::accept()`]. Default: 4,096.
    pub connections: usize,
    /// How long a client may take for its TLS handshake. Default: 32 seconds.
    pub handshake: Duration,
    /// How long a connection may be open without a request: nothing is sent, or a request begins and does not get past its
    /// headers. Its client is told, as far as its protocol can, and has a few seconds more to take note. Default: 90 seconds.
    pub idle: Duration,
    /// How long a client may leave an answer unread, as far as it is not on its way already: then its connection ends. Of a
    /// watch that is the time since its last event was taken, and only the watch ends. Logs and streams have no such limit.
    /// Default: 60 seconds.
    pub unread: Duration,
    /// How often a client that speaks HTTP/2 is asked whether it is there. Default: 30 seconds.
    pub ping: Duration,
    /// How long it may take to say so. Default: 20 seconds.
    pub pong: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            handshake: Duration::from_secs(32),
            idle: Duration::from_secs(90),
            unread: Duration::from_secs(60),
            ping: Duration::from_secs(30),
            pong: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// As far as the process can open as many, of whom others need some too.
    pub(super) fn within(self, descriptors: Option<u64>) -> Self {
        let half = descriptors.and_then(|all| usize::try_from(all / 2).ok()).unwrap_or(usize::MAX);
        Self { connections: self.connections.min(half.max(1)), ..self }
    }
}

/// How many descriptors this process may open; `None` where it may open any number.
pub(super) fn descriptors() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_half_of_the_descriptors_to_others() {
        let limits = Limits { connections: 1000, ..Limits::default() };
        for (descriptors, expected) in [(None, 1000), (Some(4096), 1000), (Some(1024), 512), (Some(1), 1)] {
            assert_eq!(limits.within(descriptors).connections, expected, "{descriptors:?}");
        }
    }
}
