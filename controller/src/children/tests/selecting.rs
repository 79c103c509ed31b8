//! Which owners select an object.

use steersman_api::meta;

use super::*;

impl Scene {
    fn selecting(&self, namespace: &str, labels: Labels) -> Vec<String> {
        let labels: meta::Labels = labels.iter().copied().collect();
        let owners = self.children.selecting(&namespace.into(), &labels);
        owners.iter().map(|owner| owner.name.to_string()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn owners_are_found_by_the_labels_that_they_select() {
    let scene = Scene::start(
        &[
            owner("app", &[("app", "a")]),
            owner("app-and-hash", &[("app", "a"), ("pod-template-hash", "5d4f8c7b9d")]),
            owner("one-of-two", &[("tier", "x.y")]),
            owner("with-any-value", &[("tier", "exists")]),
            owner("of-another-app", &[("app", "b")]),
            owner("empty", &[("app", "")]),
        ],
        &[],
    )
    .await;
    let both = [("app", "a"), ("pod-template-hash", "5d4f8c7b9d")];
    let cases: [(&str, &str, Labels, &[&str]); 9] = [
        ("one label", "default", &[("app", "a")], &["app"]),
        ("all labels", "default", both.to_vec().leak(), &["app", "app-and-hash"]),
        ("one of several values", "default", &[("tier", "y")], &["one-of-two", "with-any-value"]),
        ("any value", "default", &[("tier", "z")], &["with-any-value"]),
        (
            "labels of several owners",
            "default",
            &[("app", "b"), ("tier", "x")],
            &["of-another-app", "one-of-two", "with-any-value"],
        ),
        ("another value", "default", &[("app", "c")], &[]),
        ("the value of another label", "default", &[("tier", "a")], &["with-any-value"]),
        ("no labels: not even an empty selector", "default", &[], &[]),
        ("another namespace", "kube-public", &[("app", "a")], &[]),
    ];
    for (what, namespace, labels, expected) in cases {
        assert_eq!(scene.selecting(namespace, labels), expected, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_changes_its_selector_is_found_by_the_new_one() {
    let scene = Scene::start(&[owner("a", &[("app", "a")])], &[]).await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "b"}}}));
    scene.children.owner_client.patch(&key("a"), &patch).await.unwrap();
    scene.catch_up().await;
    assert_eq!(scene.selecting("default", &[("app", "a")]), [""; 0]);
    assert_eq!(scene.selecting("default", &[("app", "b")]), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_cannot_be_read_hides_no_other() {
    let scene = Scene::start(&[owner("good", &[("app", "a")])], &[]).await;
    let watches = Calls::to("replicationcontrollers").verb(Verb::Watch);
    scene.server.faults().spoil(watches.clone(), "bad");
    scene.server.faults().cut_watches(watches);
    scene.catch_up().await;
    scene.create_owner(&owner("bad", &[("app", "a")])).await;
    scene.catch_up().await;
    assert_eq!(scene.children.owners.any().unreadable_len(), 1);
    let found = scene.selecting("default", &[("app", "a")]);
    assert!(found.contains(&"good".to_owned()), "{found:?}");
}
