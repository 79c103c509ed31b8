//! Resizes from their beginning to their end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::admission::{Admission, Rejection};
use crate::allocation::{Metrics, Resizes, Store, Trigger};
use crate::events::testing::Kept;
use crate::pod_workers::uid_of;

struct Course {
    resizes: Resizes,
    events: Arc<Kept>,
}

impl Course {
    /// Of pods that were admitted.
    fn of(pods: &[&Pod]) -> Self {
        let events = Arc::<Kept>::default();
        let resizes = Resizes::new(Store::in_memory(), events.clone(), Metrics::new());
        pods.iter().for_each(|pod| resizes.allocate(pod));
        Self { resizes, events }
    }

    fn cpu(&self, wanted: &Pod) -> String {
        let allocated = self.resizes.allocated(&Arc::new(wanted.clone()));
        allocated.spec.as_ref().unwrap().containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap()
            ["cpu"]
            .0
            .clone()
    }

    /// Looks at what waits where only pods with no more than that much fit; says which pods are to be synced.
    fn retry(&self, wanted: &[&Pod], fits: &str) -> Vec<String> {
        let find = |uid: &steersman_api::Uid| {
            wanted.iter().find(|pod| uid_of(pod) == *uid).map(|pod| Arc::new((*pod).clone()))
        };
        let admit = |pod: &Arc<Pod>| {
            let asked = crate::resources::pod_requests(pod)["cpu"];
            if asked <= fits.parse().unwrap() {
                return Ok(Admission::Now);
            }
            Err(Rejection::new("OutOfcpu", "too little"))
        };
        let retried = self.resizes.retry(Trigger::PodUpdated, find, admit);
        retried.to_sync.iter().map(|pod| uid_of(pod).to_string()).collect()
    }

    /// Type, reason and generation.
    fn told(&self, uid: &str) -> Vec<(String, String, Option<i64>)> {
        let conditions = self.resizes.conditions(&uid.into()).into_iter();
        conditions
            .map(|told| (told.type_, told.reason.unwrap_or_default(), told.observed_generation))
            .collect()
    }
}

fn resized(pod: &Pod, cpu: &str) -> Arc<Pod> {
    let mut resized = self::pod(&uid_of(pod).to_string(), cpu);
    resized.metadata.generation = pod.metadata.generation.map(|generation| generation + 1);
    Arc::new(resized)
}

fn pending(reason: &str, generation: i64) -> (String, String, Option<i64>) {
    ("PodResizePending".to_owned(), reason.to_owned(), Some(generation))
}

fn in_progress(reason: &str, generation: i64) -> (String, String, Option<i64>) {
    ("PodResizeInProgress".to_owned(), reason.to_owned(), Some(generation))
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_fits_is_allocated_done_and_told() {
    let small = pod("a", "1");
    let course = Course::of(&[&small]);
    let large = resized(&small, "2");
    assert_eq!(course.cpu(&large), "1", "nothing was allocated yet");
    assert!(course.resizes.changed(&small, &large));
    assert_eq!(course.retry(&[&large], "2"), ["a"]);
    assert_eq!((course.cpu(&large).as_str(), course.told("a")), ("2", vec![in_progress("", 2)]));
    course.resizes.observe(&large, true);
    course.resizes.failed(&large, "busy");
    course.resizes.failed(&large, "busy");
    assert_eq!(course.told("a"), [in_progress("Error", 2)]);
    course.resizes.observe(&large, false);
    course.resizes.observe(&large, false);
    assert_eq!(course.told("a"), []);
    let said = course.events.all();
    let reasons: Vec<_> = said.iter().map(|said| said.reason).collect();
    assert_eq!(reasons, ["ResizeStarted", "ResizeError", "ResizeCompleted"]);
    let summary = r#"{"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}],"generation":2"#;
    assert_eq!(said[0].message, format!("Pod resize started: {summary}}}"));
    assert_eq!(said[1].message, format!("Pod resize error: {summary},\"error\":\"busy\"}}"));
    assert_eq!(said[2].message, format!("Pod resize completed: {summary}}}"));
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_does_not_fit_waits_and_is_told_once() {
    let small = pod("a", "1");
    let course = Course::of(&[&small]);
    let large = resized(&small, "2");
    course.resizes.changed(&small, &large);
    let began = Instant::now();
    assert_eq!(course.resizes.due(), Some(began + Duration::from_secs(30)));
    assert_eq!(course.retry(&[&large], "1"), ["a"], "its status changes");
    assert_eq!(course.resizes.due(), Some(began + Duration::from_secs(180)));
    assert_eq!((course.cpu(&large).as_str(), course.told("a")), ("1", vec![pending("Deferred", 2)]));
    course.retry(&[&large], "1");
    let said = course.events.all();
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].reason, "ResizeDeferred");
    assert!(said[0].message.starts_with("Pod resize OutOfcpu: {"), "{}", said[0].message);
    assert!(said[0].message.ends_with(r#""generation":2,"error":"too little"}"#), "{}", said[0].message);
    assert_eq!(course.retry(&[&large], "2"), ["a"]);
    assert_eq!((course.told("a"), course.resizes.due()), (vec![in_progress("", 2)], None));
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_is_taken_back_or_whose_pod_goes_waits_no_longer() {
    let small = pod("a", "1");
    let course = Course::of(&[&small]);
    let large = resized(&small, "2");
    course.resizes.changed(&small, &large);
    course.retry(&[&large], "1");
    let back = resized(&large, "1");
    assert!(!course.resizes.changed(&large, &back));
    assert_eq!(course.told("a"), []);
    assert_eq!(course.retry(&[&back], "1"), [""; 0]);
    assert!(!course.resizes.has_pending());

    course.resizes.changed(&small, &large);
    assert_eq!(course.retry(&[], "2"), [""; 0]);
    assert!(!course.resizes.has_pending());

    course.resizes.changed(&small, &large);
    course.resizes.ended(&"a".into());
    assert!(!course.resizes.has_pending());
    course.resizes.changed(&small, &large);
    course.resizes.forget(&"a".into());
    assert!(!course.resizes.has_pending());
}

#[tokio::test(start_paused = true)]
async fn those_that_ask_for_no_more_go_first() {
    let (a, b) = (pod("a", "1"), pod("b", "3"));
    let course = Course::of(&[&a, &b]);
    let (more, less) = (resized(&a, "2"), resized(&b, "2"));
    course.resizes.changed(&a, &more);
    course.resizes.changed(&b, &less);
    assert_eq!(course.retry(&[&more, &less], "2"), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_says_of_a_resize_is_taken_over_until_the_pod_ends() {
    let course = Course::of(&[]);
    let mut told = pod("a", "1");
    told.status = serde_json::from_value(json!({ "conditions": [
        { "type": "Ready", "status": "True" },
        { "type": "PodResizePending", "status": "True", "reason": "Infeasible", "observedGeneration": 2 },
        { "type": "PodResizeInProgress", "status": "True", "observedGeneration": 1 },
    ] }))
    .unwrap();
    course.resizes.backfill(&told);
    assert_eq!(course.told("a"), [pending("Infeasible", 2), in_progress("", 1)]);
    course.resizes.retain(|uid| *uid == "a".into());
    assert_eq!(course.told("a").len(), 2);
    course.resizes.ended(&"a".into());
    assert_eq!(course.told("a"), []);
    course.resizes.backfill(&told);
    course.resizes.retain(|_| false);
    assert_eq!(course.told("a"), []);
}
