//! Limits on the connections of the port's clients.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// Maximum number of connections. Probes and collectors need a few each.
const CONNECTIONS: u64 = 128;
/// Connections take at most one in this many of the descriptors that the process may open.
const DESCRIPTORS: u64 = 4;

/// How many connections clients may have, and how long a connection may be idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Maximum number of connections, at least 1.
    pub(super) connections: usize,
    /// How long a connection may take to send the head of its first request.
    pub(super) first_request: Duration,
    /// How long a connection may take, from the head of one request, to read the answer and send the head of the next.
    pub(super) next_request: Duration,
}

impl Limits {
    /// The limits that go with the number of descriptors that this process may open.
    pub(super) fn of_process() -> Self {
        Self::within(getrlimit(Resource::Nofile).current)
    }

    /// The limits of a process that may open this many descriptors; `None` stands for any number. The times are
    /// upstream's `ReadHeaderTimeout` and `IdleTimeout` (k8s.io/apiserver, pkg/server/secure_serving.go).
    fn within(descriptors: Option<u64>) -> Self {
        let connections = descriptors.map_or(CONNECTIONS, |all| (all / DESCRIPTORS).clamp(1, CONNECTIONS));
        Self {
            connections: usize::try_from(connections).unwrap_or(usize::MAX),
            first_request: Duration::from_secs(32),
            next_request: Duration::from_secs(90),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_most_of_the_descriptors_to_others() {
        for (descriptors, connections) in
            [(None, 128), (Some(1 << 20), 128), (Some(512), 128), (Some(256), 64), (Some(2), 1)]
        {
            assert_eq!(Limits::within(descriptors).connections, connections, "{descriptors:?}");
        }
    }
}
