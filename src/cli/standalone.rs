//! The flags of `steersman standalone`.

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, Command};
use steersman_api::names;
use steersman_apiserver::AuditOptions;
use steersman_controller::registry::{ByDefault, Registry, Selection};
use steersman_node::configuration::CgroupDriver;

use super::controller_manager::log_format;
use super::controllers;
use super::pflag::Refusal;
use super::snapshot::Action;
use super::values::{Address, absolute, items};
use crate::logging::{Format, Logging, VModule};

/// The default data folders: root's, and that of other users, below their home.
const OF_ROOT: &str = "/var/lib/steersman";
const BELOW_HOME: &str = ".local/share/steersman";

/// Maximum size of all objects in bytes: etcd's default for its flag of the same name.
const QUOTA: u64 = 2 << 30;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The checked settings of `steersman standalone`.
#[derive(Debug)]
pub(crate) struct Standalone {
    /// How to log.
    pub logging: Logging,
    /// The folder for objects, keys and the node's files.
    pub data_dir: PathBuf,
    /// The file to which the kubeconfig is written.
    pub kubeconfig: PathBuf,
    /// The address of the API server.
    pub https_address: SocketAddr,
    /// Maximum size of all objects, in bytes.
    pub quota_backend_bytes: u64,
    /// Maximum numbers of concurrent reads and of concurrent writes; 0 for no limit.
    pub requests_in_flight: (usize, usize),
    /// The file with the keys that encrypt Secrets in the data folder; `None` for no encryption.
    pub encryption_key_file: Option<PathBuf>,
    /// The API server's audit log.
    pub audit: Option<AuditOptions>,
    /// The address of plain HTTP for metrics and health.
    pub http_address: Option<Address>,
    /// The controllers to run.
    pub selection: Selection,
    /// The node's name; `None` for the machine's name.
    pub node_name: Option<String>,
    /// The socket of a container runtime; `None` simulates containers.
    pub container_runtime_endpoint: Option<String>,
    /// The cgroup driver, if the runtime does not report its own.
    pub cgroup_driver: CgroupDriver,
}

/// The flags as given, unchecked.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// What to do instead of running a cluster.
    #[command(subcommand)]
    pub action: Option<Action>,

    /// Folder for objects, keys and the node's files; by default /var/lib/steersman for root, else ~/.local/share/steersman
    #[arg(long, value_name = "folder", help_heading = "API server")]
    pub data_dir: Option<PathBuf>,
    /// File to write the kubeconfig to; by default in the data folder
    #[arg(long, value_name = "file", help_heading = "API server")]
    pub write_kubeconfig: Option<PathBuf>,
    /// Address of the API server; port 0 picks a free port
    #[arg(long, value_name = "ip:port", default_value = "127.0.0.1:6443", value_parser = https_address)]
    #[arg(help_heading = "API server")]
    pub https_address: SocketAddr,
    /// Maximum size of all objects in bytes; beyond it, the API server refuses writes that need more space, but not deletes
    #[arg(long, value_name = "int", default_value_t = QUOTA, value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(help_heading = "API server")]
    pub quota_backend_bytes: u64,
    /// Maximum number of concurrent reads, without watches, logs and streams; 0 for no limit. One user alone gets half of it
    #[arg(long, value_name = "int", default_value_t = 400, value_parser = limit, help_heading = "API server")]
    pub max_requests_inflight: usize,
    /// Maximum number of concurrent writes; 0 for no limit. One user alone gets half of it
    #[arg(long, value_name = "int", default_value_t = 200, value_parser = limit, help_heading = "API server")]
    pub max_mutating_requests_inflight: usize,
    /// File with keys to encrypt Secrets in the data folder with, one a line: 32 random bytes in base64. The first encrypts, all
    /// decrypt; the word identity is the key that does not encrypt
    #[arg(long, value_name = "file", help_heading = "API server")]
    pub encryption_key_file: Option<PathBuf>,
    /// Regular file to log all requests to, without the contents of objects; without it, none are logged
    #[arg(long, value_name = "file", help_heading = "API server")]
    pub audit_log_path: Option<PathBuf>,
    /// Maximum size of that file in megabytes before it is renamed and another begins; 0 for no limit
    #[arg(long, value_name = "int", default_value_t = 100, help_heading = "API server")]
    pub audit_log_maxsize: u32,
    /// Maximum number of old audit logs to keep; 0 for no limit
    #[arg(long, value_name = "int", default_value_t = 100, help_heading = "API server")]
    pub audit_log_maxbackup: usize,
    /// Maximum age in days of old audit logs to keep; 0 for no limit
    #[arg(long, value_name = "int", default_value_t = 366, help_heading = "API server")]
    pub audit_log_maxage: u32,

    /// Address of plain HTTP for metrics and health, such as 127.0.0.1:10252 or :10252; without it, there is none
    #[arg(long, value_name = "host:port", value_parser = Address::parse, help_heading = "Serving")]
    pub http_address: Option<Address>,

    #[arg(long, value_name = "list", default_value = "*", action = ArgAction::Append)]
    #[arg(help_heading = "Controllers")]
    pub controllers: Vec<String>,

    /// The node's name; by default the machine's name
    #[arg(long, value_name = "name", help_heading = "Node")]
    pub node_name: Option<String>,
    /// Socket of a container runtime, such as unix:///run/containerd/containerd.sock; without it, containers are simulated
    #[arg(long, value_name = "socket", help_heading = "Node")]
    pub container_runtime_endpoint: Option<String>,
    /// The cgroup driver of the runtime: cgroupfs or systemd; ignored if the runtime reports its own, as containerd does
    /// from 2.0 on
    #[arg(long, value_name = "driver", default_value = "cgroupfs", value_parser = cgroup_driver)]
    #[arg(help_heading = "Node")]
    pub cgroup_driver: CgroupDriver,

    /// Verbosity of the log: 0 to 3 for operation, 4 for debugging, 6 to 10 for everything
    #[arg(short, long = "v", value_name = "int", default_value_t = 0, help_heading = "Logs")]
    pub v: i32,
    /// Format of the log: text or json
    #[arg(long, value_name = "format", default_value = "text", value_parser = log_format, help_heading = "Logs")]
    pub logging_format: Format,
}

/// Adds the texts of the help that do not describe a single flag.
pub(crate) fn describe(command: Command) -> Command {
    controllers::describe(command).args_conflicts_with_subcommands(true).after_help(
        "API server, controllers, a scheduler and one node in one process, for development, tests and demonstrations. \
         No environment variable is a setting, except HOME, which decides the default data folder.",
    )
}

fn cgroup_driver(text: &str) -> Result<CgroupDriver, String> {
    match text {
        "cgroupfs" => Ok(CgroupDriver::Cgroupfs),
        "systemd" => Ok(CgroupDriver::Systemd),
        _ => Err("must be cgroupfs or systemd".to_owned()),
    }
}

/// A limit that leaves a place for each of two users.
fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(1) => Err("must be 0, or 2 and more: one user alone gets half of it".to_owned()),
        Ok(limit) => Ok(limit),
        Err(_) => Err("must be a number that is not negative".to_owned()),
    }
}

fn https_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "must be ip:port, such as 127.0.0.1:6443".to_owned())
}

impl Flags {
    /// Checks the flags.
    ///
    /// # Errors
    /// If a value is invalid.
    pub(crate) fn check(self) -> Result<Standalone, Refusal> {
        let given: Vec<&str> = items(&self.controllers).collect();
        let registry = steersman_controllers::builtin();
        let items = those_here(&given, &registry);
        let selection = controllers::parse(&items, &given, &registry, "standalone")?;
        let node_name = self.node_name.filter(|name| !name.is_empty());
        if let Some(name) = node_name.as_deref().filter(|name| !names::subdomain(name).is_empty()) {
            let why = "must be lower-case letters, digits, '-' and '.', with a letter or digit at both ends";
            return Err(Refusal::of_value("--node-name", name, why));
        }
        let data_dir = data_dir(self.data_dir)?;
        let kubeconfig = match named(self.write_kubeconfig) {
            Some(path) => absolute("--write-kubeconfig", path)?,
            None => data_dir.join("kubeconfig"),
        };
        let audit = named(self.audit_log_path).map(|path| absolute("--audit-log-path", path)).transpose()?;
        let days = |days: u32| (days > 0).then(|| DAY * days);
        let audit = audit.map(|path| AuditOptions {
            path,
            max_size: u64::from(self.audit_log_maxsize) << 20,
            max_backups: self.audit_log_maxbackup,
            max_age: days(self.audit_log_maxage),
        });
        Ok(Standalone {
            logging: Logging { verbosity: self.v, vmodule: VModule::default(), format: self.logging_format },
            data_dir,
            kubeconfig,
            https_address: self.https_address,
            quota_backend_bytes: self.quota_backend_bytes,
            requests_in_flight: (self.max_requests_inflight, self.max_mutating_requests_inflight),
            encryption_key_file: named(self.encryption_key_file)
                .map(|path| absolute("--encryption-key-file", path))
                .transpose()?,
            audit,
            http_address: self.http_address,
            selection,
            node_name,
            cgroup_driver: self.cgroup_driver,
            container_runtime_endpoint: self.container_runtime_endpoint.filter(|socket| !socket.is_empty()),
        })
    }
}

/// The requested controllers, with `*` replaced by those that this program has. No other manager runs the rest beside it,
/// so warnings about each would be useless.
fn those_here<'a>(requested: &[&'a str], registry: &Registry) -> Vec<&'a str> {
    let mut all: Vec<_> = requested.iter().copied().filter(|item| *item != "*").collect();
    if all.len() < requested.len() {
        // Explicit names come first, and so take precedence.
        let on = registry.rows().iter().filter(|row| row.is_here() && row.by_default == ByDefault::On);
        all.extend(on.map(|row| row.name));
    }
    all
}

fn named(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}

/// The data folder that a flag names, or the default one.
///
/// # Errors
/// There is none.
pub(super) fn data_dir(flag: Option<PathBuf>) -> Result<PathBuf, Refusal> {
    let root = rustix::process::geteuid().is_root();
    let home = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let folder = named(flag).or_else(|| default_data_dir(root, home.as_deref()));
    let folder = folder.ok_or_else(|| Refusal::new("--data-dir is required because HOME is not set"))?;
    absolute("--data-dir", folder)
}

fn default_data_dir(root: bool, home: Option<&Path>) -> Option<PathBuf> {
    if root { Some(OF_ROOT.into()) } else { home.map(|home| home.join(BELOW_HOME)) }
}

#[cfg(test)]
mod tests {
    use steersman_controller::registry::Choice;

    use super::*;

    #[test]
    fn the_default_data_folder_depends_on_the_user_and_not_on_the_working_directory() {
        let home = Path::new("/home/me");
        assert_eq!(default_data_dir(true, Some(home)), Some("/var/lib/steersman".into()));
        assert_eq!(default_data_dir(false, Some(home)), Some("/home/me/.local/share/steersman".into()));
        assert_eq!(default_data_dir(false, None), None);
    }

    #[test]
    fn the_star_stands_for_the_controllers_of_this_program() {
        let registry = steersman_controllers::builtin();
        let enabled = |requested: &[&str]| {
            let selection = Selection::parse(&those_here(requested, &registry), &registry).unwrap();
            let rows = registry.rows().iter().filter(|row| selection.choice(row) != Choice::Disabled);
            rows.map(|row| (row.name, row.is_here())).collect::<Vec<_>>()
        };
        let all = enabled(&["*"]);
        assert!(all.contains(&("job-controller", true)) && all.iter().all(|(_, here)| *here), "{all:?}");
        assert!(!enabled(&["*", "-job"]).contains(&("job-controller", true)));
        assert_eq!(enabled(&["job"]), [("job-controller", true)]);
        assert_eq!(enabled(&["bootstrapsigner"]), [("bootstrap-signer-controller", true)]);
        let missing = "validatingadmissionpolicy-status-controller";
        assert_eq!(enabled(&[missing]), [(missing, false)]);
    }

    #[test]
    fn limits_are_checked() {
        for (text, expected) in
            [("0", Some(0)), ("2", Some(2)), ("400", Some(400)), ("1", None), ("-1", None), ("", None)]
        {
            assert_eq!(limit(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn addresses_are_checked() {
        assert!(https_address("[::1]:0").is_ok());
        https_address("localhost:6443").unwrap_err();
        https_address("127.0.0.1").unwrap_err();
    }
}
