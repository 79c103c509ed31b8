//! How long a call may take.

use std::time::Duration;

/// The class of a call's deadline, as in upstream's remote runtime. Each method of the traits names its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// `--runtime-request-timeout`.
    Default,
    /// Twice that: setting up a sandbox waits for the network.
    Sandbox,
    /// That, and the time which the call itself asks for.
    After(Duration),
    /// The longer of that and the time which the call itself asks for.
    AtLeast(Duration),
    /// None: the caller gives up when it has waited enough. Pulls, streams, and commands without a timeout.
    Unbounded,
}

impl Deadline {
    /// `--runtime-request-timeout` where nobody sets it.
    pub const DEFAULT: Duration = Duration::from_secs(120);

    /// The time a call has where `default` is the default.
    pub fn limit(self, default: Duration) -> Option<Duration> {
        match self {
            Self::Default => Some(default),
            Self::Sandbox => Some(default.saturating_mul(2)),
            Self::After(asked) => Some(default.saturating_add(asked)),
            Self::AtLeast(asked) => Some(default.max(asked)),
            Self::Unbounded => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_upstreams_length() {
        let seconds = Duration::from_secs;
        for (class, limit) in [
            (Deadline::Default, Some(120)),
            (Deadline::Sandbox, Some(240)),
            (Deadline::After(seconds(30)), Some(150)),
            (Deadline::AtLeast(seconds(30)), Some(120)),
            (Deadline::AtLeast(seconds(300)), Some(300)),
            (Deadline::Unbounded, None),
        ] {
            assert_eq!(class.limit(Deadline::DEFAULT), limit.map(seconds), "{class:?}");
        }
        assert_eq!(Deadline::After(Duration::MAX).limit(seconds(1)), Some(Duration::MAX));
    }
}
