//! The flags of `steersman controller-manager`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use serde_json::Value;
use steersman_client::{Limits, leader_election};
use steersman_controller::feature_gates::FeatureGates;
use steersman_controller::options::{OptionSet, Setting};
use steersman_controller::registry::Selection;
use steersman_controller::runner::Timing;
use steersman_node::configuration::GoDuration;

use super::pflag::Refusal;
use super::secure_port::{self, SecurePort};
use super::values::{Address, boolean, items};
use super::{configz, controllers, feature_gates};
use crate::logging::{Format, Logging, VModule};

/// The checked settings of `steersman controller-manager`.
#[derive(Debug)]
pub(crate) struct ControllerManager {
    /// How to log.
    pub logging: Logging,
    /// Warnings for the log about flags and feature gates without effect: one about all flags, and one about each gate.
    pub warnings: Vec<String>,
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`.
    pub master: Option<String>,
    /// The rate limits of each client.
    pub limits: Limits,
    /// `--use-service-account-credentials`.
    pub service_account_credentials: bool,
    /// The controllers to run.
    pub selection: Selection,
    /// How the controllers start and stop.
    pub timing: Timing,
    /// The controllers' options.
    pub options: OptionSet,
    /// The feature gates.
    pub gates: FeatureGates,
    /// The time after which informers notify handlers of all objects again; zero: never.
    pub min_resync_period: Duration,
    /// The settings of leader election; `None` runs the controllers without it.
    pub election: Option<leader_election::Config>,
    /// `--http-address`.
    pub http_address: Option<Address>,
    /// The secure port; `None` if there is none.
    pub secure_port: Option<SecurePort>,
    /// All flags and their values, those with defaults included.
    pub flags: BTreeMap<String, String>,
    /// The names of the metrics that are not shown.
    pub disabled_metrics: BTreeSet<String>,
    /// The contents of `/configz`.
    pub configz: Value,
}

/// The flags as given, unchecked.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// Path of a kubeconfig with API server and credentials; without it and --master, the pod's service account is used
    #[arg(long, value_name = "file", help_heading = "API server")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server; overrides the one in the kubeconfig
    #[arg(long, value_name = "url", help_heading = "API server")]
    pub master: Option<String>,
    /// Maximum number of requests per second of each controller's client; negative: any number
    #[arg(long, value_name = "float", default_value_t = 20.0, help_heading = "API server")]
    pub kube_api_qps: f32,
    /// Maximum number of requests that each controller's client sends in a burst
    #[arg(long, value_name = "int", default_value_t = 30, help_heading = "API server")]
    pub kube_api_burst: i32,
    /// Controllers sync unchanged objects again after one to two times this period; 0: never
    #[arg(long, value_name = "duration", default_value = "12h", help_heading = "API server")]
    pub min_resync_period: GoDuration,

    #[arg(long, value_name = "list", default_value = "*", action = ArgAction::Append)]
    #[arg(help_heading = "Controllers")]
    pub controllers: Vec<String>,
    /// Each controller starts after a random delay of one to two times this interval
    #[arg(long, value_name = "duration", default_value = "0s", help_heading = "Controllers")]
    pub controller_start_interval: GoDuration,
    /// How long running syncs may take to end when the process shuts down; 0: any time
    #[arg(long, value_name = "duration", default_value = "10s", help_heading = "Controllers")]
    pub controller_shutdown_timeout: GoDuration,
    /// Each controller acts as a service account of its own in kube-system, with tokens that this process requests
    #[arg(long, value_name = "bool", default_value_t = false, action = ArgAction::Set, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", value_parser = boolean)]
    #[arg(help_heading = "Controllers")]
    pub use_service_account_credentials: bool,
    /// Feature gates of Kubernetes 1.36, as Name=true|false; also AllAlpha and AllBeta. Logs a warning for each gate that
    /// no controller of this program reads
    #[arg(long, value_name = "list", action = ArgAction::Append, help_heading = "Controllers")]
    pub feature_gates: Vec<String>,

    /// Use leader election: run controllers only while this process is the leader
    #[arg(long, value_name = "bool", default_value_t = true, action = ArgAction::Set, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", value_parser = boolean)]
    #[arg(help_heading = "Leader election")]
    pub leader_elect: bool,
    /// How long other candidates wait for the leader to renew the lease before they acquire it
    #[arg(long, value_name = "duration", default_value = "15s", help_heading = "Leader election")]
    pub leader_elect_lease_duration: GoDuration,
    /// How long the leader may go without a successful renewal before it stops leading; less than the lease duration
    #[arg(long, value_name = "duration", default_value = "10s", help_heading = "Leader election")]
    pub leader_elect_renew_deadline: GoDuration,
    /// Time between two attempts to acquire or renew the lease
    #[arg(long, value_name = "duration", default_value = "2s", help_heading = "Leader election")]
    pub leader_elect_retry_period: GoDuration,
    /// Resource of the lock: leases
    #[arg(long, value_name = "kind", default_value = "leases", help_heading = "Leader election")]
    pub leader_elect_resource_lock: String,
    /// Name of the lease; by default kube-controller-manager's, so that only one of the two runs controllers at a time
    #[arg(long, value_name = "name", default_value = "kube-controller-manager")]
    #[arg(help_heading = "Leader election")]
    pub leader_elect_resource_name: String,
    /// Namespace of the lease
    #[arg(long, value_name = "name", default_value = "kube-system", help_heading = "Leader election")]
    pub leader_elect_resource_namespace: String,

    #[command(flatten)]
    pub secure_port: secure_port::Flags,

    /// Address of plain HTTP for metrics and health, without credentials, such as 127.0.0.1:10252 or :10252; without it, there is none
    #[arg(long, value_name = "host:port", value_parser = Address::parse, help_heading = "Serving")]
    pub http_address: Option<Address>,
    /// Metrics that are not shown, by their full names
    #[arg(long, value_name = "list", action = ArgAction::Append, help_heading = "Serving")]
    pub disabled_metrics: Vec<String>,

    /// Refuse flags and feature gates that have no effect, instead of logging a warning
    #[arg(long, value_name = "bool", default_value_t = false, action = ArgAction::Set, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", value_parser = boolean)]
    #[arg(help_heading = "Other flags of kube-controller-manager")]
    pub strict_flags: bool,

    /// Verbosity of the log: 0 to 3 for operation, 4 for debugging, 6 to 10 for everything
    #[arg(short, long = "v", value_name = "int", default_value_t = 0, help_heading = "Logs")]
    pub v: i32,
    /// Verbosity of single source files, as pattern=N: a pattern matches a file's name without .rs, or its path if it has a
    /// slash, and may have * and ?; only for the format text
    #[arg(long, value_name = "pattern=N,...", default_value = "", value_parser = VModule::parse, help_heading = "Logs")]
    pub vmodule: VModule,
    /// Format of the log: text or json
    #[arg(long, value_name = "format", default_value = "text", value_parser = log_format, help_heading = "Logs")]
    pub logging_format: Format,
}

/// Adds the texts of the help that do not describe a single flag.
pub(crate) fn describe(command: Command) -> Command {
    controllers::describe(command).after_help(
        "The other flags of kube-controller-manager 1.36 are accepted. One warning at the start says what those that are \
         given would have changed. No environment variable is a setting.",
    )
}

/// Parses `--logging-format`.
pub(super) fn log_format(text: &str) -> Result<Format, String> {
    match text {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        _ => Err("must be text or json".to_owned()),
    }
}

impl Flags {
    /// Checks the flags, each by itself and together. `options` are the controllers' options, `missed` says what each of
    /// upstream's flags that have no effect would have changed, and `flags` are the flags and their values as given.
    ///
    /// # Errors
    /// If a value is invalid.
    pub(crate) fn check(
        self,
        options: OptionSet,
        missed: Vec<String>,
        flags: BTreeMap<String, String>,
    ) -> Result<ControllerManager, Refusal> {
        let feature_gates::Parsed { gates, notes, idle } = feature_gates::parse(&self.feature_gates)?;
        let of_flags = (!missed.is_empty())
            .then(|| format!("Flags without effect in this version: {}", missed.join("; ")));
        let without_effect: Vec<String> = of_flags.into_iter().chain(idle).collect();
        if self.strict_flags && !without_effect.is_empty() {
            return Err(Refusal::new(format!("--strict-flags: {}", without_effect.join("; "))));
        }
        if self.logging_format != Format::Text && !self.vmodule.is_empty() {
            return Err(Refusal::new("--vmodule: Only supported for text log format"));
        }
        let (secure_port, notes_of_port) = self.secure_port.check()?;
        let given: Vec<&str> = items(&self.controllers).collect();
        let registry = steersman_controllers::builtin();
        let selection = controllers::parse(&given, &given, &registry, "controller-manager")?;
        let none_enabled = controllers::warning(&selection, &given, &registry);
        Ok(ControllerManager {
            logging: Logging {
                verbosity: self.v,
                vmodule: self.vmodule.clone(),
                format: self.logging_format,
            },
            warnings: none_enabled
                .into_iter()
                .chain(without_effect)
                .chain(notes)
                .chain(notes_of_port)
                .collect(),
            disabled_metrics: items(&self.disabled_metrics).map(str::to_owned).collect(),
            gates,
            limits: self.limits(),
            service_account_credentials: self.use_service_account_credentials,
            selection,
            timing: Timing {
                start_interval: self.controller_start_interval.0,
                shutdown_timeout: self.controller_shutdown_timeout.0,
            },
            election: self.election()?,
            configz: configz::configz(&self, &given, &options),
            min_resync_period: self.min_resync_period.0,
            options,
            kubeconfig: self.kubeconfig.filter(|path| !path.as_os_str().is_empty()),
            master: self.master,
            http_address: self.http_address,
            secure_port,
            flags,
        })
    }

    /// The rate limits. Zero stands for client-go's defaults, as in client-go.
    fn limits(&self) -> Limits {
        let qps = if self.kube_api_qps == 0.0 { 5.0 } else { self.kube_api_qps };
        let burst = if self.kube_api_burst == 0 { 10 } else { self.kube_api_burst };
        Limits::new(qps, u32::try_from(burst).unwrap_or(1))
    }

    fn election(&self) -> Result<Option<leader_election::Config>, Refusal> {
        if !self.leader_elect {
            return Ok(None);
        }
        if self.leader_elect_resource_lock != "leases" {
            let lock = &self.leader_elect_resource_lock;
            return Err(Refusal::of_value("--leader-elect-resource-lock", lock, "must be leases"));
        }
        let config = leader_election::Config {
            lease_duration: self.leader_elect_lease_duration.0,
            renew_deadline: self.leader_elect_renew_deadline.0,
            retry_period: self.leader_elect_retry_period.0,
            ..leader_election::Config::new(
                &self.leader_elect_resource_namespace,
                &self.leader_elect_resource_name,
                leader_election::identity(),
            )
        };
        let flags = "--leader-elect-lease-duration, -renew-deadline and -retry-period";
        config.validate().map_err(|why| Refusal::new(format!("{flags} are invalid: {why}")))?;
        Ok(Some(config))
    }
}

/// The flags that the controllers declare.
pub(super) fn flags_of_controllers() -> impl Iterator<Item = Arg> {
    steersman_controllers::builtin().options().flags().into_iter().map(|flag| {
        let arg = Arg::new(flag.name)
            .long(flag.name)
            .help(flag.help)
            .value_name(flag.value_name)
            .default_value(flag.value)
            .help_heading("Controllers");
        // As pflag's: `--switch` alone is true, and a value needs the equals sign.
        if flag.value_name == <bool as Setting>::VALUE_NAME {
            arg.num_args(0..=1).require_equals(true).default_missing_value("true")
        } else {
            arg
        }
    })
}

/// All flags on the command line and those with defaults, with their values as given.
pub(super) fn values_of_flags(command: &Command, matches: &ArgMatches) -> BTreeMap<String, String> {
    let names = command.get_arguments().filter_map(|flag| Some((flag.get_long()?, flag.get_id().as_str())));
    let values = names.filter_map(|(name, id)| {
        let values = matches.try_get_raw(id).ok()??;
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        Some((name.to_owned(), values.join(",")))
    });
    values.collect()
}

/// The controllers' options from the command line.
///
/// # Errors
/// If a flag's value is invalid.
pub(super) fn options_of_controllers(matches: &ArgMatches) -> Result<OptionSet, Refusal> {
    let mut options = steersman_controllers::builtin().options();
    for flag in options.flags() {
        let value: &String = matches.get_one(flag.name).expect("a flag of a controller must have a default");
        let set = options.set(flag.name, value);
        set.map_err(|why| Refusal::of_value(&format!("--{}", flag.name), value, why))?;
    }
    Ok(options)
}
