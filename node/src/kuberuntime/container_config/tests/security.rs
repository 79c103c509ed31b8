//! As whom containers run, and what they are kept from.

use super::*;

#[test]
fn who_must_not_be_root_is_not() {
    const WHO: &str = r#"(pod: "web_shop(u-1)", container: app)"#;
    let root = ImageUser::Id(0);
    let name = |name: &str| ImageUser::Name(name.to_owned());
    let (yes, no) = (json!({"runAsNonRoot": true}), json!({"runAsNonRoot": false}));
    for (of_pod, of_container, user, problem) in [
        (json!({}), json!({}), &root, None),
        (no.clone(), json!({}), &root, None),
        (yes.clone(), no.clone(), &root, None),
        (yes.clone(), json!({"runAsUser": 1}), &root, None),
        (json!({"runAsUser": 1}), yes.clone(), &root, None),
        (yes.clone(), json!({}), &ImageUser::Id(7), None),
        (
            yes.clone(),
            json!({"runAsUser": 0}),
            &ImageUser::Id(7),
            Some("container's runAsUser breaks non-root policy "),
        ),
        (
            json!({"runAsUser": 0}),
            yes.clone(),
            &ImageUser::Id(7),
            Some("container's runAsUser breaks non-root policy "),
        ),
        (yes.clone(), json!({}), &root, Some("container has runAsNonRoot and image will run as root ")),
        (
            no,
            yes.clone(),
            &name("www"),
            Some(
                "container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root ",
            ),
        ),
        (yes.clone(), json!({"runAsUser": 3}), &name("www"), None),
        (
            yes,
            json!({}),
            &ImageUser::Id(-1),
            Some(
                "container has runAsNonRoot and image has an invalid user id (-1). (Must be 1-(2147483647)): must be between 0 and 2147483647, inclusive ",
            ),
        ),
    ] {
        let case = format!("{of_pod} {of_container} {user:?}");
        let pod = pod(json!({
            "securityContext": of_pod, "containers": [{"name": "app", "securityContext": of_container}],
        }));
        let error = configured_as(&pod, user).err().map(|error| error.to_string());
        assert_eq!(error, problem.map(|problem| format!("{problem}{WHO}")), "{case}");
    }
}

/// The security context of the first container, of an image that runs as root.
fn security(pod: &Pod, node: &NodeFacts) -> Result<v1::LinuxContainerSecurityContext, ConfigError> {
    let options = ContainerOptions::default();
    let inputs = ContainerInputs { extra_supplemental_groups: &[77], ..inputs(&options, node) };
    Ok(container_config(pod, first(pod), &inputs)?.linux.unwrap().security_context.unwrap())
}

#[test]
fn a_container_runs_as_it_says_then_as_its_pod_says_then_as_its_image_says() {
    let id = |value| Some(v1::Int64Value { value });
    let name = ImageUser::Name("www".to_owned());
    for (of_pod, of_container, image, user, group, user_name) in [
        (json!({}), json!({}), &ImageUser::Id(0), id(0), None, ""),
        (json!({}), json!({}), &ImageUser::Id(9), id(9), None, ""),
        (json!({}), json!({}), &name, None, None, "www"),
        (json!({"runAsUser": 1, "runAsGroup": 2}), json!({}), &name, id(1), id(2), ""),
        (
            json!({"runAsUser": 1}),
            json!({"runAsUser": 3, "runAsGroup": 4}),
            &ImageUser::Id(9),
            id(3),
            id(4),
            "",
        ),
    ] {
        let spec = json!({
            "securityContext": of_pod, "containers": [{"name": "app", "securityContext": of_container}],
        });
        let config = configured_as(&pod(spec), image).unwrap();
        let context = config.linux.unwrap().security_context.unwrap();
        let given = (context.run_as_user, context.run_as_group, context.run_as_username.as_str());
        assert_eq!(given, (user, group, user_name), "{of_pod} {of_container}");
    }
}

#[test]
fn what_a_container_may_is_as_its_spec_says() {
    let spec = json!({
        "securityContext": {
            "fsGroup": 5, "supplementalGroups": [6, 7], "supplementalGroupsPolicy": "Strict",
            "seLinuxOptions": {"level": "s0", "type": "t"},
        },
        "containers": [{"name": "app", "securityContext": {
            "privileged": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
            "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "seLinuxOptions": {"user": "u", "role": "r"},
        }}],
    });
    let context = security(&pod(spec), &node()).unwrap();
    assert!(context.privileged && context.readonly_rootfs && context.no_new_privs);
    let capabilities = context.capabilities.unwrap();
    assert_eq!(capabilities.add_capabilities, ["NET_ADMIN"]);
    assert_eq!(capabilities.drop_capabilities, ["ALL"]);
    assert_eq!(context.supplemental_groups, [5, 6, 7, 77]);
    assert_eq!(context.supplemental_groups_policy, v1::SupplementalGroupsPolicy::Strict as i32);
    // The container's replace the pod's as a whole.
    let selinux = context.selinux_options.unwrap();
    assert_eq!((selinux.user.as_str(), selinux.role.as_str(), selinux.level.as_str()), ("u", "r", ""));

    let plain = security(&pod(json!({"containers": [{"name": "app"}]})), &node()).unwrap();
    assert!(!plain.privileged && !plain.readonly_rootfs && !plain.no_new_privs);
    assert_eq!((plain.capabilities, plain.selinux_options, plain.apparmor), (None, None, None));
    assert_eq!(plain.supplemental_groups, [77]);

    let odd =
        pod(json!({"containers": [{"name": "app"}], "securityContext": {"supplementalGroupsPolicy": "Odd"}}));
    assert_eq!(security(&odd, &node()).unwrap_err().to_string(), "unsupported supplementalGroupsPolicy: Odd");
}

#[test]
fn the_machine_is_hidden_from_all_but_unmasked_containers() {
    let throttle = "/sys/devices/system/cpu/cpu0/thermal_throttle";
    let node = NodeFacts { thermal_throttle: vec![throttle.to_owned()], ..node() };
    for (proc_mount, masked, readonly) in
        [(Value::Null, 13, 5), (json!("Default"), 13, 5), (json!("Unmasked"), 0, 0)]
    {
        let spec = json!({"containers": [{"name": "app", "securityContext": {"procMount": proc_mount}}]});
        let context = security(&pod(spec), &node).unwrap();
        assert_eq!(
            (context.masked_paths.len(), context.readonly_paths.len()),
            (masked, readonly),
            "{proc_mount}"
        );
        assert!(masked == 0 || context.masked_paths.last().is_some_and(|last| last == throttle));
    }
}

#[test]
fn seccomp_profiles_are_the_containers_or_the_pods_or_the_nodes() {
    use v1::security_profile::ProfileType::{Localhost, RuntimeDefault, Unconfined};
    let none = Value::Null;
    let of = |kind: &str| json!({"type": kind});
    let file = |name: &str| json!({"type": "Localhost", "localhostProfile": name});
    for (of_pod, of_container, default, expected) in [
        (&none, &none, false, Ok((Unconfined, ""))),
        (&none, &none, true, Ok((RuntimeDefault, ""))),
        (&of("RuntimeDefault"), &none, false, Ok((RuntimeDefault, ""))),
        (&of("RuntimeDefault"), &of("Unconfined"), true, Ok((Unconfined, ""))),
        (&of("Unconfined"), &file("a/b.json"), true, Ok((Localhost, "/var/lib/kubelet/seccomp/a/b.json"))),
        (
            &of("Localhost"),
            &none,
            true,
            Err("localhostProfile must be set if seccompProfile type is Localhost."),
        ),
        (&none, &file(""), true, Err("localhostProfile must be set if seccompProfile type is Localhost.")),
    ] {
        let spec = json!({
            "securityContext": {"seccompProfile": of_pod},
            "containers": [{"name": "app", "securityContext": {"seccompProfile": of_container}}],
        });
        let node = NodeFacts { seccomp_default: default, ..node() };
        let given = security(&pod(spec), &node).map(|context| context.seccomp.unwrap());
        let given = given.map_err(|error| error.to_string());
        let expected = expected.map(|(kind, path)| v1::SecurityProfile {
            profile_type: kind as i32,
            localhost_ref: path.to_owned(),
        });
        assert_eq!(given, expected.map_err(str::to_owned), "{of_pod} {of_container} {default}");
    }
}

#[test]
#[expect(deprecated, reason = "runtimes older than the field know only the old one")]
fn apparmor_profiles_are_the_containers_then_the_annotations_then_the_pods() {
    use v1::security_profile::ProfileType::{Localhost, RuntimeDefault, Unconfined};
    let none = Value::Null;
    let of = |kind: &str| json!({"type": kind});
    let named = json!({"type": "Localhost", "localhostProfile": "mine"});
    let unnamed = of("Localhost");
    for (of_pod, annotation, of_container, expected) in [
        (&none, "", &none, Ok(None)),
        (&of("RuntimeDefault"), "", &none, Ok(Some((RuntimeDefault, "", "runtime/default")))),
        (&of("RuntimeDefault"), "", &of("Unconfined"), Ok(Some((Unconfined, "", "unconfined")))),
        (&none, "", &named, Ok(Some((Localhost, "mine", "localhost/mine")))),
        (&named, "runtime/default", &none, Ok(Some((RuntimeDefault, "", "runtime/default")))),
        (&none, "unconfined", &named, Ok(Some((Localhost, "mine", "localhost/mine")))),
        (&none, "localhost/old", &none, Ok(Some((Localhost, "old", "localhost/old")))),
        (&named, "nonsense", &none, Ok(Some((Localhost, "mine", "localhost/mine")))),
        (&none, "", &unnamed, Err("missing localhost apparmor profile name")),
        (&none, "", &of("Odd"), Err(r#"unknown apparmor profile type: "Odd""#)),
    ] {
        let mut pod = pod(json!({
            "securityContext": {"appArmorProfile": of_pod},
            "containers": [{"name": "app", "securityContext": {"appArmorProfile": of_container}}],
        }));
        if !annotation.is_empty() {
            let name = "container.apparmor.security.beta.kubernetes.io/app".to_owned();
            pod.metadata.annotations = Some([(name, annotation.to_owned())].into());
        }
        let given = security(&pod, &node()).map_err(|error| error.to_string());
        let given = given.map(|context| context.apparmor.map(|profile| (profile, context.apparmor_profile)));
        let expected = expected.map(|expected| {
            expected.map(|(kind, name, old)| {
                let profile =
                    v1::SecurityProfile { profile_type: kind as i32, localhost_ref: name.to_owned() };
                (profile, old.to_owned())
            })
        });
        assert_eq!(given, expected.map_err(str::to_owned), "{of_pod} {annotation} {of_container}");
    }
}

#[test]
fn an_ephemeral_container_sees_its_targets_processes_where_they_are_apart() {
    use v1::NamespaceMode::{Node, Pod as OfPod, Target};
    for (spec, pid, target) in [
        (json!({}), Target, "id-1"),
        (json!({"shareProcessNamespace": true}), OfPod, ""),
        (json!({"hostPID": true}), Node, ""),
    ] {
        let mut spec = spec;
        spec["containers"] = json!([{"name": "app"}]);
        let (pod, options, node) = (pod(spec), ContainerOptions::default(), node());
        let inputs = ContainerInputs { target_container: Some("id-1"), ..inputs(&options, &node) };
        let config = container_config(&pod, first(&pod), &inputs).unwrap();
        let namespaces = config.linux.unwrap().security_context.unwrap().namespace_options.unwrap();
        assert_eq!((namespaces.pid, namespaces.target_id.as_str()), (pid as i32, target), "{:?}", pod.spec);
    }
}
