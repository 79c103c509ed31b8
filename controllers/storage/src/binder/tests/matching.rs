//! Which volume a claim gets.

use serde_json::{Value, json};

use super::super::volumes::{Scope, Volumes};
use super::world::{World, claim_of, volume_of};

fn volume(name: &str, size: &str, modes: &[&str], class: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1"},
        "spec": {"capacity": {"storage": size}, "accessModes": modes, "storageClassName": class},
        "status": {"phase": "Available"},
    })
}

fn index(volumes: &[Value]) -> Volumes {
    let mut index = Volumes::default();
    volumes.iter().for_each(|volume| index.put(volume_of(volume)));
    index
}

fn best(volumes: &Volumes, claim: &Value, scope: Scope) -> Option<String> {
    let world = World::new().claim("c", claim);
    let found = volumes.best_match(&claim_of(&world.claims["c"]), scope).unwrap();
    found.map(|volume| volume.name().to_string())
}

fn asks(size: &str, modes: &[&str], class: &str) -> Value {
    json!({"spec": {
        "resources": {"requests": {"storage": size}}, "accessModes": modes, "storageClassName": class,
    }})
}

#[test]
fn the_smallest_that_fits_among_those_with_the_fewest_modes() {
    let (rwo, rox, rwx, rwop) = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod");
    let volumes = index(&[
        volume("big", "100Gi", &[rwo], ""),
        volume("small", "5Gi", &[rwo], ""),
        volume("twin", "5Gi", &[rwo], ""),
        volume("both", "1Gi", &[rwo, rox], ""),
        volume("three", "8Gi", &[rwo, rox, rwx], ""),
        volume("gold", "1Gi", &[rwo], "gold"),
        volume("single", "1Gi", &[rwop], ""),
    ]);
    for (size, modes, class, expected) in [
        ("1Gi", vec![rwo], "", Some("small")),
        ("5Gi", vec![rwo], "", Some("small")),
        ("5368709121", vec![rwo], "", Some("big")),
        ("101Gi", vec![rwo], "", None),
        ("1Gi", vec![rox], "", Some("both")),
        ("2Gi", vec![rox], "", Some("three")),
        ("1Gi", vec![rwx, rwo], "", Some("three")),
        ("1Gi", vec![rwx, rwop], "", None),
        ("1Gi", vec![rwop], "", Some("single")),
        ("1Gi", vec!["ReadNever"], "", None),
        ("1Gi", vec![], "", Some("small")),
        ("1Gi", vec![rwo], "gold", Some("gold")),
        ("2Gi", vec![rwo], "gold", None),
        ("1Gi", vec![rwo], "gol", None),
    ] {
        let found = best(&volumes, &asks(size, &modes, class), Scope::All);
        // Of volumes of one size and one set of modes the first by name counts.
        assert_eq!(found.as_deref(), expected, "{size} {modes:?} {class}");
    }
}

#[test]
fn a_reserved_volume_comes_first_among_those_of_its_modes() {
    let mut reserved = volume("reserved", "50Gi", &["ReadWriteOnce"], "other");
    reserved["spec"]["claimRef"] = json!({"namespace": "default", "name": "c"});
    reserved["status"]["phase"] = "Pending".into();
    let free = volume("free", "1Gi", &["ReadWriteOnce"], "");
    let rwo = asks("1Gi", &["ReadWriteOnce"], "");
    let both = index(&[reserved.clone(), free.clone()]);
    assert_eq!(best(&both, &rwo, Scope::All).as_deref(), Some("reserved"), "whatever its class and phase");
    assert_eq!(best(&both, &rwo, Scope::Reserved).as_deref(), Some("reserved"));
    assert_eq!(
        best(&both, &asks("60Gi", &["ReadWriteOnce"], ""), Scope::All),
        None,
        "it must be large enough"
    );
    assert_eq!(
        best(&index(std::slice::from_ref(&free)), &rwo, Scope::Reserved),
        None,
        "the scheduler chooses"
    );
    reserved["spec"]["accessModes"] = json!(["ReadWriteOnce", "ReadOnlyMany"]);
    let both = index(&[reserved, free]);
    assert_eq!(best(&both, &rwo, Scope::All).as_deref(), Some("free"), "fewer modes come first, as upstream");
}

#[test]
fn the_index_follows_the_volumes() {
    let rwo = asks("1Gi", &["ReadWriteOnce"], "");
    let mut volumes = index(&[volume("v", "1Gi", &["ReadWriteOnce"], "")]);
    let mut newer = volume("v", "1Gi", &["ReadWriteOnce"], "");
    newer["metadata"]["resourceVersion"] = "3".into();
    newer["spec"]["claimRef"] = json!({"namespace": "default", "name": "d", "uid": "x"});
    volumes.put(volume_of(&newer));
    assert_eq!(best(&volumes, &rwo, Scope::All), None);
    let mut older = volume("v", "1Gi", &["ReadWriteOnce"], "");
    older["metadata"]["resourceVersion"] = "2".into();
    volumes.put(volume_of(&older));
    assert_eq!(best(&volumes, &rwo, Scope::All), None, "an old state counts no more");
    assert!(volumes.remove("v", &"another".into()).is_none(), "a later volume of the name stays");
    assert!(volumes.remove("v", &"uid-v".into()).is_some());
    assert_eq!(volumes.iter().count(), 0);
    volumes.put(volume_of(&older));
    assert_eq!(best(&volumes, &rwo, Scope::All).as_deref(), Some("v"));
}
