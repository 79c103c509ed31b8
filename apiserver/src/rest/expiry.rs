//! Events do not last.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::server::ApiServer;
use crate::object;
use crate::store::Object;

/// How long an event is kept after its last write; upstream's default.
const EVENTS_LAST: SignedDuration = SignedDuration::from_hours(1);

impl ApiServer {
    /// Removes the events that no client has written for an hour.
    pub(crate) fn expire_events(&self) {
        let now = self.clock().now();
        let events = self.store().snapshot(&"events".into(), "", None).map(|snapshot| snapshot.objects);
        for event in events.unwrap_or_default() {
            if now.duration_since(last_write(&event, now)) > EVENTS_LAST {
                // Overtaken by another write: then its time has not come.
                let _ = self.store().remove(&event);
            }
        }
    }
}

/// When an event was written last, as far as the server's own stamps tell, which outlive the process. What lies ahead is
/// not the server's.
fn last_write(event: &Object, now: Timestamp) -> Timestamp {
    let metadata = Value::Object(event.metadata());
    let created = object::str_at(&metadata, "creationTimestamp");
    let managers = object::list_at(&metadata, "managedFields").iter();
    let stamps = managers.filter_map(|manager| object::str_at(manager, "time")).chain(created);
    let stamps = stamps.filter_map(|stamp| stamp.parse().ok()).filter(|stamp| *stamp <= now);
    stamps.max().unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use serde_json::json;

    use super::*;
    use crate::clock::Clock;
    use crate::rest::{Outbound, Settings};

    #[test]
    fn events_go_an_hour_after_their_last_write() {
        let seconds = Arc::new(AtomicI64::new(1_800_000_000));
        let clock = Arc::clone(&seconds);
        let clock = Clock::from_fn(move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap());
        let settings = Settings { clock: Some(clock), ..Settings::default() };
        let server = ApiServer::new(settings, Outbound::new(None, None).unwrap());
        let resources = server.resources();
        let events = resources.get("", "v1", "events").unwrap();
        let at = |after: i64| Timestamp::from_second(1_800_000_000 + after).unwrap().to_string();
        let add = |name: &str, managers: Value| {
            let event = json!({
                "metadata": {"creationTimestamp": at(0), "managedFields": managers, "uid": name},
                "reason": "Started",
            });
            server.store().create(events, steersman_api::ObjectKey::new("default", name), event).unwrap();
        };
        add("old", json!([]));
        add("written", json!([{"manager": "m", "time": at(1800)}]));
        add("forged", json!([{"manager": "m", "time": at(999_999)}]));
        let left = |after: i64| {
            seconds.store(1_800_000_000 + after, Ordering::Relaxed);
            server.expire_events();
            server.store().len(&"events".into())
        };
        assert_eq!(left(3600), 3);
        assert_eq!(left(3601), 1);
        assert_eq!(left(5400), 1);
        assert_eq!(left(5401), 0);
    }
}
