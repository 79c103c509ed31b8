//! What an administrator can do about the error that ended the program, for the last line of the log.

use std::error::Error;
use std::io;
use std::path::Path;

use kube::config::KubeconfigError;
use rustix::process::geteuid;
use steersman_apiserver::{KeyFileError, OpenError, SnapshotError, StartError};
use steersman_client::{config, transport};
use steersman_node::agent;

use crate::controller_manager::{self, SecurePortError};
use crate::node;
use crate::standalone::{self, snapshot};

/// For an API server to which no connection can be made.
pub(crate) const UNREACHABLE: &str = "check that the API server runs, and that its address and certificate-authority in the kubeconfig are right";

/// An error that may have a remedy.
pub(crate) trait Remedy {
    /// What to do about the error. `None` if its own text says it, or nothing can be said in general.
    fn remedy(&self) -> Option<String>;
}

impl Remedy for config::Error {
    fn remedy(&self) -> Option<String> {
        match self {
            Self::InCluster(_) => Some(
                "outside of a pod, name a kubeconfig with --kubeconfig; in a pod, let Kubernetes mount the token of its \
                 service account (automountServiceAccountToken)"
                    .to_owned(),
            ),
            Self::ReadKubeconfig { path, source } => match &**source {
                KubeconfigError::ReadConfig(error, _) => of_file("--kubeconfig", path, error),
                _ => Some(format!("compare with `kubectl --kubeconfig {} config view`", path.display())),
            },
            Self::Field { path, field, .. } if field == "current-context" => Some(format!(
                "`kubectl --kubeconfig {} config use-context NAME` sets it, `config get-contexts` lists the names",
                path.display()
            )),
            Self::ReadAuthorities { path, source } => of_file("certificate-authority", path, source),
            Self::Master { .. } => {
                Some("--master takes a URL or host:port, such as https://10.0.0.1:6443".to_owned())
            }
            Self::Field { .. } => None,
        }
    }
}

impl Remedy for transport::Error {
    fn remedy(&self) -> Option<String> {
        match self {
            Self::Credentials(_) => Some(
                "the kubeconfig's user needs a client certificate in PEM and its own key, a token, or a plugin that can run"
                    .to_owned(),
            ),
            Self::Proxy(_) => Some("remove proxy-url from the kubeconfig".to_owned()),
            Self::Dial { .. } | Self::Exchange(_) | Self::Closed => None,
        }
    }
}

impl Remedy for controller_manager::Error {
    fn remedy(&self) -> Option<String> {
        match self {
            Self::Configure(error) => error.remedy(),
            Self::Connect(error) => error.remedy(),
            Self::Serve { address, source } => of_address("--http-address", &address.to_string(), source),
            Self::SecurePort(error) => error.remedy(),
            Self::Shutdown(_) => Some("--controller-shutdown-timeout gives syncs more time".to_owned()),
            _ => None,
        }
    }
}

impl Remedy for SecurePortError {
    fn remedy(&self) -> Option<String> {
        match self {
            Self::Listen { address, source } => of_address("--secure-port", &address.to_string(), source),
            Self::Kubeconfig { source, .. } => source.remedy(),
            Self::Connect { source, .. } => source.remedy(),
            // The error is a text already.
            Self::Lookup(error) if error.to_string().contains("can't connect to") => {
                Some(UNREACHABLE.to_owned())
            }
            _ => None,
        }
    }
}

impl Remedy for node::Error {
    fn remedy(&self) -> Option<String> {
        match self {
            Self::Configure(error) => error.remedy(),
            Self::Connect(error) => error.remedy(),
            Self::Agent(error) => error.remedy(),
            _ => None,
        }
    }
}

impl Remedy for agent::Error {
    fn remedy(&self) -> Option<String> {
        let denied = root_cause(self).is_some_and(|cause| cause.kind() == io::ErrorKind::PermissionDenied);
        match self {
            Self::Folder { .. } if denied => Some("run the node agent as root".to_owned()),
            Self::Configuration(fault) if fault.to_string().starts_with("failCgroupV1:") => Some(
                "boot the machine with cgroup v2 (systemd.unified_cgroup_hierarchy=1), or set failCgroupV1: false in the file \
                 of --config"
                    .to_owned(),
            ),
            Self::Kernel(_) => Some(
                "set these sysctls, or let the node agent set them with --protect-kernel-defaults=false".to_owned(),
            ),
            _ => None,
        }
    }
}

impl Remedy for standalone::Error {
    fn remedy(&self) -> Option<String> {
        match self {
            Self::Server(StartError::Listen { address, source }) => {
                of_address("--https-address", &address.to_string(), source)
            }
            Self::Server(StartError::Open(OpenError::InUse(_))) => Some(
                "stop the other `steersman standalone`, or choose another folder with --data-dir".to_owned(),
            ),
            Self::Server(StartError::Open(OpenError::Object { why, .. }))
                if why.starts_with("it is encrypted") =>
            {
                Some("name the file with its key by --encryption-key-file".to_owned())
            }
            Self::Server(StartError::Audit(error)) => of_folder("--audit-log-path", root_cause(error)?),
            Self::EncryptionKeys(KeyFileError::Read { path, source }) => {
                of_file("--encryption-key-file", path, source)
            }
            Self::Server(error) => of_folder("--data-dir", root_cause(error)?),
            Self::Kubeconfig(error) => of_folder("--write-kubeconfig", root_cause(error)?),
            Self::Manager(error) => error.remedy(),
            Self::Runtime(error) => error.remedy(),
            Self::Node { source, .. } => of_folder("--data-dir", source),
            Self::Agent(error) => error.remedy(),
            _ => None,
        }
    }
}

impl Remedy for snapshot::Error {
    fn remedy(&self) -> Option<String> {
        match self {
            Self::Kubeconfig { path, .. } => of_file("--kubeconfig", path, root_cause(self)?),
            Self::Ask(_) => {
                Some("`steersman standalone` must run, and --kubeconfig name its kubeconfig".to_owned())
            }
            Self::Refused(_) | Self::Answer(_) | Self::Write { .. } => None,
            Self::Snapshot(SnapshotError::Folder(OpenError::InUse(_))) => {
                Some("name another folder with --data-dir".to_owned())
            }
            Self::Snapshot(SnapshotError::Folder(_)) => of_folder("--data-dir", root_cause(self)?),
            Self::Snapshot(_) => None,
        }
    }
}

/// The system's error that caused this one, if there is one.
fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    std::iter::successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref())
}

/// For a file, named by `setting`, that can't be read.
fn of_file(setting: &str, path: &Path, error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::NotFound => Some(format!("name an existing file with {setting}")),
        io::ErrorKind::PermissionDenied => Some(format!(
            "let user {}, as whom this process runs, read {}, or run as another user",
            geteuid().as_raw(),
            path.display()
        )),
        io::ErrorKind::IsADirectory => Some(format!("name a file with {setting}, not a folder")),
        _ => None,
    }
}

/// For a folder or file, named by `flag`, that can't be written.
fn of_folder(flag: &str, error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Some(format!("choose another place with {flag}, to which user {} may write", geteuid().as_raw()))
        }
        io::ErrorKind::StorageFull => Some(format!("make space, or choose another place with {flag}")),
        io::ErrorKind::ReadOnlyFilesystem => Some(format!("choose another place with {flag}")),
        _ => None,
    }
}

/// For an address, given by `flag`, that can't be listened on.
fn of_address(flag: &str, address: &str, error: &io::Error) -> Option<String> {
    let port = address.rsplit(':').next().unwrap_or_default();
    match error.kind() {
        io::ErrorKind::AddrInUse => Some(format!(
            "another process listens there, and `ss -ltnp sport = :{port}` names it; choose another address with {flag}"
        )),
        io::ErrorKind::AddrNotAvailable => {
            Some(format!("this machine does not have this address; choose another one with {flag}"))
        }
        io::ErrorKind::PermissionDenied => {
            Some(format!("ports below 1024 are root's; choose another one with {flag}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use steersman_client::config_from;

    use super::*;

    fn io(kind: io::ErrorKind) -> io::Error {
        kind.into()
    }

    fn kubeconfig(path: &Path) -> String {
        config_from(Some(path), None).unwrap_err().remedy().unwrap_or_default()
    }

    #[test]
    fn an_unusable_kubeconfig_says_how_to_get_a_usable_one() {
        let folder = tempfile::tempdir().unwrap();
        let written = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        assert_eq!(kubeconfig(&folder.path().join("none")), "name an existing file with --kubeconfig");
        assert_eq!(kubeconfig(folder.path()), "name a file with --kubeconfig, not a folder");
        let malformed = kubeconfig(&written("malformed", "clusters: ["));
        assert!(malformed.starts_with("compare with `kubectl --kubeconfig /"), "{malformed}");
        let empty = kubeconfig(&written("empty", "kind: Config"));
        assert!(empty.ends_with("`config get-contexts` lists the names"), "{empty}");
        let error = config::Error::ReadKubeconfig {
            path: "/etc/k".into(),
            source: Box::new(KubeconfigError::ReadConfig(
                io(io::ErrorKind::PermissionDenied),
                "/etc/k".into(),
            )),
        };
        let denied = error.remedy().unwrap();
        assert!(denied.starts_with("let user ") && denied.contains("read /etc/k"), "{denied}");
    }

    #[test]
    fn an_address_that_can_not_be_had_says_which_flag_chooses_another() {
        for (kind, part) in [
            (io::ErrorKind::AddrInUse, "`ss -ltnp sport = :80` names it"),
            (io::ErrorKind::AddrNotAvailable, "this machine does not have this address"),
            (io::ErrorKind::PermissionDenied, "ports below 1024 are root's"),
        ] {
            let address = "127.0.0.1:80".parse().unwrap();
            let error = standalone::Error::Server(StartError::Listen { address, source: io(kind) });
            let remedy = error.remedy().unwrap();
            assert!(remedy.contains(part) && remedy.ends_with("with --https-address"), "{remedy}");
        }
    }

    #[test]
    fn a_data_folder_that_can_not_be_written_says_which_flag_chooses_another() {
        let source = io(io::ErrorKind::PermissionDenied);
        let error = StartError::Open(OpenError::Folder { folder: "/root/x".into(), source });
        let remedy = standalone::Error::Server(error).remedy().unwrap();
        assert!(remedy.starts_with("choose another place with --data-dir"), "{remedy}");
    }
}
