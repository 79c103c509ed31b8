//! The number of requests under way, with a fair share for each user.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::IntGauge;
use steersman_serving::Shares;

use crate::access::{Identity, MASTERS};

/// Limits how many requests are under way. Reads and writes have separate limits.
///
/// A user may have at most as many requests under way as places remain free, so one user alone gets half of a limit. Members of
/// `system:masters` are not limited, as upstream's priority level `exempt` has it, and neither are parts of the cluster that share the
/// process: they must get through when users send too much. Watches, logs, streams and health checks do not count. A server that lets everybody do everything has
/// no limits.
pub(crate) struct InFlight {
    reads: Arc<Gate>,
    writes: Arc<Gate>,
}

struct Gate {
    /// `None` without a limit.
    shares: Option<Mutex<Shares<Arc<str>>>>,
    count: IntGauge,
}

/// The place of a request among those under way, until this is dropped.
pub(crate) struct Turn {
    gate: Arc<Gate>,
    /// `None` if the user is not limited.
    user: Option<Arc<str>>,
}

impl InFlight {
    /// At most so many that read, and so many that write; 0 for no limit. They are counted in these gauges.
    pub(crate) fn limited_to((reads, read): (usize, IntGauge), (writes, written): (usize, IntGauge)) -> Self {
        let gate = |limit: usize, count| {
            Arc::new(Gate { shares: (limit > 0).then(|| Mutex::new(Shares::of(limit))), count })
        };
        Self { reads: gate(reads, read), writes: gate(writes, written) }
    }

    /// A place for a request. `None` if the user has too many under way.
    pub(crate) fn begin(&self, who: &Identity, is_write: bool) -> Option<Turn> {
        let gate = if is_write { &self.writes } else { &self.reads };
        let limited = gate.shares.as_ref().filter(|_| !who.is_in(MASTERS));
        let user = match limited {
            Some(shares) => {
                let user: Arc<str> = who.user.as_str().into();
                if !shares.lock().take(&user, 1) {
                    return None;
                }
                Some(user)
            }
            None => None,
        };
        gate.count.inc();
        Some(Turn { gate: Arc::clone(gate), user })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.gate.count.dec();
        if let (Some(user), Some(shares)) = (&self.user, &self.gate.shares) {
            shares.lock().give_back(user, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge() -> IntGauge {
        IntGauge::new("count", "Count").unwrap()
    }

    fn user(name: &str) -> Identity {
        Identity::authenticated(name, [])
    }

    #[test]
    fn a_user_may_have_as_many_under_way_as_remain_free() {
        let (reading, writing) = (gauge(), gauge());
        let limits = InFlight::limited_to((4, reading.clone()), (2, writing.clone()));
        let hog: Vec<_> = (0..9).map_while(|_| limits.begin(&user("hog"), false)).collect();
        assert_eq!((hog.len(), reading.get()), (2, 2));
        let other = limits.begin(&user("other"), false).expect("a share must remain for others");
        assert!(limits.begin(&user("hog"), true).is_some(), "writes are counted apart");
        let masters: Vec<_> =
            (0..9).filter_map(|_| limits.begin(&Identity::master("admin"), false)).collect();
        assert_eq!((masters.len(), reading.get(), writing.get()), (9, 12, 0));
        drop((hog, other, masters));
        assert_eq!(reading.get(), 0);
        assert!(limits.begin(&user("hog"), false).is_some());
    }

    #[test]
    fn zero_is_no_limit() {
        let limits = InFlight::limited_to((0, gauge()), (0, gauge()));
        let all: Vec<_> = (0..1000).filter_map(|_| limits.begin(&user("a"), false)).collect();
        assert_eq!(all.len(), 1000);
    }
}
