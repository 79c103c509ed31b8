//! Decides the next call of a candidate or leader: client-go's rules as a pure function.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime};
use tokio::time::Instant;

use super::{Config, Mode};

/// The candidate's knowledge of the lease.
#[derive(Debug, Clone)]
pub(super) struct Observed {
    /// The lease as last read or written.
    pub(super) sight: Sight,
    pub(super) trust: Trust,
}

#[derive(Debug, Clone)]
pub(super) enum Sight {
    /// The candidate has never seen the lease.
    Absent,
    /// The lease was deleted. The candidate first saw `spec` at `seen`, and first found the lease absent at `since`.
    /// Expiry counts from `since`: until then, its holder may have renewed it, or another candidate may have taken
    /// it.
    Deleted { spec: LeaseSpec, seen: Instant, since: Instant },
    /// The lease exists. The candidate first saw `spec` at `since`, from where expiry counts. The timestamps in the
    /// lease do not matter, since they come from the clocks of other machines.
    Seen { spec: LeaseSpec, since: Instant },
}

/// How current an [`Observed`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// From an earlier try. Current enough to renew our own lease without a read.
    Remembered,
    /// From before a write that failed.
    Doubtful,
    /// Read in this try, or shown by the watch after it.
    Fresh,
}

/// The next call, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the lease, then decide again.
    Read,
    /// Create the lease with us as its holder.
    Create,
    /// Renew our own lease.
    Renew(Path),
    /// Take a lease that is free or expired.
    TakeOver,
    /// Do nothing: another candidate leads, or may lead.
    Stand(Reason),
}

/// How our own lease is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// Without a read. The server refuses the write if the lease has changed.
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

/// Decides what to do at `now`.
pub(super) fn decide(config: &Config, observed: &Observed, now: Instant) -> Step {
    match (config.mode, &observed.sight, observed.trust) {
        (Mode::Contended, Sight::Seen { spec, since }, Trust::Remembered)
            if ours(config, spec) && now < expiry(spec, *since) =>
        {
            Step::Renew(Path::Fast)
        }
        (_, _, Trust::Remembered | Trust::Doubtful) => Step::Read,
        (Mode::Contended, Sight::Absent, Trust::Fresh) => Step::Create,
        // No other candidate can have taken our lease or created another one yet.
        (Mode::Contended, Sight::Deleted { spec, seen, .. }, Trust::Fresh)
            if ours(config, spec) && now < *seen + config.renew_deadline =>
        {
            Step::Create
        }
        (Mode::Contended, Sight::Deleted { .. }, Trust::Fresh) => {
            if free_at(config, &observed.sight).is_some_and(|free| now < free) {
                Step::Stand(Reason::Deleted)
            } else {
                Step::Create
            }
        }
        (Mode::Contended, Sight::Seen { spec, .. }, Trust::Fresh) => match holder(spec) {
            Some(_) if ours(config, spec) => Step::Renew(Path::Slow),
            Some(other) if free_at(config, &observed.sight).is_some_and(|free| now < free) => {
                Step::Stand(Reason::Held(other.to_owned()))
            }
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

/// How a candidate learns of changes of the lease between two tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// By the tries alone.
    Polls,
    /// By a watch, too.
    Watch,
}

/// Decides when a candidate tries again at the latest, if it hears of nothing before. `jittered` is the wait between two
/// polls.
///
/// It tries as soon as the lease expires. Before that, a candidate with a watch has nothing to ask for as long as the watch
/// shows a renewal in each retry period: it polls only if the watch is silent for one retry period more.
pub(super) fn next_try(
    config: &Config,
    observed: &Observed,
    source: Source,
    jittered: Duration,
    now: Instant,
) -> Instant {
    let poll = match source {
        Source::Polls => now + jittered,
        Source::Watch => now + config.retry_period + jittered,
    };
    match free_at(config, &observed.sight) {
        Some(free) if now < free => poll.min(free),
        _ => poll,
    }
}

/// When the candidate may take or create the lease if it does not change before; `None` if it may already, or never.
fn free_at(config: &Config, sight: &Sight) -> Option<Instant> {
    match (config.mode, sight) {
        (Mode::Coordinated, _) | (_, Sight::Absent) => None,
        // All candidates have the same configuration, so a holder that we never saw has our lease duration.
        (_, Sight::Deleted { spec, since, .. }) => {
            Some(expiry(spec, *since).max(*since + config.lease_duration))
        }
        (_, Sight::Seen { spec, since }) => holder(spec).map(|_| expiry(spec, *since)),
    }
}

/// Whether an event of the watch is a reason to try at once: the lease may be ours to take or to renew.
pub(super) fn calls_for_a_try(config: &Config, observed: &Observed, now: Instant) -> bool {
    !matches!(decide(config, observed, now), Step::Stand(_))
}

/// The holder, or `None` for a released lease.
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

/// The renewed spec of our lease `old`.
pub(super) fn renewed(config: &Config, old: &LeaseSpec, stamp: Timestamp) -> LeaseSpec {
    LeaseSpec {
        acquire_time: old.acquire_time.clone(),
        lease_transitions: Some(old.lease_transitions.unwrap_or(0)),
        strategy: old.strategy.clone().filter(|_| config.mode == Mode::Coordinated),
        ..created(config, stamp)
    }
}

/// The spec by which we take the lease `old` of another candidate.
pub(super) fn taken(config: &Config, old: &LeaseSpec, stamp: Timestamp) -> LeaseSpec {
    let transitions = old.lease_transitions.unwrap_or(0).saturating_add(1);
    LeaseSpec { lease_transitions: Some(transitions), ..created(config, stamp) }
}

/// The spec by which we release our lease `old`, so that any candidate can take it at once.
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
    /// The state before the first read.
    pub(super) fn nothing() -> Self {
        Self { sight: Sight::Absent, trust: Trust::Remembered }
    }

    /// Begins a new try.
    pub(super) fn age(&mut self) {
        if self.trust == Trust::Fresh {
            self.trust = Trust::Remembered;
        }
    }

    /// Records at `now` what a read or the watch shows. Only a change of the lease restarts its expiry.
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

    /// Records that we wrote the lease, in a call that began at `started`.
    pub(super) fn wrote(&mut self, spec: LeaseSpec, started: Instant) {
        *self = Self { sight: Sight::Seen { spec, since: started }, trust: Trust::Remembered };
    }

    /// The spec of the lease, if it exists.
    pub(super) fn spec(&self) -> Option<&LeaseSpec> {
        match &self.sight {
            Sight::Absent | Sight::Deleted { .. } => None,
            Sight::Seen { spec, .. } => Some(spec),
        }
    }
}
