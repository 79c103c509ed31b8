//! What containers find in their variables and volumes.

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use serde_json::json;

use crate::pods::{Pods, STAY, shell};
use support::eventually;

pub async fn config_maps_secrets_and_fields_are_variables_and_files(pods: Pods) {
    pods.make::<ConfigMap>(json!({ "metadata": { "name": "settings" }, "data": { "colour": "blue" } })).await;
    pods.make::<Secret>(json!({ "metadata": { "name": "keys" }, "stringData": { "word": "xyzzy" } })).await;
    let said = pods
        .output(
            "echo $COLOUR $WORD $MINE $ALL_colour $ARM; cat /settings/colour /keys/word /mine/name /both/a /both/b; \
             echo; stat -L -c %a /keys/word; ls /empty | wc -l; test $POD_IP = $(hostname -i) && echo address",
            json!({
                "env": [
                    { "name": "COLOUR", "valueFrom": { "configMapKeyRef": { "name": "settings", "key": "colour" } } },
                    { "name": "WORD", "valueFrom": { "secretKeyRef": { "name": "keys", "key": "word" } } },
                    { "name": "MINE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } },
                    { "name": "POD_IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
                    { "name": "ARM", "value": "$(COLOUR)-$$(COLOUR)-$(NONE)" },
                ],
                "envFrom": [{ "prefix": "ALL_", "configMapRef": { "name": "settings" } }],
                "volumeMounts": [
                    { "name": "settings", "mountPath": "/settings" }, { "name": "keys", "mountPath": "/keys" },
                    { "name": "mine", "mountPath": "/mine" }, { "name": "both", "mountPath": "/both" },
                    { "name": "empty", "mountPath": "/empty" },
                ],
            }),
            json!({ "volumes": [
                { "name": "settings", "configMap": { "name": "settings" } },
                { "name": "keys", "secret": { "secretName": "keys", "defaultMode": 0o400 } },
                { "name": "mine", "downwardAPI": { "items": [
                    { "path": "name", "fieldRef": { "fieldPath": "metadata.namespace" } },
                ] } },
                { "name": "both", "projected": { "sources": [
                    { "configMap": { "name": "settings", "items": [{ "key": "colour", "path": "a" }] } },
                    { "secret": { "name": "keys", "items": [{ "key": "word", "path": "b" }] } },
                ] } },
                { "name": "empty", "emptyDir": {} },
            ] }),
        )
        .await;
    let namespace = &pods.namespace;
    let expected = format!(
        "blue xyzzy {namespace} blue blue-$(COLOUR)-$(NONE)\nbluexyzzy{namespace}bluexyzzy\n400\n0\naddress\n"
    );
    assert_eq!(said, expected);
}

pub async fn variables_come_from_a_file_that_an_earlier_container_wrote(pods: Pods) {
    let of = |key: &str, optional: bool| json!({ "fileKeyRef": { "volumeName": "scratch", "path": "made/env", "key": key, "optional": optional } });
    let said = pods
        .output(
            "echo \"$WORD\" $COPY ${NONE-unset}",
            json!({ "env": [
                { "name": "WORD", "valueFrom": of("WORD", false) }, { "name": "NONE", "valueFrom": of("NONE", true) },
                { "name": "COPY", "value": "$(WORD)" },
            ] }),
            json!({
                "initContainers": [{
                    "name": "writes",
                    "command": shell("mkdir /scratch/made; echo \"WORD='x  y' # said\" >/scratch/made/env"),
                    "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }],
                }],
                "volumes": [{ "name": "scratch", "emptyDir": {} }],
            }),
        )
        .await;
    assert_eq!(said, "x  y x y unset\n");
}

pub async fn a_token_is_projected_for_the_pods_service_account(pods: Pods) {
    pods.make::<ServiceAccount>(json!({ "metadata": { "name": "robot" } })).await;
    let said = pods
        .output(
            // The second part of a token says who it is of; its padding is left out.
            "cut -d. -f2 /token/token | tr '_-' '/+' | base64 -d 2>/dev/null; true",
            json!({ "volumeMounts": [{ "name": "token", "mountPath": "/token" }] }),
            json!({ "serviceAccountName": "robot", "volumes": [{ "name": "token", "projected": { "sources": [
                { "serviceAccountToken": { "path": "token", "audience": "them", "expirationSeconds": 600 } },
            ] } }] }),
        )
        .await;
    assert!(said.contains(r#""aud":["them"]"#), "{said}");
    assert!(said.contains(&format!(r#""namespace":"{}""#, pods.namespace)), "{said}");
    assert!(said.contains(r#""serviceaccount":{"name":"robot""#), "{said}");
}

pub async fn a_sub_path_is_all_a_container_sees_of_a_volume(pods: Pods) {
    let said = pods
        .output(
            "echo inside >/part/file; cat /whole/some/where/file; ls /part",
            json!({ "volumeMounts": [
                { "name": "scratch", "mountPath": "/whole" },
                { "name": "scratch", "mountPath": "/part", "subPath": "some/where" },
            ] }),
            json!({ "volumes": [{ "name": "scratch", "emptyDir": {} }] }),
        )
        .await;
    assert_eq!(said, "inside\nfile\n");
}

pub async fn files_are_of_the_pods_group(pods: Pods) {
    pods.make::<Secret>(json!({ "metadata": { "name": "keys" }, "stringData": { "word": "xyzzy" } })).await;
    let said = pods
        .output(
            "id -u; stat -L -c %g /scratch /keys/word; echo new >/scratch/file; stat -c %g /scratch/file; cat /keys/word",
            json!({ "volumeMounts": [
                { "name": "scratch", "mountPath": "/scratch" }, { "name": "keys", "mountPath": "/keys" },
            ] }),
            json!({
                "securityContext": { "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2345 },
                "volumes": [
                    { "name": "scratch", "emptyDir": {} },
                    { "name": "keys", "secret": { "secretName": "keys", "defaultMode": 0o400 } },
                ],
            }),
        )
        .await;
    assert_eq!(said, "1000\n2345\n2345\n2345\nxyzzy");
}

pub async fn a_host_path_is_of_the_machine(pods: Pods) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("from"), "machine").unwrap();
    let said = pods
        .output(
            "cat /host/from; echo container >/host/to",
            json!({ "volumeMounts": [{ "name": "host", "mountPath": "/host" }] }),
            json!({ "volumes": [{ "name": "host", "hostPath": { "path": folder.path(), "type": "Directory" } }] }),
        )
        .await;
    assert_eq!(said, "machine");
    assert_eq!(std::fs::read_to_string(folder.path().join("to")).unwrap(), "container\n");
}

pub async fn a_volume_that_is_not_supported_is_named_in_an_event(pods: Pods) {
    pods.run(
        "far",
        json!({
            "containers": [{ "volumeMounts": [{ "name": "share", "mountPath": "/share" }] }],
            "volumes": [{ "name": "share", "nfs": { "server": "192.0.2.1", "path": "/" } }],
        }),
    )
    .await;
    let message = pods.event("far", "FailedMount").await;
    assert!(message.contains("share"), "{message}");
    assert_eq!(crate::pods::phase_of(&pods.get("far").await.unwrap()), "Pending");
}

pub async fn what_a_container_mounts_is_seen_by_the_next(pods: Pods) {
    let mount = |propagation: &str| json!([{ "name": "data", "mountPath": "/data", "mountPropagation": propagation }]);
    // Not before the others have the folder, or they would have what is mounted in it as well. It goes before the pod does:
    // it is the container's.
    let mounts = "while [ ! -e /data/go ]; do sleep 0.1; done; mkdir /data/in; mount -t tmpfs none /data/in; echo here >/data/in/file; \
                  trap 'umount /data/in; exit 0' TERM; while true; do sleep 0.1; done";
    pods.run("two", json!({
        "terminationGracePeriodSeconds": 20,
        "containers": [
            { "command": shell(mounts), "securityContext": { "privileged": true }, "volumeMounts": mount("Bidirectional") },
            { "name": "sees", "command": shell(STAY), "volumeMounts": mount("HostToContainer") },
            { "name": "alone", "command": shell(STAY), "volumeMounts": mount("None") },
        ],
        "volumes": [{ "name": "data", "emptyDir": {} }],
    })).await;
    pods.ready("two").await;
    pods.kubectl_ok(&["exec", "two", "-c", "alone", "--", "touch", "/data/go"]).await;
    let look = async |container: &str| {
        let arguments =
            ["exec", "two", "-c", container, "--", "sh", "-c", "cat /data/in/file 2>/dev/null || echo none"];
        pods.kubectl_ok(&arguments).await
    };
    eventually("the mount is seen", || async { (look("sees").await == "here\n").then_some(()) }).await;
    assert_eq!(look("alone").await, "none\n");
    pods.delete("two").await;
    pods.gone("two").await;
}
