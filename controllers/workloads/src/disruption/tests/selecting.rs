//! Budgets are found by their pods' labels, and pods by their budget's selector.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_api::meta::Labels;
use steersman_informer::shared_informer::Config;
use steersman_informer::testing::ScriptedSource;
use steersman_informer::wire::{Kind, Object, Selection};
use steersman_informer::{Informer, SharedInformer};
use steersman_kinds::selector::SelectorSpec;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::disruption::selecting::Guarded;
use crate::disruption::{GuardedPod, SyncedBudget};

/// Caches of budgets and pods.
struct Scene {
    guarded: Guarded,
    _tasks: JoinSet<()>,
}

fn cached<S: Selection<Kind: Kind>>(objects: &[Value], tasks: &mut JoinSet<()>) -> Informer<S> {
    let source = ScriptedSource::<S::Kind>::default();
    objects.iter().for_each(|object| _ = source.apply(object.clone()));
    let shared = SharedInformer::new(Arc::new(source), S::Kind::resource().unwrap(), Config::default());
    let informer = shared.select::<S>().unwrap();
    tasks.spawn(shared.run(CancellationToken::new()));
    informer
}

impl Scene {
    async fn new(budgets: &[Value], pods: &[Value]) -> Self {
        let mut tasks = JoinSet::new();
        let budgets = cached::<SyncedBudget>(budgets, &mut tasks);
        let pods = cached::<GuardedPod>(pods, &mut tasks);
        let guarded = Guarded::new(&budgets, &pods);
        assert!(budgets.synced().await && pods.synced().await);
        Self { guarded, _tasks: tasks }
    }

    fn budgets_of(&self, namespace: &str, labels: &[(&'static str, &'static str)]) -> Vec<String> {
        let labels: Labels = labels.iter().copied().collect();
        let budgets = self.guarded.budgets_of(&namespace.into(), &labels);
        budgets.into_iter().map(|budget| budget.name.to_string()).collect()
    }

    fn pods_of(&self, selector: &Value) -> Result<Vec<String>, String> {
        let budget = budget("b", selector.clone());
        let view = steersman_informer::View::<SyncedBudget>::from_json(&budget);
        let selector: Option<&SelectorSpec> =
            view.get::<steersman_kinds::pod_disruption_budget::PodDisruptionBudgetSpec>().selector.as_ref();
        let pods = self.guarded.pods_of(&"ns".into(), selector)?;
        Ok(pods.into_iter().map(|pod| pod.meta().key.name.to_string()).collect())
    }
}

fn budget(name: &str, selector: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"minAvailable": 1, "selector": selector},
    })
}

fn labelled(name: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "labels": labels}})
}

fn expression(operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]})
}

#[tokio::test(start_paused = true)]
async fn budgets_are_found_by_the_labels_that_they_select() {
    let budgets = [
        budget("by-app", json!({"matchLabels": {"app": "a"}})),
        budget("by-both", json!({"matchLabels": {"app": "a", "tier": "front"}})),
        budget("everything", json!({})),
        budget("invalid", expression("Like", &["x"])),
        budget("no-tier", expression("DoesNotExist", &[])),
        budget("not-front", expression("NotIn", &["front"])),
        budget("nothing", Value::Null),
        budget("two-tiers", expression("In", &["front", "back"])),
    ];
    let scene = Scene::new(&budgets, &[]).await;
    for (labels, expected) in [
        (&[][..], &["everything", "no-tier", "not-front"][..]),
        (&[("app", "a")], &["by-app", "everything", "no-tier", "not-front"]),
        (&[("app", "a"), ("tier", "front")], &["by-app", "by-both", "everything", "two-tiers"]),
        (&[("tier", "back")], &["everything", "not-front", "two-tiers"]),
        (&[("app", "b"), ("tier", "x")], &["everything", "not-front"]),
    ] {
        assert_eq!(scene.budgets_of("ns", labels), expected, "{labels:?}");
        assert_eq!(scene.budgets_of("other", labels), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_found_by_a_selector_whatever_it_demands() {
    let mut elsewhere = labelled("elsewhere", json!({"app": "a"}));
    elsewhere["metadata"]["namespace"] = json!("other");
    let pods = [
        labelled("front", json!({"app": "a", "tier": "front"})),
        labelled("back", json!({"app": "a", "tier": "back"})),
        labelled("bare", json!({})),
        labelled("other", json!({"app": "b"})),
        elsewhere,
    ];
    let scene = Scene::new(&[], &pods).await;
    for (selector, expected) in [
        (Value::Null, &[][..]),
        (json!({}), &["back", "bare", "front", "other"]),
        (json!({"matchLabels": {"app": "a"}}), &["back", "front"]),
        (json!({"matchLabels": {"app": "a", "tier": "back"}}), &["back"]),
        (expression("In", &["front", "back"]), &["back", "front"]),
        (expression("NotIn", &["front"]), &["back", "bare", "other"]),
        (expression("Exists", &[]), &["back", "front"]),
        (expression("DoesNotExist", &[]), &["bare", "other"]),
    ] {
        assert_eq!(scene.pods_of(&selector).unwrap(), expected, "{selector}");
    }
    scene.pods_of(&expression("Like", &["x"])).unwrap_err();
}
