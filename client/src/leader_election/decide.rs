//! What to do about a lease: the rules of client-go's leaderelection package, without calls and without waiting.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime};
use tokio::time::Instant;

use super::{Config, Mode};

/// What is known of the lease.
#[derive(Debug, Clone)]
pub(super) struct Observed {
    /// What was last read or written.
    pub(super) sight: Sight,
    pub(super) trust: Trust,
}

#[derive(Debug, Clone)]
pub(super) enum Sight {
    /// Never seen.
    Absent,
    /// Deleted: first seen to be absent at `since`, after it had been in the form `spec` from `seen` on. Until `since`
    /// its holder may have renewed it, or another candidate have taken it: expiry counts from there.
    Deleted { spec: LeaseSpec, seen: Instant, since: Instant },
    /// There, and so since we first saw it in this form: expiry counts from here. The stamps inside, made by other
    /// machines' clocks, are never judged.
    Seen { spec: LeaseSpec, since: Instant },
}

/// How far an [`Observed`] goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// From an earlier try: good enough to renew our own lease without a read.
    Remembered,
    /// A write failed since.
    Doubtful,
    /// Read in this try.
    Fresh,
}

/// The next call, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the lease, then decide again.
    Read,
    /// Create the lease, ours.
    Create,
    /// Renew our own lease; what was read is known to be current or not.
    Renew(Path),
    /// Take a lease that nobody holds any more.
    TakeOver,
    /// Nothing: somebody else leads, or is to.
    Stand(Reason),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// Without a read: the server refuses if the lease was changed meanwhile.
    Fast,
    /// After a read.
    Slow,
}

/// Why a candidate does nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Reason {
    #[error("lease is held by {0} and has not yet expired")]
    Held(String),
    #[error("lease was deleted, and the term of its last holder may not have expired yet")]
    Deleted,
    #[error("no lease yet: the coordinator creates it")]
    NotCreated,
    #[error("lease has expired: the coordinator gives it out again")]
    Expired,
    #[error("lease is marked as end of term, in favour of {0}")]
    EndOfTerm(String),
}

/// What to do about the lease at `now`.
pub(super) fn decide(config: &Config, observed: &Observed, now: Instant) -> Step {
    match (config.mode, &observed.sight, observed.trust) {
        (Mode::Contended, Sight::Seen { spec, since }, Trust::Remembered)
            if ours(config, spec) && now < expiry(spec, *since) =>
        {
            Step::Renew(Path::Fast)
        }
        (_, _, Trust::Remembered | Trust::Doubtful) => Step::Read,
        (Mode::Contended, Sight::Absent, Trust::Fresh) => Step::Create,
        // No other candidate can have taken our lease yet, or created one.
        (Mode::Contended, Sight::Deleted { spec, seen, .. }, Trust::Fresh)
            if ours(config, spec) && now < *seen + config.renew_deadline =>
        {
            Step::Create
        }
        (Mode::Contended, Sight::Deleted { spec, since, .. }, Trust::Fresh) => {
            // Candidates are configured alike: a holder that we never saw has the duration that we have.
            if now < expiry(spec, *since).max(*since + config.lease_duration) {
                Step::Stand(Reason::Deleted)
            } else {
                Step::Create
            }
        }
        (Mode::Contended, Sight::Seen { spec, since }, Trust::Fresh) => match holder(spec) {
            Some(_) if ours(config, spec) => Step::Renew(Path::Slow),
            Some(other) if now < expiry(spec, *since) => Step::Stand(Reason::Held(other.to_owned())),
            _ => Step::TakeOver,
        },
        (Mode::Coordinated, Sight::Absent | Sight::Deleted { .. }, Trust::Fresh) => {
            Step::Stand(Reason::NotCreated)
        }
        (Mode::Coordinated, Sight::Seen { spec, since }, Trust::Fresh) => {
            let preferred = spec.preferred_holder.as_deref().filter(|name| !name.is_empty());
            match preferred {
                _ if expiry(spec, *since) < now => Step::Stand(Reason::Expired),
                _ if !ours(config, spec) => {
                    Step::Stand(Reason::Held(holder(spec).unwrap_or_default().to_owned()))
                }
                Some(other) => Step::Stand(Reason::EndOfTerm(other.to_owned())),
                None => Step::Renew(Path::Slow),
            }
        }
    }
}

/// The holder; `None` for a lease that was released.
pub(super) fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity.as_deref().filter(|name| !name.is_empty())
}

pub(super) fn ours(config: &Config, spec: &LeaseSpec) -> bool {
    spec.holder_identity.as_ref() == Some(&config.identity)
}

fn expiry(spec: &LeaseSpec, since: Instant) -> Instant {
    let seconds = spec.lease_duration_seconds.unwrap_or(0);
    since + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// The spec of a new lease.
pub(super) fn created(config: &Config, stamp: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(config.identity.clone()),
        lease_duration_seconds: Some(config.lease_duration_seconds()),
        acquire_time: Some(MicroTime(stamp)),
        renew_time: Some(MicroTime(stamp)),
        lease_transitions: Some(0),
        preferred_holder: None,
        strategy: None,
    }
}

/// The spec of `old`, which is ours, renewed.
pub(super) fn renewed(config: &Config, old: &LeaseSpec, stamp: Timestamp) -> LeaseSpec {
    LeaseSpec {
        acquire_time: old.acquire_time.clone(),
        lease_transitions: Some(old.lease_transitions.unwrap_or(0)),
        strategy: old.strategy.clone().filter(|_| config.mode == Mode::Coordinated),
        ..created(config, stamp)
    }
}

/// The spec of `old`, which was somebody else's, taken.
pub(super) fn taken(config: &Config, old: &LeaseSpec, stamp: Timestamp) -> LeaseSpec {
    let transitions = old.lease_transitions.unwrap_or(0).saturating_add(1);
    LeaseSpec { lease_transitions: Some(transitions), ..created(config, stamp) }
}

/// The spec of `old`, which is ours, given up: free at once for all.
pub(super) fn released(old: &LeaseSpec, stamp: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(stamp)),
        renew_time: Some(MicroTime(stamp)),
        lease_transitions: Some(old.lease_transitions.unwrap_or(0)),
        preferred_holder: None,
        strategy: None,
    }
}

impl Observed {
    /// Nothing known yet.
    pub(super) fn nothing() -> Self {
        Self { sight: Sight::Absent, trust: Trust::Remembered }
    }

    /// A new try begins.
    pub(super) fn age(&mut self) {
        if self.trust == Trust::Fresh {
            self.trust = Trust::Remembered;
        }
    }

    /// The lease was read, at `now`. Only a change starts its time anew.
    pub(super) fn read(&mut self, found: Option<LeaseSpec>, now: Instant) {
        self.trust = Trust::Fresh;
        match (&self.sight, found) {
            (Sight::Absent | Sight::Deleted { .. }, None) => {}
            (Sight::Seen { spec, since }, None) => {
                self.sight = Sight::Deleted { spec: spec.clone(), seen: *since, since: now };
            }
            (Sight::Seen { spec, .. }, Some(found)) if *spec == found => {}
            (_, Some(spec)) => self.sight = Sight::Seen { spec, since: now },
        }
    }

    /// We wrote the lease, in a call begun at `started`.
    pub(super) fn wrote(&mut self, spec: LeaseSpec, started: Instant) {
        *self = Self { sight: Sight::Seen { spec, since: started }, trust: Trust::Remembered };
    }

    /// The lease that is there.
    pub(super) fn spec(&self) -> Option<&LeaseSpec> {
        match &self.sight {
            Sight::Absent | Sight::Deleted { .. } => None,
            Sight::Seen { spec, .. } => Some(spec),
        }
    }
}
