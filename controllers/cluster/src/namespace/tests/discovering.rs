//! The kinds that a namespace may hold.

use std::sync::Arc;

use steersman_api::{GroupVersion, GroupVersionKind, GroupVersionResource};
use steersman_client::discovery::{Discovered, Error, Group, Remedy, Resource, Scope, Sickness, Version};

use super::super::contents::{Contents, Progress};

fn resource(group: &str, version: &str, name: &str, verbs: &[&str]) -> Arc<Resource> {
    Arc::new(Resource {
        gvr: GroupVersionResource::new(group, version, name),
        gvk: GroupVersionKind::new(group, version, name),
        scope: if name == "nodes" { Scope::Cluster } else { Scope::Namespaced },
        verbs: verbs.iter().map(|verb| (*verb).into()).collect(),
        singular: "".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
    })
}

const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "watch"];

/// The core group with pods and nodes, and a group in two versions.
fn discovered() -> Discovered {
    let version = |name: &str, resources| Version { name: name.into(), resources };
    let core = vec![
        resource("", "v1", "bindings", &["create"]),
        resource("", "v1", "nodes", ALL),
        resource("", "v1", "pods", ALL),
    ];
    let v2 = vec![resource("example.com", "v2", "flakes", ALL)];
    let v1 = vec![
        resource("example.com", "v1", "flakes", ALL),
        resource("example.com", "v1", "drops", &["delete", "list"]),
    ];
    Discovered {
        groups: vec![
            Group { name: "".into(), versions: vec![version("v1", core)] },
            Group { name: "example.com".into(), versions: vec![version("v2", v2), version("v1", v1)] },
        ],
        ..Discovered::default()
    }
}

fn fall_ill(discovered: &mut Discovered, api_version: &str, remedy: Remedy) {
    let sickness = Sickness { reason: format!("stale GroupVersion discovery: {api_version}"), remedy };
    discovered.sick.insert(GroupVersion::parse(api_version), sickness);
}

fn names(contents: &Contents) -> Vec<String> {
    contents.kinds.keys().map(|kind| format!("{kind} {}", kind.version)).collect()
}

#[test]
fn each_deletable_kind_is_there_once_in_its_preferred_version() {
    let contents = Contents::of(&discovered(), |kind| kind.resource == "pods");
    assert_eq!(names(&contents), ["pods v1", "drops.example.com v1", "flakes.example.com v2"]);
    let progress: Vec<_> = contents.kinds.values().map(|content| content.progress.clone()).collect();
    assert_eq!(progress, [Progress::Unseen, Progress::DeleteEach, Progress::DeleteAll]);
    assert_eq!(contents.undiscovered, None);
}

#[test]
fn a_sick_version_is_left_out_and_told_of() {
    let mut discovered = discovered();
    fall_ill(&mut discovered, "example.com/v2", Remedy::LastGood);
    let contents = Contents::of(&discovered, |_| false);
    assert_eq!(names(&contents), ["pods v1", "drops.example.com v1", "flakes.example.com v1"]);
    fall_ill(&mut discovered, "example.com/v1", Remedy::Nothing);
    let contents = Contents::of(&discovered, |_| false);
    assert_eq!(names(&contents), ["pods v1"]);
    let undiscovered = contents.undiscovered.unwrap();
    assert_eq!(undiscovered.group_versions, Some(2));
    assert_eq!(
        undiscovered.error,
        "unable to retrieve the complete list of server APIs: \
         example.com/v1: stale GroupVersion discovery: example.com/v1, \
         example.com/v2: stale GroupVersion discovery: example.com/v2"
    );
}

#[test]
fn nothing_is_known_if_the_pods_are_not() {
    let mut discovered = discovered();
    fall_ill(&mut discovered, "v1", Remedy::LastGood);
    let error = Error { path: "/api", reason: "no".to_owned() };
    for down in [vec![], vec![error]] {
        discovered.down = down;
        let contents = Contents::of(&discovered, |_| false);
        assert_eq!(names(&contents), [] as [&str; 0]);
        assert!(contents.undiscovered.is_some());
    }
}
