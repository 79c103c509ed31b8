//! What holds for all states and configurations.

use proptest::prelude::*;
use serde_json::Map;

use super::super::set::FieldSet;
use super::super::walk::{fields_of, removed, with_listed};
use super::*;

/// Deployments of a few fields of every sort.
fn deployments() -> impl Strategy<Value = Value> {
    let text = || prop::sample::select(vec!["0", "1", "2"]);
    let labels = prop::option::of(prop::collection::btree_map(
        prop::sample::select(vec!["a", "b", "c"]),
        text(),
        1..3,
    ));
    let env = prop::collection::btree_map(prop::sample::select(vec!["A", "B", "C"]), text(), 0..3);
    let container = (prop::option::of(text()), env, prop::option::of(prop::collection::vec(text(), 1..3)));
    let names = prop::sample::subsequence(vec!["x", "y", "z"], 0..=3).prop_shuffle();
    let containers = (names, prop::collection::vec(container, 3));
    let finalizers = prop::sample::subsequence(vec!["a.b/1", "a.b/2", "a.b/3"], 0..=3);
    let spec = (prop::option::of(0..3_i64), prop::option::of(text()), containers);
    (labels, finalizers, spec).prop_map(|(labels, finalizers, (replicas, selector, (names, containers)))| {
        let containers: Vec<Value> = names
            .iter()
            .zip(containers)
            .map(|(name, (image, env, command))| {
                let mut container = Map::new();
                container.insert("name".to_owned(), json!(name));
                container.extend(image.map(|image| ("image".to_owned(), json!(image))));
                container.extend(command.map(|command| ("command".to_owned(), json!(command))));
                if !env.is_empty() {
                    let env: Vec<_> =
                        env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
                    container.insert("env".to_owned(), json!(env));
                }
                Value::Object(container)
            })
            .collect();
        let mut object = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {},
        });
        if let Some(labels) = labels {
            object["metadata"]["labels"] = json!(labels);
        }
        if !finalizers.is_empty() {
            object["metadata"]["finalizers"] = json!(finalizers);
        }
        if let Some(replicas) = replicas {
            object["spec"]["replicas"] = replicas.into();
        }
        if let Some(selector) = selector {
            object["spec"]["selector"] = json!({"matchLabels": {"a": selector}});
        }
        if !containers.is_empty() {
            object["spec"]["template"] = json!({"spec": {"containers": containers}});
        }
        object
    })
}

/// As the server would store it.
fn normalized(mut object: Value) -> Value {
    let list = take(&mut object);
    let kind = schema::table().kind_of("apps/v1", "Deployment").unwrap();
    let mut object = schema::normalize(kind, &object).unwrap();
    put(&mut object, list);
    stored(object)
}

fn sets() -> impl Strategy<Value = FieldSet> {
    deployments().prop_map(|object| fields_of(Fixture::of("apps/v1", "Deployment").ty, &object).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn a_text_gives_its_set_back(set in sets()) {
        prop_assert_eq!(FieldSet::from_text(&set.to_text()).unwrap(), set);
    }

    #[test]
    fn sets_keep_the_laws_of_sets(a in sets(), b in sets(), c in sets()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(a.union(&b).difference(&b), a.difference(&b));
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert!(a.paths().iter().all(|path| a.has(path)));
    }

    #[test]
    fn a_comparison_accounts_for_every_field(old in deployments(), new in deployments()) {
        let ty = Fixture::of("apps/v1", "Deployment").ty;
        let change = Comparison::of(ty, &old, &new).unwrap();
        prop_assert!(change.removed.intersection(&change.set).is_empty());
        let back = Comparison::of(ty, &new, &old).unwrap();
        prop_assert!(change.removed.difference(&back.set).is_empty());
        prop_assert_eq!(change.removed.union(&change.set), back.removed.union(&back.set));
        prop_assert!(Comparison::of(ty, &new, &new).unwrap().is_empty());
    }

    #[test]
    fn a_merged_configuration_is_there_and_all_else_stays(state in deployments(), config in deployments()) {
        let ty = Fixture::of("apps/v1", "Deployment").ty;
        let merged = merge::merge(ty, &state, &config).unwrap();
        prop_assert_eq!(&merge::merge(ty, &merged, &config).unwrap(), &merged);
        // Nothing that the configuration says differs from it, and nothing else from the state.
        let said = fields_of(ty, &config).unwrap();
        let change = Comparison::of(ty, &merged, &config).unwrap();
        prop_assert!(change.set.intersection(&said).is_empty());
        let change = Comparison::of(ty, &state, &merged).unwrap();
        let unsaid = change.set.difference(&with_listed(ty, &said));
        prop_assert!(unsaid.is_empty(), "{}", unsaid.to_text());
        prop_assert!(change.removed.is_empty());
    }

    #[test]
    fn what_is_removed_is_gone_and_nothing_else(state in deployments(), set in sets()) {
        let ty = Fixture::of("apps/v1", "Deployment").ty;
        let left = removed(ty, &state, &set).unwrap();
        let all = fields_of(ty, &state).unwrap();
        let rest = fields_of(ty, &left).unwrap();
        prop_assert!(rest.intersection(&set).paths().iter().all(|path| path.len() == 1 || !all.has(path)));
        let mut kept = all;
        kept.cut(&set);
        prop_assert!(kept.difference(&rest).is_empty());
    }

    #[test]
    fn applying_twice_changes_nothing(a in deployments(), b in deployments(), c in deployments()) {
        let fixture = Fixture::of("apps/v1", "Deployment");
        let mut state = fixture.empty.clone();
        for (now, config, manager) in [("t1", &a, "one"), ("t2", &b, "two"), ("t3", &c, "one")] {
            state = normalized(apply(&fixture.at(now), &state, config, manager, true).unwrap());
            let again = normalized(apply(&fixture.at("t9"), &state, config, manager, false).unwrap());
            // Of what the server drops when it stores an object (empty lists) nobody can tell that it was applied.
            prop_assert!(same_but_times(list_of(&again), list_of(&state)));
            prop_assert_eq!(without_list(&again), without_list(&state));
        }
        // Whatever somebody manages is there.
        let fields = with_listed(fixture.ty, &fields_of(fixture.ty, &state).unwrap());
        let managers = Managers::read(list_of(&state).unwrap_or(&Value::Null)).unwrap();
        for entry in managers.iter() {
            let lost = entry.fields().difference(&fields);
            prop_assert!(lost.is_empty(), "{}", lost.to_text());
        }
    }

    #[test]
    fn a_manager_that_gives_up_all_leaves_what_was_there(state in deployments(), config in deployments()) {
        let fixture = Fixture::of("apps/v1", "Deployment");
        let mut before = state;
        update(&fixture.at("t1"), &fixture.empty, &mut before, "creator");
        let before = stored(before);
        let applied = stored(apply(&fixture.at("t2"), &before, &config, "one", true).unwrap());
        let nothing = fixture.object(json!({}));
        let after = stored(apply(&fixture.at("t3"), &applied, &nothing, "one", false).unwrap());
        prop_assert!(entries(&after).iter().all(|(manager, ..)| manager == "creator"));
    }
}
