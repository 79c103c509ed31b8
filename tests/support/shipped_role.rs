//! Managers under the ClusterRole of the manifests.
//!
//! Where `STEERSMAN_TEST_AUDIT` names a folder, the managers that tests start on a real API server act as the service account of
//! `manifests/controller-manager`, with the rights of all controllers, and the API server logs all requests into that folder.
//! `cargo run --example role_use -- FOLDER` then says what was forbidden, and which rights no request needed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The token of the service account in the manifests.
pub const TOKEN: &str = "steersman-controller-manager";
const MANIFEST: &str = include_str!("../../manifests/controller-manager/rbac.yaml");

/// The folder for audit logs. `None` if managers act as administrators.
#[allow(clippy::disallowed_methods, reason = "only who starts the tests knows where the logs are read")]
pub fn audit_folder() -> Option<PathBuf> {
    std::env::var_os("STEERSMAN_TEST_AUDIT").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// The line of the API server's token file.
pub fn token_line() -> String {
    format!("{TOKEN},system:serviceaccount:kube-system:{TOKEN},{TOKEN},\"system:serviceaccounts\"\n")
}

/// Applies the role and its bindings as the administrator with this kubeconfig. The files that this takes are in `folder`.
pub fn apply(kubectl: &Path, folder: &Path, administrator: &serde_json::Value) {
    std::fs::write(folder.join("admin"), administrator.to_string()).expect("a file must be written");
    // Candidates in tests have leases of other names.
    let bindings = MANIFEST.replace("    resourceNames: [steersman-controller-manager]\n", "");
    let role = format!("{}---\n{bindings}", steersman_controllers::cluster_role());
    std::fs::write(folder.join("role.yaml"), role).expect("a file must be written");
    let output = Command::new(kubectl)
        .args(["--kubeconfig", "admin", "apply", "--server-side", "--filename", "role.yaml"])
        .current_dir(folder)
        .output()
        .expect("kubectl must start");
    assert!(output.status.success(), "the role: {}", String::from_utf8_lossy(&output.stderr));
}

/// The kubeconfig for a manager with these flags: that of the service account, in place of an administrator's.
pub fn kubeconfig(original: &Path, administrator: &str, flags: &[&str]) -> PathBuf {
    // Kubernetes's own role is for managers that only hand out the identities of service accounts.
    if audit_folder().is_none() || flags.contains(&"--use-service-account-credentials") {
        return original.to_owned();
    }
    let text = std::fs::read_to_string(original).expect("the kubeconfig must be there");
    let Ok(mut kubeconfig) = serde_json::from_str::<serde_json::Value>(&text) else {
        return original.to_owned();
    };
    match kubeconfig.pointer_mut("/users/0/user/token") {
        Some(token) if *token == administrator => *token = TOKEN.into(),
        _ => return original.to_owned(),
    }
    let name = format!("{}-of-a-manager", original.file_name().unwrap_or_default().to_string_lossy());
    let path = original.with_file_name(name);
    std::fs::write(&path, kubeconfig.to_string()).expect("the kubeconfig must be written");
    path
}
