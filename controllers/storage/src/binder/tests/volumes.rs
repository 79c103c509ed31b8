//! Phases of volumes, and what becomes of those whose claims are gone.

use serde_json::{Value, json};

use super::world::{World, external, json_patch};

fn reference(uid: &str) -> Value {
    json!({"spec": {"claimRef": {"namespace": "default", "name": "c", "uid": uid}}})
}

fn with(mut one: Value, other: &Value) -> Value {
    json_patch(&mut one, other);
    one
}

fn phase(phase: &str) -> Value {
    json!({"status": {"phase": phase}})
}

fn policy(policy: &str) -> Value {
    json!({"spec": {"persistentVolumeReclaimPolicy": policy}})
}

fn annotation(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

fn csi() -> Value {
    json!({"spec": {"csi": {"driver": "d", "volumeHandle": "h"}}})
}

#[test]
fn a_volume_whose_claim_exists() {
    let bound = reference("uid-c");
    let to = |volume: &str| json!({"spec": {"volumeName": volume}});
    let by_controller = annotation("pv.kubernetes.io/bound-by-controller", "yes");
    let provisioned = annotation("pv.kubernetes.io/provisioned-by", "example.com/disks");
    let unbound = with(phase("Pending"), &json!({"spec": {"claimRef": null}}));
    for (name, volume, claim, expected) in [
        ("new", unbound, json!({}), vec!["Available"]),
        ("new and reserved", with(reference(""), &phase("Pending")), json!({}), vec!["Available"]),
        ("available", json!({}), json!({}), vec![]),
        ("to be bound", bound.clone(), json!({}), vec!["sync claim"]),
        ("bound", with(bound.clone(), &phase("Bound")), to("v"), vec![]),
        ("bound, but for its phase", with(bound.clone(), &phase("Available")), to("v"), vec!["Bound"]),
        ("bound, and released by mistake", with(bound.clone(), &phase("Released")), to("v"), vec!["Bound"]),
        (
            "of another mode",
            with(bound.clone(), &json!({"spec": {"volumeMode": "Block"}})),
            json!({}),
            vec!["volume: Warning VolumeMismatch", "Warning VolumeMismatch"],
        ),
        (
            "chosen for a claim that is bound elsewhere",
            with(with(bound.clone(), &by_controller), &phase("Bound")),
            to("w"),
            vec!["volume", "Available"],
        ),
        (
            "reserved for a claim that is bound elsewhere",
            with(bound.clone(), &phase("Bound")),
            to("w"),
            vec!["volume", "Available"],
        ),
        (
            "provisioned for a claim that is bound elsewhere",
            with(with(with(with(bound.clone(), &provisioned), &policy("Delete")), &csi()), &phase("Bound")),
            to("w"),
            vec!["Released", "delete by N/A"],
        ),
        (
            "provisioned and retained",
            with(with(with(bound, &provisioned), &csi()), &phase("Bound")),
            to("w"),
            vec!["volume", "Available"],
        ),
    ] {
        let mut world = World::new().volume("v", &volume).claim("c", &claim);
        assert_eq!(world.sync_volume("v").1, expected, "{name}");
    }
}

#[test]
fn a_reservation_stays_and_a_choice_goes() {
    let elsewhere = json!({"spec": {"volumeName": "w"}});
    let mut world = World::new().volume("v", &reference("uid-c")).claim("c", &elsewhere);
    let (volume, _) = world.sync_volume("v");
    assert_eq!(volume["spec"]["claimRef"], json!({"namespace": "default", "name": "c"}));
    let chosen = with(reference("uid-c"), &annotation("pv.kubernetes.io/bound-by-controller", "yes"));
    let mut world = World::new().volume("v", &chosen).claim("c", &elsewhere);
    let (volume, _) = world.sync_volume("v");
    assert_eq!((&volume["spec"]["claimRef"], &volume["metadata"]["annotations"]), (&Value::Null, &json!({})));
}

#[test]
fn a_volume_whose_claim_is_gone() {
    let by = |plugin: &str| annotation("pv.kubernetes.io/provisioned-by", plugin);
    let nfs = json!({"spec": {"nfs": {"server": "s", "path": "/"}}});
    let local = json!({"spec": {"local": {"path": "/mnt"}}});
    let temporary = json!({"spec": {"hostPath": {"path": "/tmp/x"}}});
    let failed = |reason| vec!["read claim", "Released", "delete by N/A", "Failed", reason];
    let delete = policy("Delete");
    for (name, volume, expected, message) in [
        ("retained", json!({}), vec!["read claim", "Released"], ""),
        ("left to the driver", with(csi(), &delete), vec!["read claim", "Released", "delete by gold"], ""),
        (
            "left to a provisioner",
            with(by("example.com/disks"), &delete),
            vec!["read claim", "Released", "delete by gold"],
            "",
        ),
        (
            "left to the driver that replaced the plugin",
            with(by("kubernetes.io/gce-pd"), &delete),
            vec!["volume", "read claim", "Released"],
            "",
        ),
        (
            "recycled",
            policy("Recycle"),
            vec!["read claim", "Released", "Failed", "volume: Warning VolumeFailedRecycle"],
            "No recycler plugin found for the volume!",
        ),
        (
            "of an unknown policy",
            policy("Sell"),
            vec!["read claim", "Released", "Failed", "volume: Warning VolumeUnknownReclaimPolicy"],
            "Volume has unrecognized PersistentVolumeReclaimPolicy",
        ),
        (
            "local",
            with(local, &delete),
            failed("volume: Warning VolumeFailedDelete"),
            "error getting deleter volume plugin for volume \"v\": no volume plugin matched",
        ),
        (
            "of NFS",
            with(nfs, &delete),
            failed("volume: Warning VolumeFailedDelete"),
            "error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched",
        ),
        (
            "of the host",
            delete.clone(),
            vec![
                "read claim",
                "Released",
                "delete by kubernetes.io/host-path",
                "Failed",
                "volume: Warning VolumeFailedDelete",
            ],
            "host_path deleter only supports /tmp/.+ but received provided /data",
        ),
        (
            "of the host's temporary folder",
            with(temporary, &delete),
            vec![
                "read claim",
                "Released",
                "delete by kubernetes.io/host-path",
                "Failed",
                "volume: Warning VolumeFailedDelete",
            ],
            "hostPath volumes are not deleted: delete /tmp/x on its node, then this volume",
        ),
    ] {
        let volume = with(
            with(with(reference("gone"), &phase("Bound")), &volume),
            &json!({
                "spec": {"storageClassName": "gold"},
            }),
        );
        let mut world = World::new().class("gold", external("gold")).volume("v", &volume);
        let (volume, log) = world.sync_volume("v");
        assert_eq!(log, expected, "{name}");
        assert_eq!(world.messages.pop().unwrap_or_default(), message, "{name}");
        assert_eq!(volume["status"]["message"].as_str().unwrap_or_default(), message, "{name}");
        let again: Vec<_> =
            world.sync_volume("v").1.into_iter().filter(|line| !line.starts_with("delete by")).collect();
        assert_eq!(again, [""; 0], "{name}: nothing is written or said again");
    }
}

#[test]
fn only_the_api_server_can_say_that_a_claim_is_gone() {
    let bound = with(reference("uid-c"), &phase("Bound"));
    let world = || World::new().volume("v", &bound).claim("c", &json!({"spec": {"volumeName": "v"}}));
    let mut lagging = world();
    let (volumes, mut claims) = (lagging.volumes.clone(), lagging.claims.clone());
    claims.clear();
    assert_eq!(
        lagging.sync_volume_from(&claims, &volumes, "v").1,
        ["read claim"],
        "the cache lacks the claim"
    );
    let mut lagging = world();
    let mut claims = lagging.claims.clone();
    claims.get_mut("c").unwrap()["metadata"]["uid"] = "older".into();
    assert_eq!(
        lagging.sync_volume_from(&claims, &volumes, "v").1,
        ["read claim"],
        "the cache has an older claim"
    );
    let mut gone = world();
    gone.claims.get_mut("c").unwrap()["metadata"]["uid"] = "newer".into();
    assert_eq!(gone.sync_volume("v").1, ["read claim", "Released"], "another claim has the name");
}

#[test]
fn a_released_volume_is_used_again_only_if_its_owner_says_so() {
    let released = |reuse: &str, policy: &str| {
        let volume = with(with(reference("gone"), &phase("Released")), &self::policy(policy));
        let volume = with(volume, &annotation("pv.kubernetes.io/bound-by-controller", "yes"));
        with(volume, &annotation("steersman.io/reuse-when-released", reuse))
    };
    for (reuse, policy, expected) in [
        ("true", "Retain", vec!["read claim", "volume", "Available"]),
        ("yes", "Retain", vec![]),
        ("", "Retain", vec![]),
    ] {
        let mut world = World::new().volume("v", &released(reuse, policy));
        let (volume, log) = world.sync_volume("v");
        assert_eq!(log, expected, "{reuse:?}");
        assert_eq!(volume["spec"]["claimRef"].is_null(), reuse == "true");
    }
    let mut reserved = released("true", "Retain");
    reserved["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove("pv.kubernetes.io/bound-by-controller");
    let (volume, log) = World::new().volume("v", &reserved).sync_volume("v");
    assert_eq!(log, ["read claim", "volume", "Available"]);
    let kept = json!({"namespace": "default", "name": "c"});
    assert_eq!(volume["spec"]["claimRef"], kept, "a user reserved it, and its data, for claims of that name");
    let mut world = World::new().volume("v", &with(released("true", "Retain"), &phase("Bound")));
    assert_eq!(world.sync_volume("v").1, ["read claim", "Released", "volume", "Available"]);
    let mut deleted = World::new().volume("v", &with(released("true", "Delete"), &csi()));
    assert_eq!(deleted.sync_volume("v").1, ["delete by N/A"], "the provisioner deletes it");
}

#[test]
fn finalizers_follow_the_plugin_and_the_policy() {
    let (inside, outside) =
        ("kubernetes.io/pv-controller", "external-provisioner.volume.kubernetes.io/finalizer");
    for (name, plugin, policy, before, after) in [
        ("migrated", "kubernetes.io/gce-pd", "Delete", vec![inside, outside], vec![outside]),
        ("external", "example.com/disks", "Delete", vec![inside, outside], vec![inside, outside]),
        ("inside, deleted", "kubernetes.io/host-path", "Delete", vec![outside], vec![inside]),
        ("inside, retained", "kubernetes.io/host-path", "Retain", vec![inside, "other"], vec!["other"]),
        ("inside, kept", "kubernetes.io/host-path", "Delete", vec![inside], vec![inside]),
        ("static", "", "Delete", vec![inside], vec![inside]),
    ] {
        let mut volume = with(self::policy(policy), &json!({"metadata": {"finalizers": before}}));
        if !plugin.is_empty() {
            volume = with(volume, &annotation("pv.kubernetes.io/provisioned-by", plugin));
        }
        let (volume, _) = World::new().volume("v", &volume).sync_volume("v");
        assert_eq!(volume["metadata"]["finalizers"], json!(after), "{name}");
    }
}

#[test]
fn a_volume_of_the_host_that_is_deleted_by_hand_is_let_go_once_its_owner_has_been_told() {
    let inside = "kubernetes.io/pv-controller";
    let deleted = json!({"metadata": {
        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [inside, "other"],
        "annotations": {"pv.kubernetes.io/provisioned-by": "kubernetes.io/host-path"},
    }});
    for (name, volume, claim, log, finalizers) in [
        ("in use", reference("uid-c"), true, vec![], json!([inside, "other"])),
        (
            "released",
            reference("gone"),
            false,
            vec![
                "read claim",
                "Released",
                "delete by kubernetes.io/host-path",
                "Failed",
                "volume: Warning VolumeFailedDelete",
                "volume",
            ],
            json!(["other"]),
        ),
    ] {
        let volume = with(with(with(volume, &phase("Bound")), &policy("Delete")), &deleted);
        let mut world = World::new().volume("v", &volume);
        if claim {
            world = world.claim("c", &json!({"spec": {"volumeName": "v"}}));
        }
        let (volume, seen) = world.sync_volume("v");
        assert_eq!(seen, log, "{name}");
        assert_eq!(volume["metadata"]["finalizers"], finalizers, "{name}");
    }
    // The API server would refuse a new finalizer.
    let mut bare = with(with(reference("gone"), &phase("Bound")), &with(policy("Delete"), &deleted));
    bare["metadata"]["finalizers"] = json!(["other"]);
    let (volume, seen) = World::new().volume("v", &bare).sync_volume("v");
    assert_eq!(volume["metadata"]["finalizers"], json!(["other"]));
    assert_eq!(seen.last().unwrap(), "volume: Warning VolumeFailedDelete");
}
