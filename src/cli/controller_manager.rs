//! The flags of `steersman controller-manager`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use serde_json::Value;
use steersman_client::{Limits, leader_election};
use steersman_controller::feature_gates::FeatureGates;
use steersman_controller::options::OptionSet;
use steersman_controller::registry::{ByDefault, Selection};
use steersman_controller::runner::Timing;
use steersman_node::configuration::GoDuration;

use super::pflag::Refusal;
use super::values::{Address, boolean, items};
use super::{configz, feature_gates};
use crate::logging::{Format, Logging};

/// What is to be run, checked.
#[derive(Debug)]
pub(crate) struct ControllerManager {
    /// How to log.
    pub logging: Logging,
    /// What the log should say first: flags and gates without effect.
    pub warnings: Vec<String>,
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`.
    pub master: Option<String>,
    /// What each client may send.
    pub limits: Limits,
    /// Which controllers.
    pub selection: Selection,
    /// How they start and stop.
    pub timing: Timing,
    /// Their settings.
    pub options: OptionSet,
    /// Which features are on.
    pub gates: FeatureGates,
    /// The time after which informers notify handlers of all objects again; zero: never.
    pub min_resync_period: Duration,
    /// How to stand for election; `None` leads without asking.
    pub election: Option<leader_election::Config>,
    /// Where to serve HTTP.
    pub http_address: Option<Address>,
    /// All of this, as `/configz` tells it.
    pub configz: Value,
}

/// The flags, as given.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// Path of a kubeconfig with server and credentials; without it and --master, the pod's service account is used
    #[arg(long, value_name = "file", help_heading = "API server")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server; overrides the one in the kubeconfig
    #[arg(long, value_name = "url", help_heading = "API server")]
    pub master: Option<String>,
    /// Requests a second that each controller's client may send; negative: any number
    #[arg(long, value_name = "float", default_value_t = 20.0, help_heading = "API server")]
    pub kube_api_qps: f32,
    /// Requests that each controller's client may send at once after a quiet time
    #[arg(long, value_name = "int", default_value_t = 30, help_heading = "API server")]
    pub kube_api_burst: i32,
    /// Objects are looked at again, although nothing changed, after one to two times this; 0: never
    #[arg(long, value_name = "duration", default_value = "12h", help_heading = "API server")]
    pub min_resync_period: GoDuration,

    #[arg(long, value_name = "list", default_value = "*", action = ArgAction::Append)]
    #[arg(help_heading = "Controllers")]
    pub controllers: Vec<String>,
    /// Each controller starts after one to two times this
    #[arg(long, value_name = "duration", default_value = "0s", help_heading = "Controllers")]
    pub controller_start_interval: GoDuration,
    /// How long running syncs may take to end when the process is stopped; 0: as long as they like
    #[arg(long, value_name = "duration", default_value = "10s", help_heading = "Controllers")]
    pub controller_shutdown_timeout: GoDuration,
    /// Feature gates of Kubernetes 1.36, as Name=true|false; also AllAlpha and AllBeta. A gate that no controller here reads
    /// is warned of
    #[arg(long, value_name = "list", action = ArgAction::Append, help_heading = "Controllers")]
    pub feature_gates: Vec<String>,

    /// Stand for election, and run controllers only while leading
    #[arg(long, value_name = "bool", default_value_t = true, action = ArgAction::Set, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", value_parser = boolean)]
    #[arg(help_heading = "Leader election")]
    pub leader_elect: bool,
    /// How long others wait for the leader to renew before they take the lease
    #[arg(long, value_name = "duration", default_value = "15s", help_heading = "Leader election")]
    pub leader_elect_lease_duration: GoDuration,
    /// How long the leader goes on without a renewal that succeeds; less than the lease duration
    #[arg(long, value_name = "duration", default_value = "10s", help_heading = "Leader election")]
    pub leader_elect_renew_deadline: GoDuration,
    /// The wait between two tries to acquire or renew
    #[arg(long, value_name = "duration", default_value = "2s", help_heading = "Leader election")]
    pub leader_elect_retry_period: GoDuration,
    /// The kind of the lock: leases
    #[arg(long, value_name = "kind", default_value = "leases", help_heading = "Leader election")]
    pub leader_elect_resource_lock: String,
    /// The lease's name; with kube-controller-manager's own, the two exclude each other
    #[arg(long, value_name = "name", default_value = "kube-controller-manager")]
    #[arg(help_heading = "Leader election")]
    pub leader_elect_resource_name: String,
    /// The lease's namespace
    #[arg(long, value_name = "name", default_value = "kube-system", help_heading = "Leader election")]
    pub leader_elect_resource_namespace: String,

    /// Where to serve metrics and health over plain HTTP, such as 127.0.0.1:10252 or :10252; nowhere if not given
    #[arg(long, value_name = "host:port", value_parser = Address::parse, help_heading = "Serving")]
    pub http_address: Option<Address>,

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
        "The other flags of kube-controller-manager 1.36 are taken and warned of: they have no effect yet. \
         No setting comes from an environment variable.",
    )
}

/// Names the controllers in the help of `--controllers`.
pub(super) fn describe_controllers(command: Command) -> Command {
    let registry = steersman_controllers::builtin();
    let here = || registry.rows().iter().filter(|row| row.is_here());
    let all: Vec<_> = here().map(|row| row.name).collect();
    let off: Vec<_> = here().filter(|row| row.by_default == ByDefault::Off).map(|row| row.name).collect();
    let mut controllers = format!(
        "Which controllers to run: '*' all that are on by default, 'foo' the one called foo, '-foo' not that one. \
         There are: {}",
        all.join(", ")
    );
    if !off.is_empty() {
        controllers = format!("{controllers}. Off by default: {}", off.join(", "));
    }
    command.mut_arg("controllers", |arg| arg.help(controllers))
}

/// Reads `--logging-format`.
pub(super) fn log_format(text: &str) -> Result<Format, String> {
    match text {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        _ => Err("must be text or json".to_owned()),
    }
}

impl Flags {
    /// Checks the flags, alone and together. `options` are the settings of the controllers, and `unheeded` the warnings
    /// of upstream's flags that have no effect.
    ///
    /// # Errors
    /// A value that is not allowed.
    pub(crate) fn check(
        self,
        options: OptionSet,
        unheeded: Vec<String>,
    ) -> Result<ControllerManager, Refusal> {
        let (gates, of_gates) = feature_gates::parse(&self.feature_gates)
            .map_err(|why| Refusal::of_value("--feature-gates", &self.feature_gates.join(","), why))?;
        let controllers: Vec<&str> = items(&self.controllers).collect();
        let selection = Selection::parse(&controllers, &steersman_controllers::builtin())
            .map_err(|why| Refusal::of_value("--controllers", &controllers.join(","), why))?;
        Ok(ControllerManager {
            logging: Logging { verbosity: self.v, format: self.logging_format },
            warnings: unheeded.into_iter().chain(of_gates).collect(),
            gates,
            limits: self.limits(),
            selection,
            timing: Timing {
                start_interval: self.controller_start_interval.0,
                shutdown_timeout: self.controller_shutdown_timeout.0,
            },
            election: self.election()?,
            configz: configz::configz(&self, &controllers, &options),
            min_resync_period: self.min_resync_period.0,
            options,
            kubeconfig: self.kubeconfig.filter(|path| !path.as_os_str().is_empty()),
            master: self.master,
            http_address: self.http_address,
        })
    }

    /// As client-go understands zero: its own defaults.
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
        config.validate().map_err(|why| Refusal::new(format!("{flags} can't be so: {why}")))?;
        Ok(Some(config))
    }
}

/// The flags that controllers declare beside their code.
pub(super) fn flags_of_controllers() -> impl Iterator<Item = Arg> {
    steersman_controllers::builtin().options().flags().into_iter().map(|flag| {
        Arg::new(flag.name)
            .long(flag.name)
            .help(flag.help)
            .value_name(flag.value_name)
            .default_value(flag.value)
            .help_heading("Controllers")
    })
}

/// The settings of controllers, as the command line has them.
///
/// # Errors
/// A value that a flag does not take.
pub(super) fn options_of_controllers(matches: &ArgMatches) -> Result<OptionSet, Refusal> {
    let mut options = steersman_controllers::builtin().options();
    for flag in options.flags() {
        let value: &String = matches.get_one(flag.name).expect("a flag of a controller must have a default");
        let set = options.set(flag.name, value);
        set.map_err(|why| Refusal::of_value(&format!("--{}", flag.name), value, why))?;
    }
    Ok(options)
}
