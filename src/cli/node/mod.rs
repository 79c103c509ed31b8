//! The flags of `steersman node`: the kubelet's.

mod labels;
mod settings;
#[cfg(test)]
mod tests;
mod unheeded;
mod values;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{ArgAction, ArgMatches, Args, Command};
use serde_json::Value;
use steersman_node::configuration::{self, GoDuration, KubeletConfiguration, LogFormat, Sources};
use steersman_node::kuberuntime::manager::garbage;

use super::pflag::Refusal;
use super::values::{absolute, boolean};
use crate::logging::{Format, Logging, VModule};

/// The checked settings of `steersman node`.
#[derive(Debug)]
pub(crate) struct Node {
    /// The settings: from `--config`, `--config-dir`, and flags.
    pub config: KubeletConfiguration,
    /// The settings of this node alone.
    pub flags: NodeFlags,
    /// Warnings for the log: flags, fields and gates without effect.
    pub warnings: Vec<String>,
    /// The warnings that users of the cluster must see: fields without effect that would change what the node guarantees.
    pub unmet_guarantees: Vec<String>,
    /// How to log.
    pub logging: Logging,
}

/// The settings that differ between nodes, which are not in the shared configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeFlags {
    /// `--kubeconfig`; `None` for a node without API server.
    pub kubeconfig: Option<PathBuf>,
    /// `--hostname-override`, in lower case: the node's name; `None` for the machine's name.
    pub hostname_override: Option<String>,
    /// `--node-ip`: at most one address of each family, the primary family first. An unspecified address stands for the
    /// default address of its family.
    pub node_ips: Vec<IpAddr>,
    /// `--root-dir`: the folder for the pods' files.
    pub root_dir: PathBuf,
    /// `--cert-dir`: the folder for the server's own certificate.
    pub cert_dir: PathBuf,
    /// `--node-labels`: labels to register with.
    pub node_labels: BTreeMap<String, String>,
    /// `--cloud-provider=external`: a cloud's controller initializes the node.
    pub external_cloud_provider: bool,
    /// `--image-credential-provider-config`.
    pub image_credential_provider_config: Option<PathBuf>,
    /// `--image-credential-provider-bin-dir`.
    pub image_credential_provider_bin_dir: Option<PathBuf>,
    /// `--minimum-container-ttl-duration`, `--maximum-dead-containers-per-container` and `--maximum-dead-containers`: which
    /// dead containers the agent keeps.
    pub garbage: garbage::Policy,
}

/// The component that initializes the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloudProvider {
    None,
    External,
}

fn cloud_provider(text: &str) -> Result<CloudProvider, String> {
    match text {
        "" => Ok(CloudProvider::None),
        "external" => Ok(CloudProvider::External),
        _ => Err("must be external or empty".to_owned()),
    }
}

/// The flags that set no field of the configuration, as given.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// File with a KubeletConfiguration (kubelet.config.k8s.io/v1beta1), in YAML or JSON; flags override it
    #[arg(long, value_name = "file", help_heading = "Configuration")]
    pub config: Option<OsString>,
    /// Folder of files that override --config: those that end in .conf, in the order of their names
    #[arg(long, value_name = "folder", help_heading = "Configuration")]
    pub config_dir: Option<OsString>,

    /// Path of a kubeconfig with API server and credentials; without it, the node runs without API server
    #[arg(long, value_name = "file", help_heading = "Registration")]
    pub kubeconfig: Option<OsString>,
    /// The node's name; by default the machine's name
    #[arg(long, value_name = "name", help_heading = "Registration")]
    pub hostname_override: Option<String>,
    /// The node's address, or a comma-separated pair of both families; '::' and '0.0.0.0' stand for their family's default
    #[arg(long, value_name = "addresses", default_value = "", hide_default_value = true)]
    #[arg(help_heading = "Registration")]
    pub node_ip: String,
    /// The component that initializes the node: external for a cloud's controller; empty for none
    #[arg(long, value_name = "provider", default_value = "", hide_default_value = true)]
    #[arg(value_parser = cloud_provider, help_heading = "Registration")]
    pub cloud_provider: CloudProvider,
    /// Labels that the node registers with, as key=value
    #[arg(long, value_name = "map", action = ArgAction::Append, help_heading = "Registration")]
    pub node_labels: Vec<String>,

    /// Folder for the pods' files, such as volumes
    #[arg(long, value_name = "folder", default_value = "/var/lib/kubelet", help_heading = "Pods")]
    pub root_dir: PathBuf,
    /// Whether containers without a seccomp profile get the runtime's default profile
    #[arg(long, value_name = "bool", default_value_t = false, action = ArgAction::Set, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", value_parser = boolean)]
    #[arg(help_heading = "Pods", hide_default_value = true)]
    pub seccomp_default: bool,
    /// Folder for the certificate that the server makes for itself
    #[arg(long, value_name = "folder", default_value = "/var/lib/kubelet/pki", help_heading = "Server")]
    pub cert_dir: PathBuf,

    /// Configuration of the credential provider plugins for images
    #[arg(long, value_name = "file", hide = true)]
    pub image_credential_provider_config: Option<OsString>,
    /// Folder of the credential provider plugins
    #[arg(long, value_name = "folder", hide = true)]
    pub image_credential_provider_bin_dir: Option<OsString>,
    /// Minimum age of a dead container before it is removed
    #[arg(long, value_name = "duration", default_value = "0s", help_heading = "Runtime and images")]
    pub minimum_container_ttl_duration: GoDuration,
    /// Maximum number of dead containers to keep for each container; negative: all
    #[arg(long, value_name = "int", default_value_t = 1, help_heading = "Runtime and images")]
    pub maximum_dead_containers_per_container: i32,
    /// Maximum number of dead containers to keep on the node; negative: all
    #[arg(long, value_name = "int", default_value_t = -1, help_heading = "Runtime and images")]
    pub maximum_dead_containers: i32,
}

/// Adds the flags that set fields of the configuration, and those without effect.
pub(crate) fn describe(command: Command) -> Command {
    command.args(settings::args()).args(unheeded::UNHEEDED.flags()).after_help(
        "Flags without a default here have that of KubeletConfiguration, with or without a file. The other flags of the \
         kubelet 1.36 are accepted and log a warning: they have no effect yet. No environment variable is a setting.",
    )
}

impl Flags {
    /// Checks the flags, and reads the files that they name, which blocks. `matches` are those of the subcommand.
    ///
    /// # Errors
    /// If a value is invalid, by itself or together with others, or a file can't be read.
    pub(crate) fn check(self, matches: &ArgMatches) -> Result<Node, Refusal> {
        let named = |path: Option<OsString>| path.filter(|path| !path.is_empty()).map(PathBuf::from);
        let mut flags = settings::given(matches)?;
        if self.seccomp_default {
            let (flag, value) = ("--seccomp-default".to_owned(), Value::Bool(true));
            flags.push(configuration::Setting { flag, path: "seccompDefault", value });
        }
        let sources = Sources { file: named(self.config), directory: named(self.config_dir), flags };
        let loaded = configuration::load(&sources).map_err(|error| Refusal::new(error.to_string()))?;
        let config = loaded.configuration;
        let node_labels = labels::read(&self.node_labels)
            .map_err(|why| Refusal::of_value("--node-labels", &self.node_labels.join(","), why))?;
        let node_ips =
            node_ips(&self.node_ip).map_err(|why| Refusal::of_value("--node-ip", &self.node_ip, why))?;
        let mut warnings = unheeded::UNHEEDED.warnings(matches);
        warnings.extend(loaded.warnings);
        let logging = Logging {
            verbosity: config.logging.verbosity,
            vmodule: VModule::default(),
            format: match config.logging.format {
                LogFormat::Text => Format::Text,
                LogFormat::Json => Format::Json,
            },
        };
        Ok(Node {
            config,
            warnings,
            unmet_guarantees: loaded.unmet_guarantees,
            logging,
            flags: NodeFlags {
                kubeconfig: named(self.kubeconfig),
                hostname_override: hostname(self.hostname_override)?,
                node_ips,
                root_dir: absolute("--root-dir", self.root_dir)?,
                cert_dir: absolute("--cert-dir", self.cert_dir)?,
                node_labels,
                external_cloud_provider: self.cloud_provider == CloudProvider::External,
                image_credential_provider_config: named(self.image_credential_provider_config),
                image_credential_provider_bin_dir: named(self.image_credential_provider_bin_dir),
                garbage: garbage::Policy {
                    min_age: self.minimum_container_ttl_duration.0,
                    max_per_container: usize::try_from(self.maximum_dead_containers_per_container).ok(),
                    max_containers: usize::try_from(self.maximum_dead_containers).ok(),
                },
            },
        })
    }
}

fn hostname(given: Option<String>) -> Result<Option<String>, Refusal> {
    let Some(given) = given.filter(|name| !name.is_empty()) else { return Ok(None) };
    match given.trim().to_lowercase() {
        name if name.is_empty() => {
            Err(Refusal::of_value("--hostname-override", &given, "empty hostname is invalid"))
        }
        name => Ok(Some(name)),
    }
}

fn node_ips(text: &str) -> Result<Vec<IpAddr>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let parsed = parts.map(|part| part.parse().map_err(|_| format!("could not parse {part:?}")));
    let addresses: Vec<IpAddr> = parsed.collect::<Result<_, _>>()?;
    match addresses[..] {
        [] | [_] => Ok(addresses),
        [one, other] if one.is_ipv4() != other.is_ipv4() => {
            if one.is_unspecified() || other.is_unspecified() {
                return Err("dual-stack node IP must not be an unspecified address".to_owned());
            }
            Ok(addresses)
        }
        _ => Err("must be either a single IP or a dual-stack pair of IPs".to_owned()),
    }
}
