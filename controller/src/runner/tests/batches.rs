use Step::{EndsBatch, Fails, Succeeds, Takes};

use super::super::batch::carry_out;
use super::*;

/// The outcome of each step, and the maximum number of concurrent steps.
async fn carried(steps: &[Step], pace: Pace) -> (String, usize) {
    let toy = Toy::new([]);
    let observed = Observed { plans: Vec::new(), endless: false };
    let batch = Batch { steps: steps.to_vec(), pace, on_failure: OnFailure::Stop };
    let stop = CancellationToken::new();
    let results = carry_out(&*toy, &"key".to_owned(), &observed, &batch, &stop, || {}).await;
    let letters = results.iter().map(|result| match result {
        StepResult::Done(_) => 'd',
        StepResult::Failed(_) => 'f',
        StepResult::Skipped => '-',
    });
    (letters.collect(), toy.at_once.lock().1)
}

#[tokio::test]
async fn steps_in_order_end_with_the_first_failure() {
    assert_eq!(carried(&[Succeeds; 5], Pace::InOrder).await, ("ddddd".into(), 1));
    assert_eq!(carried(&[Succeeds, Fails, Succeeds, Fails], Pace::InOrder).await, ("df--".into(), 1));
    assert_eq!(carried(&[], Pace::InOrder).await, (String::new(), 0));
}

#[tokio::test]
async fn a_slow_start_doubles_until_a_round_fails() {
    assert_eq!(carried(&[Succeeds; 14], Pace::SlowStart).await, ("d".repeat(14), 7));
    assert_eq!(carried(&[Fails; 500], Pace::SlowStart).await, (format!("f{}", "-".repeat(499)), 1));
    // Rounds of one, two and four; the others of the round that fails are carried out.
    let steps = [&[Succeeds; 3][..], &[Fails, Succeeds, Succeeds, Succeeds], &[Succeeds; 10]].concat();
    assert_eq!(carried(&steps, Pace::SlowStart).await.0, format!("dddfddd{}", "-".repeat(10)));
}

#[tokio::test]
async fn an_outcome_that_makes_the_rest_pointless_stops_a_batch_as_a_failure_does() {
    assert_eq!(carried(&[EndsBatch; 3], Pace::InOrder).await.0, "d--");
    assert_eq!(carried(&[EndsBatch; 500], Pace::SlowStart).await.0, format!("d{}", "-".repeat(499)));
    assert_eq!(carried(&[EndsBatch; 3], Pace::Together(1)).await.0, "ddd");
    let plan = batch([EndsBatch, Succeeds], Pace::InOrder, OnFailure::Stop);
    let toy = Toy::new([Sight::Plans(vec![plan])]);
    let running =
        Running { controller: "toy", clock: Clock::of(|| Time::from_seconds(0)), metrics: Metrics::new() };
    let ended =
        super::super::sync::sync(&*toy, &"a".to_owned(), &running, &CancellationToken::new(), || {}).await;
    assert!(matches!(ended, super::super::sync::Synced::Done { .. }), "it is no failure: {ended:?}");
    assert_eq!(toy.absorbed(), ["done", "skipped"]);
}

#[tokio::test]
async fn steps_together_are_carried_out_whatever_becomes_of_the_others() {
    let steps = [Fails, Succeeds, Succeeds, Fails, Succeeds];
    assert_eq!(carried(&steps, Pace::Together(3)).await, ("fddfd".into(), 3));
    assert_eq!(carried(&steps, Pace::Together(0)).await, ("fddfd".into(), 1));
    assert_eq!(carried(&[Succeeds; 6], Pace::Together(100)).await.1, 6);
}

#[tokio::test(start_paused = true)]
async fn a_slow_step_holds_up_none_of_those_together_with_it() {
    let begun = Instant::now();
    let steps = [&[Takes(Duration::from_secs(10))][..], &[Takes(Duration::from_secs(1)); 10]].concat();
    assert_eq!(carried(&steps, Pace::Together(2)).await.0, "d".repeat(11));
    assert_eq!(begun.elapsed().as_secs(), 10, "the ten short ones pass beside the long one");
}
