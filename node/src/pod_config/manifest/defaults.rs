//! What a manifest leaves unsaid, as the API defines it for pods.

use serde_json::{Map, Value, json};

use super::go_dump;

/// Fills a pod in, on its JSON form.
pub(super) fn fill_in(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").filter(|spec| spec.is_object()) else {
        pod["spec"] = json!({});
        return fill_in(pod);
    };
    for name in ["containers", "initContainers"] {
        each(spec, name, requests_from_limits);
    }
    unless_set(spec, "enableServiceLinks", true);
    if spec["hostNetwork"].as_bool().unwrap_or_default() {
        for name in ["containers", "initContainers"] {
            each(spec, name, |container| each(container, "ports", host_port));
        }
    }
    unless_text(spec, "dnsPolicy", "ClusterFirst");
    unless_text(spec, "restartPolicy", "Always");
    unless_text(spec, "schedulerName", "default-scheduler");
    unless_set(spec, "securityContext", json!({}));
    unless_set(spec, "terminationGracePeriodSeconds", 30);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        spec["terminationGracePeriodSeconds"] = 1.into();
    }
    // Two names of one thing, of which the newer wins.
    let account = text(spec, "serviceAccountName").or(text(spec, "serviceAccount")).map(str::to_owned);
    if let Some(account) = account {
        spec["serviceAccountName"] = account.clone().into();
        spec["serviceAccount"] = account.into();
    }
    each(spec, "volumes", volume);
    for name in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, name, container);
    }
    drop_old_annotations(pod);
}

/// Annotations that once carried init containers.
fn drop_old_annotations(pod: &mut Value) {
    const OLD: [&str; 4] = [
        "pod.beta.kubernetes.io/init-containers",
        "pod.alpha.kubernetes.io/init-containers",
        "pod.beta.kubernetes.io/init-container-statuses",
        "pod.alpha.kubernetes.io/init-container-statuses",
    ];
    if let Some(annotations) = pod["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|name, _| !OLD.contains(&name.as_str()));
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container["resources"]["limits"].as_object().cloned() else { return };
    let resources = &mut container["resources"];
    unless_set(resources, "requests", json!({}));
    let requests = members(&mut resources["requests"]);
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

fn host_port(port: &mut Value) {
    if port["hostPort"].as_i64().unwrap_or_default() == 0 {
        port["hostPort"] = port["containerPort"].clone();
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(container, "image").unwrap_or_default());
    unless_text(container, "imagePullPolicy", policy);
    unless_text(container, "terminationMessagePath", "/dev/termination-log");
    unless_text(container, "terminationMessagePolicy", "File");
    each(container, "ports", |port| unless_text(port, "protocol", "TCP"));
    each(container, "env", |variable| {
        if let Some(from) = object(variable, "valueFrom") {
            if let Some(field) = object(from, "fieldRef") {
                unless_text(field, "apiVersion", "v1");
            }
            if let Some(key) = object(from, "fileKeyRef") {
                unless_set(key, "optional", false);
            }
        }
    });
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = object(container, name) {
            probe(found);
        }
    }
    if let Some(lifecycle) = object(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            object(lifecycle, name).map(http_get);
        }
    }
}

fn probe(probe: &mut Value) {
    for (name, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if probe[name].as_i64().unwrap_or_default() == 0 {
            probe[name] = value.into();
        }
    }
    http_get(probe);
    if let Some(grpc) = object(probe, "grpc") {
        unless_set(grpc, "service", "");
    }
}

fn http_get(handler: &mut Value) {
    if let Some(get) = object(handler, "httpGet") {
        unless_text(get, "path", "/");
        unless_text(get, "scheme", "HTTP");
    }
}

/// What an image's tag says of pulling it: `latest`, said or not, may have moved.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let (path, last) = name.rsplit_once('/').map_or(("", name), |(path, last)| (path, last));
    let (last, tag) = last.split_once(':').map_or((last, None), |(last, tag)| (last, Some(tag)));
    // Of a name that can't be read nothing is known.
    let host_may = path.split_once('/').map_or("", |(_, rest)| rest);
    let readable = !last.is_empty() && ![last, host_may].iter().any(|part| part.contains(char::is_uppercase));
    match tag {
        Some("latest") if readable => "Always",
        None if digest.is_none() && readable => "Always",
        _ => "IfNotPresent",
    }
}

fn volume(volume: &mut Value) {
    let sources = go_dump::members_of("core.VolumeSource");
    if !sources.iter().any(|source| volume.get(source).is_some_and(|source| !source.is_null())) {
        volume["emptyDir"] = json!({});
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = object(volume, name) {
            unless_set(source, "defaultMode", 0o644);
        }
    }
    if let Some(image) = object(volume, "image") {
        let policy = pull_policy(text(image, "reference").unwrap_or_default());
        unless_text(image, "pullPolicy", policy);
    }
    if let Some(path) = object(volume, "hostPath") {
        unless_set(path, "type", "");
    }
    if let Some(downward) = object(volume, "downwardAPI") {
        field_references(downward);
    }
    if let Some(projected) = object(volume, "projected") {
        each(projected, "sources", |source| {
            if let Some(downward) = object(source, "downwardAPI") {
                field_references(downward);
            }
            if let Some(token) = object(source, "serviceAccountToken") {
                unless_set(token, "expirationSeconds", 3600);
            }
        });
    }
    remote_volume(volume);
}

/// Storage that a cluster attaches.
fn remote_volume(volume: &mut Value) {
    if let Some(source) = object(volume, "iscsi") {
        unless_text(source, "iscsiInterface", "default");
    }
    if let Some(source) = object(volume, "rbd") {
        unless_text(source, "pool", "rbd");
        unless_text(source, "user", "admin");
        unless_text(source, "keyring", "/etc/ceph/keyring");
    }
    if let Some(source) = object(volume, "azureDisk") {
        unless_set(source, "cachingMode", "ReadWrite");
        unless_set(source, "fsType", "ext4");
        unless_set(source, "readOnly", false);
        unless_set(source, "kind", "Shared");
    }
    if let Some(source) = object(volume, "scaleIO") {
        unless_text(source, "storageMode", "ThinProvisioned");
        unless_text(source, "fsType", "xfs");
    }
    if let Some(template) =
        object(volume, "ephemeral").and_then(|source| object(source, "volumeClaimTemplate"))
    {
        unless_set(template, "spec", json!({}));
        unless_set(&mut template["spec"], "volumeMode", "Filesystem");
    }
}

fn field_references(items: &mut Value) {
    each(items, "items", |item| {
        if let Some(field) = object(item, "fieldRef") {
            unless_text(field, "apiVersion", "v1");
        }
    });
}

/// Does something to each item of a list, if there is one.
fn each(object: &mut Value, list: &str, act: impl FnMut(&mut Value)) {
    if let Some(Value::Array(items)) = object.get_mut(list) {
        items.iter_mut().filter(|item| item.is_object()).for_each(act);
    }
}

fn object<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    object.get_mut(name).filter(|value| value.is_object())
}

/// A text that is there and not empty.
fn text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn members(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    object.as_object_mut().expect("a value made an object must be one")
}

/// For fields whose empty text means that they are not set.
fn unless_text(object: &mut Value, name: &str, default: &str) {
    if text(object, name).is_none() {
        object[name] = default.into();
    }
}

/// For fields that may be set to anything.
fn unless_set(object: &mut Value, name: &str, default: impl Into<Value>) {
    if object.get(name).is_none_or(Value::is_null) {
        object[name] = default.into();
    }
}
