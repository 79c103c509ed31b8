//! Manifests in, pods or errors out.

use super::*;

/// Manifests and the uids that Kubernetes 1.36.3 gives them on the host `node1`: from the file `/manifests/<name>`, and
/// from `http://manifests/<name>`.
const UIDS: &str = include_str!("uids.txt");
const MANIFESTS: [(&str, &str); 5] = [
    ("small.yaml", include_str!("vectors/small.yaml")),
    ("apiserver.yaml", include_str!("vectors/apiserver.yaml")),
    ("rich.yaml", include_str!("vectors/rich.yaml")),
    ("quantities.json", include_str!("vectors/quantities.json")),
    ("uid.yaml", include_str!("vectors/uid.yaml")),
];

fn decode_file(text: &str) -> Result<Vec<Pod>, Error> {
    decode(text.as_bytes(), Origin::File("/manifests/x.yaml"), "node1")
}

fn reason(text: &str) -> String {
    decode_file(text).expect_err("the manifest must be refused").to_string()
}

fn pod_with(spec: &str) -> String {
    format!("{{apiVersion: v1, kind: Pod, metadata: {{name: web}}, spec: {{{spec}}}}}")
}

#[test]
fn uids_are_those_that_upstream_gives() {
    for (name, text) in MANIFESTS {
        let expected: Vec<&str> = UIDS
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .expect("each manifest must have its uids")
            .split_whitespace()
            .collect();
        let mut pod = to_json(text.as_bytes()).unwrap();
        defaults::fill_in(&mut pod);
        let file = format!("/manifests/{name}");
        assert_eq!(uid_of(&pod, Origin::File(&file), "node1").unwrap(), expected[0], "{name} from a file");
        let url = format!("http://manifests/{name}");
        assert_eq!(uid_of(&pod, Origin::Url(&url), "node1").unwrap(), expected[1], "{name} from a URL");
    }
}

#[test]
fn every_type_that_the_table_names_is_in_it() {
    let known = |kind: &str| {
        let kind = kind.trim_start_matches("[]").trim_start_matches('*');
        let kind = kind.split_once(']').map_or(kind, |(_, item)| item);
        [
            "string",
            "bool",
            "int",
            "int32",
            "int64",
            "resource.Quantity",
            "intstr.IntOrString",
            "v1.Time",
            "v1.FieldsV1",
        ]
        .contains(&kind)
            || include_str!("go_types.txt").lines().any(|line| {
                line.strip_prefix(kind).is_some_and(|rest| rest.starts_with(": ") || rest.starts_with(" = "))
            })
    };
    for line in include_str!("go_types.txt").lines() {
        let fields = line.split_once(": ").map_or("", |(_, fields)| fields);
        for kind in fields.split(", ").filter_map(|field| field.split(' ').nth(1)) {
            assert!(known(kind), "{kind} in {line}");
        }
    }
}

#[test]
fn a_static_pod_is_named_after_its_node_placed_there_and_marked() {
    let pod =
        decode(MANIFESTS[0].1.as_bytes(), Origin::File("/manifests/small.yaml"), "Node1").unwrap().remove(0);
    assert_eq!(pod.metadata.name.as_deref(), Some("web-node1"));
    assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
    let uid = pod.metadata.uid.unwrap();
    assert_eq!(uid.len(), 32);
    assert_eq!(pod.metadata.annotations.unwrap()[CONFIG_HASH], uid);
    let spec = pod.spec.unwrap();
    assert_eq!(spec.node_name.as_deref(), Some("Node1"));
    let tolerations = spec.tolerations.unwrap();
    assert_eq!(
        (tolerations[0].operator.as_deref(), tolerations[0].effect.as_deref()),
        (Some("Exists"), Some("NoExecute"))
    );
    assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
    assert_eq!(spec.containers[0].image_pull_policy.as_deref(), Some("Always"));
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
}

#[test]
fn a_toleration_of_everything_is_not_added_twice_and_not_to_pods_from_a_url() {
    let text = pod_with(
        "containers: [{name: a, image: b}], tolerations: [{operator: Exists, effect: NoExecute, tolerationSeconds: 5}]",
    );
    let tolerations = decode_file(&text).unwrap().remove(0).spec.unwrap().tolerations.unwrap();
    assert_eq!(tolerations.len(), 1);
    assert_eq!(tolerations[0].toleration_seconds, None);
    let text = pod_with("containers: [{name: a, image: b}]");
    let pod = decode(text.as_bytes(), Origin::Url("http://x"), "node1").unwrap().remove(0);
    assert_eq!(pod.spec.unwrap().tolerations, None);
}

#[test]
fn a_uid_that_is_given_is_kept() {
    let pod = decode_file(MANIFESTS[4].1).unwrap().remove(0);
    assert_eq!(pod.metadata.uid.as_deref(), Some("my-own-uid"));
    assert_eq!(pod.metadata.annotations.unwrap()[CONFIG_HASH], "my-own-uid");
}

#[test]
fn a_list_gives_all_its_pods_in_yaml_and_in_json() {
    let yaml = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: {containers: [{name: a, image: a}]}\n\
                - metadata: {name: b, namespace: other}\n  spec: {containers: [{name: a, image: a}]}\n";
    let json = serde_json::to_string(&to_json(yaml.as_bytes()).unwrap()).unwrap();
    for text in [yaml, &json] {
        let names: Vec<_> =
            decode_file(text).unwrap().into_iter().map(|pod| pod.metadata.name.unwrap()).collect();
        assert_eq!(names, ["a-node1", "b-node1"]);
    }
}

#[test]
fn numbers_and_words_are_read_as_yaml_1_1_has_them() {
    let text = pod_with(
        "containers: [{name: a, image: b, tty: yes}], volumes: [{name: v, downwardAPI: {defaultMode: 0400}}]",
    );
    let spec = decode_file(&text).unwrap().remove(0).spec.unwrap();
    assert_eq!(spec.containers[0].tty, Some(true));
    assert_eq!(spec.volumes.unwrap()[0].downward_api.as_ref().unwrap().default_mode, Some(0o400));
}

#[test]
fn what_is_no_pod_is_refused_with_the_reason() {
    assert!(reason("").contains("only Pod and PodList"));
    assert!(reason("{apiVersion: v1, kind: Service}").contains("\"Service\""));
    assert!(reason("{apiVersion: v2, kind: Pod}").contains("\"v2\""));
    assert!(reason("a: [").contains("couldn't parse"));
    assert_eq!(reason("{apiVersion: v1, kind: Pod, spec: {}}"), "invalid pod: name is needed for the pod");
    let text = pod_with("containers: [{name: yes, image: b}]");
    assert!(reason(&text).contains("expected a string"), "{}", reason(&text));
}

#[test]
fn a_pod_that_the_api_would_refuse_is_refused_with_the_field() {
    let cases = [
        ("", "spec.containers: is required"),
        ("containers: [{name: A, image: b}]", "spec.containers[0].name"),
        ("containers: [{name: a}]", "spec.containers[0].image: is required"),
        ("containers: [{name: a, image: b}, {name: a, image: b}]", "spec.containers[1].name: \"a\" is taken"),
        ("restartPolicy: Sometimes, containers: [{name: a, image: b}]", "spec.restartPolicy: \"Sometimes\""),
        (
            "containers: [{name: a, image: b, ports: [{containerPort: 70000}]}]",
            "ports[0].containerPort: 70000",
        ),
        (
            "containers: [{name: a, image: b, volumeMounts: [{name: v, mountPath: /v}]}]",
            "there is no volume \"v\"",
        ),
        (
            "containers: [{name: a, image: b}], volumes: [{name: v}, {name: v}]",
            "spec.volumes[1].name: \"v\" is taken",
        ),
        (
            "containers: [{name: a, image: b, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]",
            "must be less than or equal to cpu limit",
        ),
        (
            "containers: [{name: a, image: b, ports: [{containerPort: 1, hostPort: 5}, {containerPort: 2, hostPort: 5}]}]",
            "hostPort: 5 is taken",
        ),
    ];
    for (spec, expected) in cases {
        let reason = reason(&pod_with(spec));
        assert!(reason.contains(expected), "{spec}: {reason}");
    }
}

#[test]
fn a_static_pod_may_not_refer_to_what_only_the_api_server_has() {
    let cases = [
        ("serviceAccountName: x", "serviceaccounts"),
        ("imagePullSecrets: [{name: x}]", "secrets"),
        ("initContainers: [{name: i, image: b, envFrom: [{secretRef: {name: s}}]}]", "secrets"),
        ("volumes: [{name: v, configMap: {name: c}}]", "configmaps"),
        ("resourceClaims: [{name: c, resourceClaimName: r}]", "resourceclaims"),
        ("volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]", "persistentvolumeclaims"),
        ("volumes: [{name: v, csi: {driver: d}}]", "csidrivers (via CSI volumes)"),
        (
            "volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]",
            "serviceaccounts (via projected volumes)",
        ),
    ];
    for (part, resource) in cases {
        let text = pod_with(&format!("containers: [{{name: a, image: b}}], {part}"));
        assert_eq!(reason(&text), format!("static pods may not reference {resource}"), "{part}");
    }
}

#[test]
fn a_wrong_type_is_told_without_a_place_that_nobody_can_find() {
    for (spec, what) in [("containers: 5", "5"), ("containers: [{name: c, stdin: 7}]", "7")] {
        let reason = reason(&pod_with(spec));
        let expected = format!("couldn't parse as pod: invalid type: integer `{what}`, expected ");
        assert!(reason.starts_with(&expected) && !reason.contains(" at line "), "{reason}");
    }
}
