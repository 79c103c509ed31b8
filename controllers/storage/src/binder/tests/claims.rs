//! Claims that are bound, wait, or lose their volume.

use serde_json::{Value, json};

use super::world::{World, external};

fn reference(claim: &str, uid: Option<&str>) -> Value {
    let mut reference = json!({"kind": "PersistentVolumeClaim", "namespace": "default", "name": claim});
    if let Some(uid) = uid {
        reference["uid"] = uid.into();
    }
    json!({"spec": {"claimRef": reference}})
}

fn with(mut one: Value, other: &Value) -> Value {
    super::world::json_patch(&mut one, other);
    one
}

const FOUR_WRITES: &[&str] = &["volume", "Bound", "claim", "claim Bound"];

fn bound_claim(volume: &str) -> Value {
    json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": volume},
        "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}},
    })
}

#[test]
fn a_claim_is_bound_by_four_writes() {
    let mut world = World::new().volume("v", &json!({})).claim("c", &json!({}));
    let (claim, log) = world.sync_claim("c");
    assert_eq!(log, FOUR_WRITES);
    let volume = &world.volumes["v"];
    assert_eq!(volume["metadata"]["annotations"], json!({"pv.kubernetes.io/bound-by-controller": "yes"}));
    let expected = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": "uid-c",
        "resourceVersion": "2",
    });
    assert_eq!((&volume["spec"]["claimRef"], &volume["status"]["phase"]), (&expected, &json!("Bound")));
    let annotations =
        json!({"pv.kubernetes.io/bound-by-controller": "yes", "pv.kubernetes.io/bind-completed": "yes"});
    assert_eq!(claim["metadata"]["annotations"], annotations);
    assert_eq!(claim["spec"]["volumeName"], "v");
    let status = json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}});
    assert_eq!(claim["status"], status);
    assert_eq!(world.sync_claim("c").1, [""; 0], "nothing is written again");
    assert_eq!(world.sync_volume("v").1, [""; 0]);
}

#[test]
fn a_binding_goes_on_where_it_ended() {
    for writes in 0..4 {
        let mut world = World::new().volume("v", &json!({})).claim("c", &json!({}));
        world.sync_claim("c");
        let (volume, claim) = (world.volumes["v"].clone(), world.claims["c"].clone());
        // The state after the first `writes` of the four.
        let mut world = World::new();
        let mut early = volume;
        if writes < 2 {
            early["status"]["phase"] = "Available".into();
        }
        if writes < 1 {
            early["spec"].as_object_mut().unwrap().remove("claimRef");
            early["metadata"].as_object_mut().unwrap().remove("annotations");
        }
        let mut late = claim;
        late["status"] = json!({"phase": "Pending"});
        if writes < 3 {
            late["spec"].as_object_mut().unwrap().remove("volumeName");
            late["metadata"].as_object_mut().unwrap().remove("annotations");
        }
        world.put_volume(early);
        world.put_claim(late);
        assert_eq!(world.sync_claim("c").1, FOUR_WRITES[writes..], "after {writes} writes");
    }
}

#[test]
fn a_claim_of_any_state_comes_to_what_upstream_makes_of_it() {
    let bind = FOUR_WRITES;
    let asks = json!({"spec": {"volumeName": "v"}});
    let by_controller = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}});
    let small = json!({"spec": {"capacity": {"storage": "1Mi"}}});
    let block = json!({"spec": {"volumeMode": "Block"}});
    let other = reference("d", Some("uid-d"));
    let vac = |class: &str| json!({"spec": {"volumeAttributesClassName": class}});
    let selector = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}});
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let none = json!({});
    let cases: Vec<(&str, Value, Value, Vec<&str>)> = vec![
        ("nothing fits", none.clone(), small.clone(), vec!["Normal FailedBinding"]),
        (
            "nothing fits any more",
            json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}),
            small.clone(),
            vec!["Normal FailedBinding", "claim Pending"],
        ),
        ("the labels match", selector.clone(), labelled, bind.to_vec()),
        ("the labels do not match", selector.clone(), none.clone(), vec!["Normal FailedBinding"]),
        ("reserved by name", none.clone(), reference("c", None), bind.to_vec()),
        ("reserved by uid", none.clone(), reference("c", Some("uid-c")), bind[1..].to_vec()),
        (
            "reserved for an older claim of the name",
            none.clone(),
            reference("c", Some("old")),
            vec!["Normal FailedBinding"],
        ),
        ("reserved for another claim", none.clone(), other.clone(), vec!["Normal FailedBinding"]),
        (
            "not available yet",
            none.clone(),
            json!({"status": {"phase": "Pending"}}),
            vec!["Normal FailedBinding"],
        ),
        (
            "not available yet, but reserved",
            none.clone(),
            with(reference("c", None), &json!({"status": {"phase": "Pending"}})),
            bind.to_vec(),
        ),
        (
            "being deleted",
            none.clone(),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            vec!["Normal FailedBinding"],
        ),
        ("of another mode", none.clone(), block.clone(), vec!["Normal FailedBinding"]),
        ("of one mode", block.clone(), block.clone(), bind.to_vec()),
        ("of another attributes class", vac("gold"), vac("silver"), vec!["Normal FailedBinding"]),
        ("of one attributes class", vac("gold"), vac("gold"), bind.to_vec()),
        ("asks for it", asks.clone(), none.clone(), bind.to_vec()),
        ("asks for it, whatever the labels", with(asks.clone(), &selector), none.clone(), bind.to_vec()),
        ("asks for one that is missing", json!({"spec": {"volumeName": "w"}}), none.clone(), vec![]),
        (
            "asks for one that is missing, with an old status",
            with(json!({"spec": {"volumeName": "w"}}), &json!({"status": {"phase": "Bound"}})),
            none.clone(),
            vec!["claim Pending"],
        ),
        ("asks for it, and it is reserved by name", asks.clone(), reference("c", None), bind.to_vec()),
        (
            "asks for it, and it is reserved by uid",
            asks.clone(),
            reference("c", Some("uid-c")),
            bind[1..].to_vec(),
        ),
        ("asks for one that is taken", asks.clone(), other.clone(), vec!["Warning FailedBinding"]),
        (
            "was given one that is taken",
            with(asks.clone(), &by_controller),
            other.clone(),
            vec![
                "Warning FailedBinding",
                "error: invalid binding of claim \"default/c\" to volume \"v\": volume already claimed by \"default/d\"",
            ],
        ),
        ("asks for one that is too small", asks.clone(), small, vec!["Warning VolumeMismatch"]),
        (
            "asks for one of another class",
            with(asks.clone(), &json!({"spec": {"storageClassName": "gold"}})),
            none.clone(),
            vec!["Warning VolumeMismatch"],
        ),
        ("asks for one of another mode", asks.clone(), block, vec!["Warning VolumeMismatch"]),
        (
            "asks for one of another attributes class",
            with(asks.clone(), &vac("gold")),
            none.clone(),
            vec!["Warning VolumeMismatch"],
        ),
        (
            "asks for one without its access mode",
            with(asks, &json!({"spec": {"accessModes": ["ReadWriteMany"]}})),
            none.clone(),
            vec!["Warning VolumeMismatch"],
        ),
        (
            "bound, and the volume's name is gone",
            bound_claim(""),
            none.clone(),
            vec!["claim Lost", "Warning ClaimLost"],
        ),
        (
            "bound, and the volume is gone",
            bound_claim("w"),
            none.clone(),
            vec!["read volume", "claim Lost", "Warning ClaimLost"],
        ),
        ("bound, and the volume forgot it", bound_claim("v"), none.clone(), bind[..2].to_vec()),
        (
            "bound, and the volume is merely reserved",
            bound_claim("v"),
            reference("c", None),
            vec!["read volume", "claim Lost", "Warning ClaimMisbound"],
        ),
        (
            "bound, and the volume has another claim",
            bound_claim("v"),
            other.clone(),
            vec!["read volume", "claim Lost", "Warning ClaimMisbound"],
        ),
        ("lost already", with(bound_claim("w"), &json!({"status": {"phase": "Lost"}})), none, vec![]),
    ];
    for (name, claim, volume, expected) in cases {
        let mut world = World::new().volume("v", &volume).claim("c", &claim);
        assert_eq!(world.sync_claim("c").1, expected, "{name}");
    }
}

#[test]
fn only_the_api_server_can_say_that_a_volume_is_gone() {
    let taken = with(reference("c", Some("uid-c")), &json!({"status": {"phase": "Bound"}}));
    for (name, cached) in
        [("lacks the volume", None), ("shows an earlier claim", Some(reference("d", Some("d"))))]
    {
        let mut world = World::new().volume("v", &taken).claim("c", &bound_claim("v"));
        let (mut volumes, claims) = (world.volumes.clone(), world.claims.clone());
        volumes.remove("v");
        if let Some(cached) = cached {
            volumes = World::new().volume("v", &cached).volumes;
        }
        let (claim, log) = world.sync_claim_from(&claims, &volumes, "c");
        assert_eq!(log[0], "read volume", "the cache {name}");
        assert!(!log.iter().any(|line| line.contains("Lost")), "the cache {name}: {log:?}");
        assert_ne!(claim["status"]["phase"], "Lost", "the cache {name}");
    }
}

#[test]
fn messages_are_upstreams() {
    let message = |claim: &Value, volume: &Value| {
        let mut world = World::new().volume("v", volume).claim("c", claim);
        world.sync_claim("c");
        world.messages.pop().unwrap()
    };
    let none = json!({});
    let asks = json!({"spec": {"volumeName": "v"}});
    let small = json!({"spec": {"capacity": {"storage": "1Mi"}}});
    for (text, claim, volume) in [
        ("no persistent volumes available for this claim and no storage class is set", &none, &small),
        ("Cannot bind to requested volume \"v\": requested PV is too small", &asks, &small),
        ("volume \"v\" already bound to a different claim.", &asks, &reference("d", Some("uid-d"))),
        ("Bound claim has lost its PersistentVolume. Data on the volume is lost!", &bound_claim("w"), &none),
        (
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
            &bound_claim(""),
            &none,
        ),
        (
            "Two claims are bound to the same volume, this one is bound incorrectly",
            &bound_claim("v"),
            &reference("d", Some("uid-d")),
        ),
    ] {
        assert_eq!(message(claim, volume), text);
    }
}

#[test]
fn the_capacity_is_written_once_and_that_before_an_expansion_counts() {
    let resized =
        json!({"metadata": {"annotations": {"volume.alpha.kubernetes.io/pre-resize-capacity": "5Gi"}}});
    let mut world = World::new().volume("v", &resized).claim("c", &json!({}));
    assert_eq!(world.sync_claim("c").0["status"]["capacity"]["storage"], "5Gi");
    let mut world = World::new()
        .volume("v", &with(reference("c", Some("uid-c")), &json!({"status": {"phase": "Bound"}})))
        .claim("c", &with(bound_claim("v"), &json!({"status": {"capacity": {"storage": "7Gi"}}})));
    assert_eq!(world.sync_claim("c").1, [""; 0], "the file system may be smaller than the volume");
    let mut world = World::new()
        .volume("v", &json!({"spec": {"capacity": null}}))
        .claim("c", &json!({"spec": {"resources": {"requests": {"storage": "0"}}}}));
    let log = world.sync_claim("c").1;
    assert_eq!(log.last().unwrap(), "error: PersistentVolume \"v\" is without a storage capacity");
}

#[test]
fn a_claim_without_class_gets_the_default_one_unless_a_volume_fits() {
    let no_class = json!({"spec": {"storageClassName": null}});
    let world = || {
        let mut world = World::new().class("gold", external("example.com/disks"));
        world.default_class = Some("gold".to_owned());
        world
    };
    let (claim, log) = world().claim("c", &no_class).sync_claim("c");
    assert_eq!((&claim["spec"]["storageClassName"], &log[0]), (&json!("gold"), &"claim".to_owned()));
    assert_eq!(
        world().claim("c", &json!({})).sync_claim("c").1,
        ["Normal FailedBinding"],
        "the empty class is one"
    );
    assert_eq!(world().claim("c", &no_class).volume("v", &json!({})).sync_claim("c").1, FOUR_WRITES);
    let mut beta = no_class.clone();
    beta["metadata"] = json!({"annotations": {"volume.beta.kubernetes.io/storage-class": ""}});
    assert_eq!(world().claim("c", &beta).sync_claim("c").1, ["Normal FailedBinding"]);
    let (claim, _) = World::new().claim("c", &no_class).sync_claim("c");
    assert_eq!(claim["spec"]["storageClassName"], Value::Null, "there is no default class");
}
