//! Which version this is, and of which Kubernetes.
//!
//! There are two versions. Steersman's own is in the user agent, in the log and in `steersman version`. Where the rest of a
//! cluster asks for a *Kubernetes* version (`kubernetes_build_info`, `/version`), it gets the one whose controllers these
//! are, with Steersman's as build metadata. The alert KubeVersionMismatch compares components by `vX.Y`, so it stays quiet
//! beside a control plane of that minor version, and fires beside another one exactly where it would for
//! kube-controller-manager.

use serde::Serialize;

/// The version of Kubernetes whose behaviour this is.
const KUBERNETES: [&str; 3] = ["1", "36", "3"];
/// Steersman's own.
pub(crate) const STEERSMAN: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// The commit that this is built from, or empty: see `build.rs`.
const COMMIT: &str = env!("STEERSMAN_COMMIT");
/// The compiler's version, such as `1.90.0 (1159e78c4 2025-09-14)`.
const RUSTC: &str = env!("STEERSMAN_RUSTC");

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
    /// The commit of Steersman. Empty if it is not known.
    pub git_commit: &'static str,
    /// Always empty.
    pub git_tree_state: &'static str,
    /// Always empty: builds are reproducible.
    pub build_date: &'static str,
    /// Always empty: there is no Go in it.
    pub go_version: &'static str,
    /// `rustc`.
    pub compiler: &'static str,
    /// Such as `linux/amd64`.
    pub platform: String,
}

/// The version of this build, in Kubernetes's form.
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
        git_commit: COMMIT,
        git_tree_state: "",
        build_date: "",
        go_version: "",
        compiler: "rustc",
        platform: format!("{}/{arch}", std::env::consts::OS),
    }
}

/// The contents of `steersman version -o json`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Build {
    /// Such as `v0.1.0`.
    pub steersman_version: &'static str,
    /// Such as `v1.36.3+steersman.0.1.0`.
    pub git_version: String,
    /// Empty if it is not known.
    pub git_commit: &'static str,
    /// Such as `1`.
    pub major: &'static str,
    /// Such as `36`.
    pub minor: &'static str,
    /// `rustc`.
    pub compiler: &'static str,
    /// Such as `1.90.0 (1159e78c4 2025-09-14)`.
    pub rustc_version: &'static str,
    /// Such as `linux/amd64`.
    pub platform: String,
}

/// The version of this build, for its user.
pub(crate) fn build() -> Build {
    let Info { major, minor, git_version, git_commit, compiler, platform, .. } = info();
    Build {
        steersman_version: STEERSMAN,
        git_version,
        git_commit,
        major,
        minor,
        compiler,
        rustc_version: RUSTC,
        platform,
    }
}

/// The version of Kubernetes whose behaviour this is, such as `1.36.3`.
pub(crate) fn kubernetes() -> String {
    KUBERNETES.join(".")
}

/// One line with both versions.
pub(crate) fn line() -> String {
    format!("Steersman {STEERSMAN} (Kubernetes v{})\n", kubernetes())
}
