//! Tables of tests of the correlator, with a clock of their own.

use k8s_openapi::api::core::v1::{EventSource, ObjectReference};

use super::*;

const START: i64 = 1_700_000_000;

/// A correlator and its clock.
struct Bench {
    correlator: Correlator,
    start: Instant,
    elapsed: Duration,
}

impl Bench {
    fn new() -> Self {
        Self { correlator: Correlator::new(), start: Instant::now(), elapsed: Duration::ZERO }
    }

    fn wait(&mut self, seconds: u64) {
        self.elapsed += Duration::from_secs(seconds);
    }

    fn stamp(&self) -> Timestamp {
        Timestamp::from_second(START).unwrap() + self.elapsed
    }

    fn say(&mut self, pod: &str, reason: &str, message: &str) -> Option<Write> {
        let event = Event {
            metadata: ObjectMeta {
                name: Some(event_name(pod, self.stamp())),
                namespace: Some("ns".to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                kind: Some("Pod".to_owned()),
                name: Some(pod.to_owned()),
                namespace: Some("ns".to_owned()),
                ..ObjectReference::default()
            },
            source: Some(EventSource { component: Some("tester".to_owned()), host: None }),
            reporting_component: Some("tester".to_owned()),
            type_: Some("Normal".to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            count: Some(1),
            first_timestamp: Some(Time(self.stamp())),
            last_timestamp: Some(Time(self.stamp())),
            ..Event::default()
        };
        self.correlator
            .correlate(event, self.start + self.elapsed, self.stamp())
            .map(|correlated| correlated.write)
    }

    /// How the event is written, with its count and message.
    fn outcome(&mut self, pod: &str, reason: &str, message: &str) -> String {
        match self.say(pod, reason, message) {
            None => "held back".to_owned(),
            Some(Write::Create(event)) => format!("new {} {}", event.count.unwrap(), event.message.unwrap()),
            Some(Write::Patch(event)) => format!("patch {} {}", event.count.unwrap(), event.message.unwrap()),
        }
    }
}

#[test]
fn the_same_event_again_is_a_patch_of_the_first_with_a_higher_count() {
    let mut bench = Bench::new();
    let Some(Write::Create(first)) = bench.say("a", "Failed", "no") else { panic!("the first is new") };
    bench.wait(100_000);
    let Some(Write::Patch(second)) = bench.say("a", "Failed", "no") else { panic!("the second is a patch") };
    assert_eq!(second.metadata.name, first.metadata.name);
    assert_eq!(second.first_timestamp, first.first_timestamp);
    assert_eq!(second.last_timestamp, Some(Time(bench.stamp())));
    assert_eq!(second.count, Some(2));
    assert_eq!(bench.outcome("a", "Failed", "no"), "patch 3 no");
}

#[test]
fn events_that_differ_in_more_than_the_message_are_kept_apart() {
    let mut bench = Bench::new();
    assert_eq!(bench.outcome("a", "Failed", "no"), "new 1 no");
    assert_eq!(bench.outcome("a", "Stopped", "no"), "new 1 no");
    assert_eq!(bench.outcome("b", "Failed", "no"), "new 1 no");
    assert_eq!(bench.outcome("a", "Failed", "never"), "new 1 never");
}

#[test]
fn the_tenth_message_of_one_kind_within_ten_minutes_is_combined() {
    let mut bench = Bench::new();
    for i in 0..9 {
        assert_eq!(bench.outcome("a", "Failed", &format!("m{i}")), format!("new 1 m{i}"));
        bench.wait(599);
    }
    let Some(Write::Create(combined)) = bench.say("a", "Failed", "m9") else { panic!("the tenth is new") };
    assert_eq!(combined.message.as_deref(), Some("(combined from similar events): m9"));
    assert_eq!((combined.count, &combined.reporting_component), (Some(1), &None));
    assert_eq!(combined.source.unwrap().component.as_deref(), Some("tester"));
    assert_eq!(combined.first_timestamp, Some(Time(bench.stamp())));
    assert_eq!(bench.outcome("a", "Failed", "m10"), "patch 2 (combined from similar events): m10");
    assert_eq!(
        bench.outcome("a", "Failed", "m3"),
        "patch 2 m3",
        "one of the nine is still counted by itself"
    );
    assert_eq!(bench.outcome("a", "Stopped", "m11"), "new 1 m11", "another reason");
    bench.wait(601);
    assert_eq!(bench.outcome("a", "Failed", "m12"), "new 1 m12", "none for more than ten minutes");
}

#[test]
fn an_object_may_have_twenty_five_events_at_once_and_then_one_in_five_minutes() {
    let mut bench = Bench::new();
    for i in 1..=25 {
        let expected = if i == 1 { "new 1 no".to_owned() } else { format!("patch {i} no") };
        assert_eq!(bench.outcome("a", "Failed", "no"), expected);
    }
    assert_eq!(bench.outcome("a", "Failed", "no"), "held back");
    assert_eq!(bench.outcome("a", "Other", "yes"), "held back", "the limit is the object's, not the event's");
    assert_eq!(bench.outcome("b", "Failed", "no"), "new 1 no", "another object");
    bench.wait(299);
    assert_eq!(bench.outcome("a", "Failed", "no"), "held back");
    bench.wait(1);
    assert_eq!(bench.outcome("a", "Failed", "no"), "patch 28 no", "those held back were counted");
    assert_eq!(bench.outcome("a", "Failed", "no"), "held back");
    bench.wait(2 * 300);
    for expected in ["patch 30 no", "patch 31 no", "held back"] {
        assert_eq!(bench.outcome("a", "Failed", "no"), expected);
    }
    bench.wait(30 * 300);
    let written = (0..40).filter(|_| bench.say("a", "Failed", "no").is_some()).count();
    assert_eq!(written, 25, "a full bucket holds no more");
}

#[test]
fn only_the_keys_used_last_are_remembered() {
    let mut bench = Bench::new();
    bench.say("first", "Failed", "no");
    bench.say("second", "Failed", "no");
    for i in 0..REMEMBERED - 2 {
        bench.say(&format!("p{i}"), "Failed", "no");
    }
    assert_eq!(bench.outcome("first", "Failed", "no"), "patch 2 no");
    bench.say("one more", "Failed", "no");
    assert_eq!(bench.outcome("first", "Failed", "no"), "patch 3 no", "used lately");
    assert_eq!(bench.outcome("second", "Failed", "no"), "new 1 no", "forgotten");
    assert_eq!(bench.correlator.written.0.len(), REMEMBERED);
    assert_eq!(bench.correlator.aggregates.0.len(), REMEMBERED);
    assert_eq!(bench.correlator.buckets.0.len(), REMEMBERED);
}
