//! Which version this is, and of which Kubernetes.
//!
//! Two versions are told. Steersman's own is in the user agent, in the log and in `--version`. Where the rest of a cluster
//! asks for a *Kubernetes* version (`kubernetes_build_info`, `/version`), it gets the one whose controllers these are, with
//! Steersman's as build metadata. The alert KubeVersionMismatch compares components by `vX.Y`, so it stays quiet beside a
//! control plane of that minor version, and fires beside another one exactly where it would for kube-controller-manager.

use serde::Serialize;

/// The version of Kubernetes whose behaviour this is.
const KUBERNETES: [&str; 3] = ["1", "36", "3"];
/// Steersman's own.
pub(crate) const STEERSMAN: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// `version.Info` of Kubernetes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Info {
    /// Such as `1`.
    pub major: &'static str,
    /// Such as `36`.
    pub minor: &'static str,
    /// Such as `v1.36.3+steersman.0.1.0`.
    pub git_version: String,
    /// Empty: a build from published sources has none.
    pub git_commit: &'static str,
    /// Empty.
    pub git_tree_state: &'static str,
    /// Empty: builds are reproducible.
    pub build_date: &'static str,
    /// Empty: no Go.
    pub go_version: &'static str,
    /// `rustc`.
    pub compiler: &'static str,
    /// Such as `linux/amd64`.
    pub platform: String,
}

/// Of this build.
pub(crate) fn info() -> Info {
    let [major, minor, patch] = KUBERNETES;
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    Info {
        major,
        minor,
        git_version: format!("v{major}.{minor}.{patch}+steersman.{}", env!("CARGO_PKG_VERSION")),
        git_commit: "",
        git_tree_state: "",
        build_date: "",
        go_version: "",
        compiler: "rustc",
        platform: format!("{}/{arch}", std::env::consts::OS),
    }
}

/// The version of Kubernetes whose behaviour this is, such as `1.36.3`.
pub(crate) fn kubernetes() -> String {
    KUBERNETES.join(".")
}

/// One line for people.
pub(crate) fn line() -> String {
    let [major, minor, patch] = KUBERNETES;
    format!("Steersman {STEERSMAN} (Kubernetes v{major}.{minor}.{patch})\n")
}
