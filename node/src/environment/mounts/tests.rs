//! Mounts as tables.

use k8s_openapi::api::core::v1::VolumeDevice;

use super::*;

fn asked() -> VolumeMount {
    VolumeMount { name: "data".into(), mount_path: "/data".into(), ..Default::default() }
}

fn expected() -> Mount {
    Mount {
        container_path: "/data".into(),
        host_path: "/volumes/data".into(),
        propagation: MountPropagation::PropagationPrivate.into(),
        ..Default::default()
    }
}

fn container(mounts: Vec<VolumeMount>) -> Container {
    Container { name: "main".into(), volume_mounts: Some(mounts), ..Default::default() }
}

fn made(mount: VolumeMount, recursive: bool) -> Result<Mount, String> {
    let volume = |path: &str, read_only, relabel| MountedVolume { path: path.into(), read_only, relabel };
    let volumes = [
        ("data".to_owned(), volume("/volumes/data", false, false)),
        ("fixed".to_owned(), volume("/volumes/fixed", true, true)),
    ];
    let prepare = |index, mount: &VolumeMount, sub_path: &str| {
        if sub_path == "out" {
            return Err("it leads out".to_owned());
        }
        Ok(PathBuf::from(format!("/sub/{index}/{}/{sub_path}", mount.name)))
    };
    let inputs = MountInputs {
        volumes: &volumes.into(),
        env: &[("POD".into(), "web".into()), ("EMPTY".into(), String::new())],
        recursive_read_only: recursive,
        prepare_sub_path: &prepare,
    };
    mounts(&container(vec![mount]), &inputs).map(|mut mounts| mounts.remove(0))
}

#[test]
fn a_mount_is_made_as_asked() {
    let text = |text: &str| Some(text.to_owned());
    let sub = |path: &str| Mount { host_path: format!("/sub/0/data/{path}"), ..expected() };
    let propagation = |mode: MountPropagation| Mount { propagation: mode.into(), ..expected() };
    let read_only = |recursive_read_only| Mount { readonly: true, recursive_read_only, ..expected() };
    let recursive =
        |mode: &str| VolumeMount { read_only: Some(true), recursive_read_only: text(mode), ..asked() };
    for (mount, supported, expected) in [
        (asked(), false, expected()),
        (VolumeMount { mount_path: "data".into(), ..asked() }, false, expected()),
        (VolumeMount { read_only: Some(true), ..asked() }, false, read_only(false)),
        (
            VolumeMount { name: "fixed".into(), ..asked() },
            false,
            Mount { host_path: "/volumes/fixed".into(), selinux_relabel: true, ..read_only(false) },
        ),
        (VolumeMount { sub_path: text("a/b"), ..asked() }, false, sub("a/b")),
        (VolumeMount { sub_path: text(""), ..asked() }, false, expected()),
        (VolumeMount { sub_path_expr: text("logs/$(POD)"), ..asked() }, false, sub("logs/web")),
        (VolumeMount { sub_path_expr: text("$$(NONE)"), ..asked() }, false, sub("$(NONE)")),
        (VolumeMount { sub_path: text("a..b"), ..asked() }, false, sub("a..b")),
        (
            VolumeMount { mount_propagation: text("None"), ..asked() },
            false,
            propagation(MountPropagation::PropagationPrivate),
        ),
        (
            VolumeMount { mount_propagation: text("HostToContainer"), ..asked() },
            false,
            propagation(MountPropagation::PropagationHostToContainer),
        ),
        (
            VolumeMount { mount_propagation: text("Bidirectional"), ..asked() },
            false,
            propagation(MountPropagation::PropagationBidirectional),
        ),
        (recursive("Disabled"), true, read_only(false)),
        (recursive("IfPossible"), false, read_only(false)),
        (recursive("IfPossible"), true, read_only(true)),
        (recursive("Enabled"), true, read_only(true)),
    ] {
        assert_eq!(made(mount.clone(), supported), Ok(expected), "{mount:?}");
    }
}

#[test]
fn what_cannot_be_mounted_is_told_in_upstreams_words() {
    let text = |text: &str| Some(text.to_owned());
    let recursive = |mode: &str| VolumeMount { recursive_read_only: text(mode), ..asked() };
    let read_only = |mode: &str| VolumeMount { read_only: Some(true), ..recursive(mode) };
    let with = |error: &str| format!("failed to resolve recursive read-only mode: {error}");
    for (mount, error) in [
        (
            VolumeMount { name: "none".into(), ..asked() },
            "cannot find volume \"none\" to mount into container \"main\"".to_owned(),
        ),
        (
            VolumeMount { sub_path: text("/a"), ..asked() },
            "error SubPath `/a` must not be an absolute path".to_owned(),
        ),
        (
            VolumeMount { sub_path: text("a/../b"), ..asked() },
            "unable to provision SubPath `a/../b`: must not contain '..'".to_owned(),
        ),
        (
            VolumeMount { sub_path_expr: text("$(Z)/$(EMPTY)/$(POD)"), ..asked() },
            "missing value for EMPTY, Z".to_owned(),
        ),
        (VolumeMount { sub_path: text("out"), ..asked() }, "it leads out".to_owned()),
        (
            VolumeMount { mount_propagation: text("Sideways"), ..asked() },
            "invalid MountPropagation mode: \"Sideways\"".to_owned(),
        ),
        (
            recursive("Enabled"),
            with("volume \"data\" requested recursive read-only mode, but it is not read-only"),
        ),
        (
            read_only("Enabled"),
            with(
                "volume \"data\" requested recursive read-only mode, but it is not supported by the runtime",
            ),
        ),
        (
            VolumeMount { mount_propagation: text("HostToContainer"), ..read_only("IfPossible") },
            with(
                "volume \"data\" requested recursive read-only mode, but it is not compatible with propagation \
                 \"HostToContainer\"",
            ),
        ),
        (read_only("Maybe"), with("unknown recursive read-only mode \"Maybe\"")),
    ] {
        assert_eq!(made(mount, false), Err(error));
    }
}

#[test]
fn a_container_may_have_a_hosts_file_of_its_own() {
    let at = |path: &str| container(vec![asked(), VolumeMount { mount_path: path.into(), ..asked() }]);
    assert!(has_own_hosts(&at("/etc/hosts")));
    assert!(!has_own_hosts(&at("/etc")));
}

#[test]
fn block_devices_are_refused() {
    let device = VolumeDevice { name: "disk".into(), device_path: "/dev/xvda".into() };
    let with = Container { volume_devices: Some(vec![device]), ..container(vec![]) };
    assert_eq!(
        refuse_devices(&with).unwrap_err(),
        "block devices are not supported: cannot pass volume \"disk\" into container \"main\" as /dev/xvda"
    );
    assert!(refuse_devices(&container(vec![])).is_ok());
}
