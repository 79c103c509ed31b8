use serde::Deserialize;

use super::*;

/// What Kubernetes 1.36.3 put on containers, made by calling its `newPodLabels`, `newContainerLabels` and
/// `newContainerAnnotations`.
const VECTORS: &str = include_str!("vectors.jsonl");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    pod: Pod,
    container: Container,
    restart_count: u32,
    pod_labels: Texts,
    labels: Texts,
    annotations: Texts,
}

fn vectors() -> Vec<Vector> {
    VECTORS.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn annotations_of(vector: &Vector) -> Texts {
    let devices = Texts::from([("device".to_owned(), "x".to_owned())]);
    new_container_annotations(&vector.container, &vector.pod, vector.restart_count, devices)
}

#[test]
fn labels_and_annotations_are_the_kubelets() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 8);
    for vector in &vectors {
        assert_eq!(new_pod_labels(&vector.pod), vector.pod_labels);
        assert_eq!(new_container_labels(&vector.container, &vector.pod), vector.labels);
        assert_eq!(annotations_of(vector), vector.annotations, "{}", vector.container.name);
        assert_eq!(Some(new_pod_annotations(&vector.pod)), vector.pod.metadata.annotations);
    }
}

#[test]
fn what_the_kubelet_wrote_reads_back() {
    for vector in vectors() {
        let (container, labels) = (&vector.container, LabelledInfo::from_labels(&vector.labels));
        assert_eq!(labels.pod_name, "web");
        assert_eq!(labels.pod_namespace, "shop");
        assert_eq!(labels.pod_uid, Uid::from("u-1"));
        assert_eq!(labels.container_name, container.name);
        let expected = AnnotatedInfo {
            hash: hash_container(container),
            restart_count: vector.restart_count,
            pod_deletion_grace_period: Some(10),
            pod_termination_grace_period: Some(30),
            termination_message_path: container.termination_message_path.clone().unwrap_or_default(),
            termination_message_policy: container.termination_message_policy.clone().unwrap_or_default(),
            pre_stop_handler: container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.clone()),
            ports: container.ports.clone().unwrap_or_default(),
        };
        assert_eq!(AnnotatedInfo::from_annotations(&vector.annotations), expected);
    }
}

#[test]
fn who_a_pod_is_wins_over_its_own_labels_and_is_taken_off_again() {
    let pod = &vectors()[0].pod;
    let labels = new_pod_labels(pod);
    assert_eq!(labels[POD_NAME], "web");
    assert_eq!(LabelledInfo::pod_labels(&labels), Texts::from([("app".to_owned(), "web".to_owned())]));
}

#[test]
fn what_is_missing_or_does_not_read_has_its_default() {
    assert_eq!(AnnotatedInfo::from_annotations(&Texts::new()), AnnotatedInfo::default());
    assert_eq!(LabelledInfo::from_labels(&Texts::new()), LabelledInfo::default());
    let names = [
        CONTAINER_HASH,
        CONTAINER_RESTART_COUNT,
        POD_DELETION_GRACE_PERIOD,
        POD_TERMINATION_GRACE_PERIOD,
        CONTAINER_PRE_STOP_HANDLER,
        CONTAINER_PORTS,
    ];
    let broken: Texts = names.iter().map(|name| ((*name).to_owned(), "{x".to_owned())).collect();
    assert_eq!(AnnotatedInfo::from_annotations(&broken), AnnotatedInfo::default());
}

#[test]
fn an_absent_grace_hook_and_port_list_are_left_out() {
    let annotations = new_container_annotations(&Container::default(), &Pod::default(), 0, Texts::new());
    let names: Vec<&str> = annotations.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            CONTAINER_HASH,
            CONTAINER_RESTART_COUNT,
            CONTAINER_TERMINATION_MESSAGE_PATH,
            CONTAINER_TERMINATION_MESSAGE_POLICY
        ]
    );
}

#[test]
fn what_go_cannot_tell_from_absent_is_absent() {
    let container: Container = serde_json::from_value(serde_json::json!({
        "name": "app",
        "ports": [{"containerPort": 80, "hostPort": 0, "name": "", "protocol": "", "hostIP": ""}],
        "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "", "host": "", "scheme": "", "httpHeaders": []}}},
    }))
    .unwrap();
    let annotations = new_container_annotations(&container, &Pod::default(), 0, Texts::new());
    assert_eq!(annotations[CONTAINER_PORTS], r#"[{"containerPort":80}]"#);
    assert_eq!(annotations[CONTAINER_PRE_STOP_HANDLER], r#"{"httpGet":{"port":80}}"#);
}
