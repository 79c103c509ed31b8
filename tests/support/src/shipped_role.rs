//! Managers under the ClusterRole of the manifests.
//!
//! Where `STEERSMAN_TEST_AUDIT` names a folder, the managers that tests start on a real API server act as the service account of
//! `manifests/controller-manager`, with the rights of all controllers, and the API server logs their requests into that folder.
//! `cargo run --example role_use -- FOLDER` then compares the requests with the rights that the controllers declare.
//!
//! A process that runs tests writes files that begin with a name of its own: `NAME.PORT.log`, the audit log of the API server at
//! that port, and `NAME.controllers`, whose lines are the values of `--controllers` that its managers had. Managers with the value
//! of line N (from 0) have the token of that number, and the token's uid, `steersman-controller-manager-N`, is in the audit log.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use jiff::Timestamp;
use parking_lot::Mutex;

/// The name of the service account in the manifests.
const ACCOUNT: &str = "steersman-controller-manager";
const MANIFEST: &str = include_str!("../../../manifests/controller-manager/rbac.yaml");

/// Maximum number of values of `--controllers` in one process: the API server reads its tokens only once.
const TOKENS: usize = 32;

/// Makes the API server log the requests of the managers, without their contents. A watch is logged at its start as well, because
/// its end is missing if the API server is killed.
pub const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: ['system:serviceaccount:kube-system:steersman-controller-manager']
  - level: None
";

/// The folder for audit logs. `None` if managers act as administrators.
#[allow(clippy::disallowed_methods, reason = "only who starts the tests knows where the logs are read")]
pub fn audit_folder() -> Option<PathBuf> {
    std::env::var_os("STEERSMAN_TEST_AUDIT").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// The file in the audit folder with this ending. Process ids repeat in a long run, so the start of the process is in its name.
fn file(folder: &Path, ending: &str) -> PathBuf {
    static NAME: LazyLock<String> =
        LazyLock::new(|| format!("{}-{}", std::process::id(), Timestamp::now().as_nanosecond()));
    folder.join(format!("{}.{ending}", *NAME))
}

/// The audit log of the API server at this port.
pub fn audit_log(folder: &Path, port: u16) -> PathBuf {
    file(folder, &format!("{port}.log"))
}

/// The lines of the API server's token file.
pub fn token_lines() -> String {
    let line = |number| {
        let token = format!("{ACCOUNT}-{number}");
        format!("{token},system:serviceaccount:kube-system:{ACCOUNT},{token},\"system:serviceaccounts\"\n")
    };
    (0..TOKENS).map(line).collect()
}

/// The number of the token for managers with this value of `--controllers`.
fn token_number(folder: &Path, controllers: String) -> usize {
    static VALUES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut values = VALUES.lock();
    if let Some(number) = values.iter().position(|value| *value == controllers) {
        return number;
    }
    assert!(values.len() < TOKENS, "one file of tests needs more tokens than {TOKENS}");
    values.push(controllers);
    let lines: String = values.iter().map(|value| format!("{value}\n")).collect();
    std::fs::write(file(folder, "controllers"), lines).expect("the folder for audit logs must be there");
    values.len() - 1
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
    let Some(folder) = audit_folder() else { return original.to_owned() };
    // Kubernetes's own role is for managers that only hand out the identities of service accounts.
    if flags.contains(&"--use-service-account-credentials") {
        return original.to_owned();
    }
    let text = std::fs::read_to_string(original).expect("the kubeconfig must be there");
    let Ok(mut kubeconfig) = serde_json::from_str::<serde_json::Value>(&text) else {
        return original.to_owned();
    };
    let Some(token) = kubeconfig.pointer_mut("/users/0/user/token").filter(|it| **it == administrator) else {
        return original.to_owned();
    };
    let lists: Vec<_> = flags.iter().filter_map(|flag| flag.strip_prefix("--controllers=")).collect();
    let controllers = if lists.is_empty() { "*".to_owned() } else { lists.join(",") };
    let number = token_number(&folder, controllers);
    *token = format!("{ACCOUNT}-{number}").into();
    let name = format!("{}-of-manager-{number}", original.file_name().unwrap_or_default().to_string_lossy());
    let path = original.with_file_name(name);
    std::fs::write(&path, kubeconfig.to_string()).expect("the kubeconfig must be written");
    path
}
