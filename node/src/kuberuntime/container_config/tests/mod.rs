//! What the runtime is told, as tables over specs.

mod resources;
mod security;

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use super::*;

fn node() -> NodeFacts {
    NodeFacts {
        memory_capacity: 8_000_000_000,
        cgroup_version: CgroupVersion::V1,
        swap_controller: false,
        huge_page_sizes: Vec::new(),
        thermal_throttle: Vec::new(),
        selinux: false,
        cpu_cfs_quota: true,
        cpu_cfs_quota_period: Duration::from_millis(100),
        single_process_oom_kill: false,
        seccomp_default: false,
        seccomp_profile_root: PathBuf::from("/var/lib/kubelet/seccomp"),
    }
}

fn pod(spec: Value) -> Pod {
    let metadata = json!({"name": "web", "namespace": "shop", "uid": "u-1"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn first(pod: &Pod) -> &Container {
    &pod.spec.as_ref().unwrap().containers[0]
}

/// The configuration of the first container, of an image with this user.
fn configured_as(pod: &Pod, image_user: &ImageUser) -> Result<v1::ContainerConfig, ConfigError> {
    let (options, node) = (ContainerOptions::default(), node());
    container_config(pod, first(pod), &ContainerInputs { image_user, ..inputs(&options, &node) })
}

fn inputs<'a>(options: &'a ContainerOptions, node: &'a NodeFacts) -> ContainerInputs<'a> {
    ContainerInputs {
        image_ref: "sha256:1",
        restart_count: 0,
        options,
        image_user: &ImageUser::Id(0),
        target_container: None,
        termination_message: None,
        extra_supplemental_groups: &[],
        node,
    }
}

#[test]
fn a_container_is_told_what_its_spec_says() {
    let pod = pod(json!({"containers": [{
        "name": "app", "image": "shop/app:1", "command": ["run", "$(WHO)", "$(NOBODY)"], "args": ["$$(WHO)"],
        "workingDir": "/srv", "stdin": true, "stdinOnce": true, "tty": true,
        "terminationMessagePath": "dev/termination-log", "lifecycle": {"stopSignal": "SIGRTMIN+3"},
    }]}));
    let options = ContainerOptions {
        env: vec![("WHO".to_owned(), "me".to_owned()), ("REF".to_owned(), "$(WHO)".to_owned())],
        mounts: vec![v1::Mount {
            container_path: "/data".to_owned(),
            host_path: "/var/data".to_owned(),
            selinux_relabel: true,
            propagation: v1::MountPropagation::PropagationBidirectional as i32,
            recursive_read_only: true,
            readonly: true,
            ..v1::Mount::default()
        }],
        devices: vec![v1::Device { host_path: "/dev/fuse".to_owned(), ..v1::Device::default() }],
        annotations: [("device".to_owned(), "1".to_owned())].into(),
    };
    let node = node();
    let inputs = ContainerInputs {
        restart_count: 2,
        termination_message: Some(Path::new("/var/lib/kubelet/pods/u-1/containers/app/0a")),
        ..inputs(&options, &node)
    };
    let config = container_config(&pod, first(&pod), &inputs).unwrap();

    assert_eq!(config.metadata, Some(v1::ContainerMetadata { name: "app".to_owned(), attempt: 2 }));
    let image = config.image.unwrap();
    assert_eq!((image.image.as_str(), image.user_specified_image.as_str()), ("sha256:1", "shop/app:1"));
    assert_eq!(config.command, ["run", "me", "$(NOBODY)"]);
    assert_eq!(config.args, ["$(WHO)"]);
    assert_eq!(config.working_dir, "/srv");
    let env: Vec<_> = config.envs.iter().map(|env| (env.key.as_str(), env.value.as_slice())).collect();
    assert_eq!(env, [("WHO", &b"me"[..]), ("REF", b"$(WHO)")]);
    assert_eq!(config.log_path, "app/2.log");
    assert!(config.stdin && config.stdin_once && config.tty);
    assert_eq!(config.stop_signal, v1::Signal::Sigrtminplus3 as i32);
    assert_eq!(config.devices, options.devices);
    assert_eq!(config.labels["io.kubernetes.container.name"], "app");
    assert_eq!(config.annotations["device"], "1");
    assert_eq!(config.annotations["io.kubernetes.container.restartCount"], "2");

    // Relabelled only where there are labels at all, and the termination message comes last.
    let [data, message] = &config.mounts[..] else { panic!("{:?}", config.mounts) };
    assert_eq!(*data, v1::Mount { selinux_relabel: false, ..options.mounts[0].clone() });
    assert_eq!(message.container_path, "/dev/termination-log");
    assert_eq!(message.host_path, "/var/lib/kubelet/pods/u-1/containers/app/0a");
    assert!(!message.readonly);
}

#[test]
fn a_container_with_claimed_devices_is_not_configured_without_them() {
    let spec = |resources: Value| {
        pod(json!({
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}],
            "containers": [{"name": "app", "resources": resources}],
        }))
    };
    let refused = |pod: &Pod| configured_as(pod, &ImageUser::Id(0)).err().map(|error| error.to_string());

    let claims = json!({"claims": [{"name": "gpu", "request": "one"}]});
    assert!(refused(&spec(claims.clone())).is_some_and(|why| why.contains("\"shared\"")));
    // Other containers of the pod need none of its devices.
    assert_eq!(refused(&spec(json!({}))), None);

    let mut extended = pod(json!({"containers": [
        {"name": "app", "resources": {"requests": {"example.com/gpu": "1"}}}, {"name": "other"},
    ]}));
    let status = |container: &str| {
        let mapping =
            json!({"containerName": container, "resourceName": "example.com/gpu", "requestName": "r"});
        let status = json!({"resourceClaimName": "web-extended", "requestMappings": [mapping]});
        serde_json::from_value(json!({"extendedResourceClaimStatus": status})).unwrap()
    };
    extended.status = status("app");
    assert!(refused(&extended).is_some_and(|why| why.contains("\"web-extended\"")));
    extended.status = status("other");
    assert_eq!(refused(&extended), None);

    let mut without = spec(claims);
    without.spec.as_mut().unwrap().resource_claims =
        serde_json::from_value(json!([{"name": "gpu", "resourceClaimTemplateName": "gpus"}])).unwrap();
    without.status = serde_json::from_value(json!({"resourceClaimStatuses": [{"name": "gpu"}]})).unwrap();
    assert_eq!(refused(&without), None);
}

#[test]
fn an_image_runs_as_its_user_or_as_root() {
    let image = |uid: Option<i64>, username: &str| v1::Image {
        uid: uid.map(|value| v1::Int64Value { value }),
        username: username.to_owned(),
        ..v1::Image::default()
    };
    assert_eq!(ImageUser::of(Some(&image(Some(5), ""))), ImageUser::Id(5));
    assert_eq!(ImageUser::of(Some(&image(None, "www"))), ImageUser::Name("www".to_owned()));
    assert_eq!(ImageUser::of(Some(&image(None, ""))), ImageUser::Id(0));
    assert_eq!(ImageUser::of(None), ImageUser::Id(0));
}

#[test]
fn stop_signals_are_those_of_the_spec() {
    for (name, signal) in [
        (json!("SIGTERM"), v1::Signal::Sigterm),
        (json!("SIGUSR1"), v1::Signal::Sigusr1),
        (json!("SIGRTMIN"), v1::Signal::Sigrtmin),
        (json!("SIGRTMAX-14"), v1::Signal::Sigrtmaxminus14),
        (json!("SIGNONE"), v1::Signal::RuntimeDefault),
        (Value::Null, v1::Signal::RuntimeDefault),
    ] {
        let pod = pod(json!({"containers": [{"name": "app", "lifecycle": {"stopSignal": name}}]}));
        let config = configured_as(&pod, &ImageUser::Id(0)).unwrap();
        assert_eq!(config.stop_signal, signal as i32, "{name}");
    }
}
