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
use crate::logging::{Format, Logging};

/// What is to be run, checked.
#[derive(Debug)]
pub(crate) struct Node {
    /// The settings: from `--config`, `--config-dir`, and flags.
    pub config: KubeletConfiguration,
    /// What is of this node alone.
    pub flags: NodeFlags,
    /// Warnings for the log: flags, fields and gates without effect.
    pub warnings: Vec<String>,
    /// Those of the warnings that users of the cluster must see: fields that would change what the node guarantees.
    pub unmet_guarantees: Vec<String>,
    /// How to log.
    pub logging: Logging,
}

/// What is of this node alone, and in no file that many nodes share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeFlags {
    /// `--kubeconfig`; `None` for a node without API server.
    pub kubeconfig: Option<PathBuf>,
    /// `--hostname-override`, in lower case: the node's name, where it is not the machine's.
    pub hostname_override: Option<String>,
    /// `--node-ip`: at most one of each family, the first family first. An unspecified one asks for the default address
    /// of its family.
    pub node_ips: Vec<IpAddr>,
    /// `--root-dir`: where the agent keeps what is of pods.
    pub root_dir: PathBuf,
    /// `--cert-dir`: where the server's own certificate is kept.
    pub cert_dir: PathBuf,
    /// `--node-labels`: labels to register with.
    pub node_labels: BTreeMap<String, String>,
    /// `--cloud-provider=external`: a cloud's own controller completes the node.
    pub external_cloud_provider: bool,
    /// `--image-credential-provider-config`.
    pub image_credential_provider_config: Option<PathBuf>,
    /// `--image-credential-provider-bin-dir`.
    pub image_credential_provider_bin_dir: Option<PathBuf>,
    /// `--minimum-container-ttl-duration`, `--maximum-dead-containers-per-container` and `--maximum-dead-containers`: what
    /// is kept of dead containers.
    pub garbage: garbage::Policy,
}

/// Who completes the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloudProvider {
    Nobody,
    External,
}

fn cloud_provider(text: &str) -> Result<CloudProvider, String> {
    match text {
        "" => Ok(CloudProvider::Nobody),
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
    /// Folder of drop-ins that override --config: files that end in .conf, in the order of their names
    #[arg(long, value_name = "folder", help_heading = "Configuration")]
    pub config_dir: Option<OsString>,

    /// Path of a kubeconfig with server and credentials; without it, the node has no API server
    #[arg(long, value_name = "file", help_heading = "Registration")]
    pub kubeconfig: Option<OsString>,
    /// The node's name, where it is not the machine's
    #[arg(long, value_name = "name", help_heading = "Registration")]
    pub hostname_override: Option<String>,
    /// The node's address, or one of each family with a comma between; '::' and '0.0.0.0' ask for the default of their family
    #[arg(long, value_name = "addresses", default_value = "", hide_default_value = true)]
    #[arg(help_heading = "Registration")]
    pub node_ip: String,
    /// Who completes the node: external, a cloud's own controller; without, nobody
    #[arg(long, value_name = "provider", default_value = "", hide_default_value = true)]
    #[arg(value_parser = cloud_provider, help_heading = "Registration")]
    pub cloud_provider: CloudProvider,
    /// Labels the node registers with, as key=value
    #[arg(long, value_name = "map", action = ArgAction::Append, help_heading = "Registration")]
    pub node_labels: Vec<String>,

    /// Where the agent keeps what is of pods, such as volumes
    #[arg(long, value_name = "folder", default_value = "/var/lib/kubelet", help_heading = "Pods")]
    pub root_dir: PathBuf,
    /// Whether containers without a seccomp profile get the runtime's
    #[arg(long, value_name = "bool", default_value_t = false, action = ArgAction::Set, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", value_parser = boolean)]
    #[arg(help_heading = "Pods", hide_default_value = true)]
    pub seccomp_default: bool,
    /// Where the server keeps the certificate that it makes
    #[arg(long, value_name = "folder", default_value = "/var/lib/kubelet/pki", help_heading = "Server")]
    pub cert_dir: PathBuf,

    /// Configuration of plugins that know credentials for images
    #[arg(long, value_name = "file", hide = true)]
    pub image_credential_provider_config: Option<OsString>,
    /// The folder of such plugins
    #[arg(long, value_name = "folder", hide = true)]
    pub image_credential_provider_bin_dir: Option<OsString>,
    /// How old a dead container is at least before it is removed
    #[arg(long, value_name = "duration", default_value = "0s", help_heading = "Runtime and images")]
    pub minimum_container_ttl_duration: GoDuration,
    /// How many dead containers are kept of each container; negative: all
    #[arg(long, value_name = "int", default_value_t = 1, help_heading = "Runtime and images")]
    pub maximum_dead_containers_per_container: i32,
    /// How many dead containers are kept on the node; negative: all
    #[arg(long, value_name = "int", default_value_t = -1, help_heading = "Runtime and images")]
    pub maximum_dead_containers: i32,
}

/// Adds the flags that stand for fields of the configuration, and those that are taken and not heeded.
pub(crate) fn describe(command: Command) -> Command {
    command.args(settings::args()).args(unheeded::UNHEEDED.flags()).after_help(
        "Defaults that are not told here are those of KubeletConfiguration, with or without a file. The other flags of the \
         kubelet 1.36 are taken and warned of: they have no effect yet. No setting comes from an environment variable.",
    )
}

impl Flags {
    /// What the flags amount to, with the files they name; `matches` are those of the subcommand. Blocks: files are read.
    ///
    /// # Errors
    /// Values that can't be, by themselves or together; files that can't be read.
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
