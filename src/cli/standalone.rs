//! The flags of `steersman standalone`.

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Command};
use steersman_api::names;
use steersman_controller::registry::{ByDefault, Registry, Selection};
use steersman_node::configuration::CgroupDriver;

use super::controller_manager::{describe_controllers, log_format};
use super::pflag::Refusal;
use super::values::{Address, absolute, items};
use crate::logging::{Format, Logging};

/// Where a data folder is by default: root's, and below the home of everybody else.
const OF_ROOT: &str = "/var/lib/steersman";
const BELOW_HOME: &str = ".local/share/steersman";

/// How many bytes objects may take: etcd's default for its flag of the same name.
const QUOTA: u64 = 2 << 30;

/// What is to be run, checked.
#[derive(Debug)]
pub(crate) struct Standalone {
    /// How to log.
    pub logging: Logging,
    /// Where objects and keys are kept.
    pub data_dir: PathBuf,
    /// Where the kubeconfig goes.
    pub kubeconfig: PathBuf,
    /// Where the API server listens.
    pub https_address: SocketAddr,
    /// How many bytes objects may take together.
    pub quota_backend_bytes: u64,
    /// Where metrics and health are served over plain HTTP.
    pub http_address: Option<Address>,
    /// Which controllers.
    pub selection: Selection,
    /// The node's name; otherwise the machine's.
    pub node_name: Option<String>,
    /// The socket of a container runtime; otherwise containers are simulated.
    pub container_runtime_endpoint: Option<String>,
    /// Who makes cgroups, where the runtime does not say so.
    pub cgroup_driver: CgroupDriver,
}

/// The flags, as given.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// Where objects, keys and what is of the node are kept; by default /var/lib/steersman for root, else
    /// ~/.local/share/steersman
    #[arg(long, value_name = "folder", help_heading = "API server")]
    pub data_dir: Option<PathBuf>,
    /// Where the kubeconfig is written; by default into the data folder
    #[arg(long, value_name = "file", help_heading = "API server")]
    pub write_kubeconfig: Option<PathBuf>,
    /// Where the API server listens; port 0 picks a free one
    #[arg(long, value_name = "ip:port", default_value = "127.0.0.1:6443", value_parser = https_address)]
    #[arg(help_heading = "API server")]
    pub https_address: SocketAddr,
    /// How many bytes objects may take together; beyond, writes that need more space are refused, and deletes are not
    #[arg(long, value_name = "int", default_value_t = QUOTA, value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(help_heading = "API server")]
    pub quota_backend_bytes: u64,

    /// Where to serve metrics and health over plain HTTP, such as 127.0.0.1:10252 or :10252; nowhere if not given
    #[arg(long, value_name = "host:port", value_parser = Address::parse, help_heading = "Serving")]
    pub http_address: Option<Address>,

    #[arg(long, value_name = "list", default_value = "*", action = ArgAction::Append)]
    #[arg(help_heading = "Controllers")]
    pub controllers: Vec<String>,

    /// The node's name; by default the machine's
    #[arg(long, value_name = "name", help_heading = "Node")]
    pub node_name: Option<String>,
    /// The socket of a container runtime, such as unix:///run/containerd/containerd.sock; without, containers are simulated
    #[arg(long, value_name = "socket", help_heading = "Node")]
    pub container_runtime_endpoint: Option<String>,
    /// Who makes cgroups, as the runtime is configured: cgroupfs or systemd; runtimes that say so themselves, such as containerd
    /// from 2.0 on, are believed
    #[arg(long, value_name = "driver", default_value = "cgroupfs", value_parser = cgroup_driver)]
    #[arg(help_heading = "Node")]
    pub cgroup_driver: CgroupDriver,

    /// How much to log: 0 to 3 what an operator wants to know, 4 for debugging, 6 to 10 everything
    #[arg(short, long = "v", value_name = "int", default_value_t = 0, help_heading = "Logs")]
    pub v: i32,
    /// The form of the log: text or json
    #[arg(long, value_name = "form", default_value = "text", value_parser = log_format, help_heading = "Logs")]
    pub logging_format: Format,
}

/// Adds what the help says beyond the flags themselves.
pub(crate) fn describe(command: Command) -> Command {
    describe_controllers(command).after_help(
        "API server, controllers, a scheduler and one node in one process, for development, tests and demonstrations. \
         No setting comes from an environment variable, but HOME says where the data folder is by default.",
    )
}

fn cgroup_driver(text: &str) -> Result<CgroupDriver, String> {
    match text {
        "cgroupfs" => Ok(CgroupDriver::Cgroupfs),
        "systemd" => Ok(CgroupDriver::Systemd),
        _ => Err("must be cgroupfs or systemd".to_owned()),
    }
}

fn https_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "must be ip:port, such as 127.0.0.1:6443".to_owned())
}

impl Flags {
    /// What the flags amount to.
    ///
    /// # Errors
    /// Values that can't be.
    pub(crate) fn check(self) -> Result<Standalone, Refusal> {
        let controllers: Vec<&str> = items(&self.controllers).collect();
        let registry = steersman_controllers::builtin();
        let selection = Selection::parse(&those_here(&controllers, &registry), &registry)
            .map_err(|why| Refusal::of_value("--controllers", &controllers.join(","), why))?;
        let node_name = self.node_name.filter(|name| !name.is_empty());
        if let Some(name) = node_name.as_deref().filter(|name| !names::subdomain(name).is_empty()) {
            let why = "must be lower-case letters, digits, '-' and '.', with a letter or digit at both ends";
            return Err(Refusal::of_value("--node-name", name, why));
        }
        let root = rustix::process::geteuid().is_root();
        let home = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let data_dir = given(self.data_dir).or_else(|| default_data_dir(root, home.as_deref()));
        let data_dir =
            data_dir.ok_or_else(|| Refusal::new("--data-dir must be given where HOME is not set"))?;
        let data_dir = absolute("--data-dir", data_dir)?;
        let kubeconfig = match given(self.write_kubeconfig) {
            Some(path) => absolute("--write-kubeconfig", path)?,
            None => data_dir.join("kubeconfig"),
        };
        Ok(Standalone {
            logging: Logging { verbosity: self.v, format: self.logging_format },
            data_dir,
            kubeconfig,
            https_address: self.https_address,
            quota_backend_bytes: self.quota_backend_bytes,
            http_address: self.http_address,
            selection,
            node_name,
            cgroup_driver: self.cgroup_driver,
            container_runtime_endpoint: self.container_runtime_endpoint.filter(|socket| !socket.is_empty()),
        })
    }
}

/// What is asked for, with those of this program in the place of `*`: nobody else runs the others beside it, so that a
/// warning of each would help nobody.
fn those_here<'a>(asked: &[&'a str], registry: &Registry) -> Vec<&'a str> {
    let mut all: Vec<_> = asked.iter().copied().filter(|item| *item != "*").collect();
    if all.len() < asked.len() {
        // What is said of one by its name comes first, and so counts.
        let on = registry.rows().iter().filter(|row| row.is_here() && row.by_default == ByDefault::On);
        all.extend(on.map(|row| row.name));
    }
    all
}

fn given(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}

fn default_data_dir(root: bool, home: Option<&Path>) -> Option<PathBuf> {
    if root { Some(OF_ROOT.into()) } else { home.map(|home| home.join(BELOW_HOME)) }
}

#[cfg(test)]
mod tests {
    use steersman_controller::registry::Choice;

    use super::*;

    #[test]
    fn the_data_folder_depends_on_who_runs_it_and_never_on_where() {
        let home = Path::new("/home/me");
        assert_eq!(default_data_dir(true, Some(home)), Some("/var/lib/steersman".into()));
        assert_eq!(default_data_dir(false, Some(home)), Some("/home/me/.local/share/steersman".into()));
        assert_eq!(default_data_dir(false, None), None);
    }

    #[test]
    fn all_controllers_are_those_of_this_program() {
        let registry = steersman_controllers::builtin();
        let enabled = |asked: &[&str]| {
            let selection = Selection::parse(&those_here(asked, &registry), &registry).unwrap();
            let rows = registry.rows().iter().filter(|row| selection.choice(row) != Choice::Disabled);
            rows.map(|row| (row.name, row.is_here())).collect::<Vec<_>>()
        };
        let all = enabled(&["*"]);
        assert!(all.contains(&("job-controller", true)) && all.iter().all(|(_, here)| *here), "{all:?}");
        assert!(!enabled(&["*", "-job"]).contains(&("job-controller", true)));
        assert_eq!(enabled(&["job"]), [("job-controller", true)]);
        assert_eq!(enabled(&["deployment"]), [("deployment-controller", false)]);
    }

    #[test]
    fn addresses_are_checked() {
        assert!(https_address("[::1]:0").is_ok());
        https_address("localhost:6443").unwrap_err();
        https_address("127.0.0.1").unwrap_err();
    }
}
