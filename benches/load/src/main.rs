//! Loads a cluster for measurements of controller managers. KUBECONFIG names the cluster.
//!
//! `nodes` plays scheduler and kubelet: it binds pods, reports them as running and ready, and removes pods that are deleted.
//! The other commands create and change workloads, wait until their controllers have acted, and print how long that took.

mod autoscalers;
mod filled;
mod fleet;
mod garbage;
mod jobs;
mod metrics;
mod nodes;
mod relay;
mod services;
mod waiting;
mod workloads;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use kube::Client;
use kube::api::PropagationPolicy;

#[derive(Debug, Parser)]
#[command(about = "Loads a cluster for measurements of controller managers")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Creates nodes, and schedules and runs all pods of the cluster on them until a signal ends it
    Nodes {
        /// How many nodes
        count: usize,
    },
    /// Creates workloads, and waits until all their pods are available
    Create {
        /// Deployments of PODS pods each
        #[arg(long, default_value_t = 0)]
        deployments: usize,
        /// StatefulSets of half as many pods each
        #[arg(long, default_value_t = 0)]
        stateful_sets: usize,
        /// DaemonSets
        #[arg(long, default_value_t = 0)]
        daemon_sets: usize,
        /// Pods of a Deployment
        #[arg(long, default_value_t = 8)]
        pods: usize,
        /// Namespaces over which the objects are spread
        #[arg(long, default_value_t = 20)]
        namespaces: usize,
    },
    /// Gives all Deployments a new image, and waits until each has rolled
    Roll {
        /// The image
        image: String,
    },
    /// Creates Jobs whose pods succeed at once, and waits until all are complete
    Jobs {
        /// How many Jobs
        count: usize,
        /// Completions of each
        completions: usize,
        /// Pods of each at a time
        parallelism: usize,
    },
    /// Creates a Service of running pods, changes the readiness of one of them again and again, and times each change until
    /// the Endpoints and the EndpointSlices show it
    Service {
        /// How many pods
        pods: usize,
        /// How many changes
        changes: usize,
    },
    /// Relays TCP connections until a signal ends it. While it is stopped (SIGSTOP), nothing passes
    Relay {
        /// The address to listen at
        at: String,
        /// The address of the server
        to: String,
    },
    /// Creates a namespace with objects of several kinds
    Fill {
        /// How many objects; a tenth of them are pods
        objects: usize,
    },
    /// Deletes that namespace, and waits until it is gone
    Empty,
    /// Creates nodes with running pods of 4 KB, and renews the nodes' leases until a signal ends it. At the signal USR1 some of
    /// the nodes fall silent, and it prints how long after that their pods are marked and evicted
    Fleet {
        /// How many nodes
        nodes: usize,
        /// How many pods
        pods: usize,
        /// How many nodes fall silent
        #[arg(long, default_value_t = 0)]
        silent: usize,
    },
    /// Serves resource, custom and external metrics through the API server until a signal ends it
    Metrics,
    /// Creates Deployments with running pods, and an autoscaler on four metrics for each
    Autoscalers {
        /// How many
        count: usize,
        /// Namespaces over which the objects are spread
        #[arg(long, default_value_t = 20)]
        namespaces: usize,
        /// Wait until metrics decide about them, and create none
        #[arg(long)]
        wait: bool,
    },
    /// Sets a label of all Deployments
    Label {
        /// The label's value
        value: String,
    },
    /// Creates ReplicaSets with pods, config maps, and custom kinds with objects
    Graph {
        /// ReplicaSets
        #[arg(long, default_value_t = 0)]
        sets: usize,
        /// Pods of each ReplicaSet
        #[arg(long, default_value_t = 10)]
        pods: usize,
        /// Config maps
        #[arg(long, default_value_t = 0)]
        maps: usize,
        /// Custom kinds
        #[arg(long, default_value_t = 0)]
        kinds: usize,
        /// Objects of each custom kind
        #[arg(long, default_value_t = 20)]
        objects: usize,
    },
    /// Creates the definitions of custom kinds
    Definitions {
        /// How many
        count: usize,
        /// How many of them can't be listed
        #[arg(default_value_t = 0)]
        broken: usize,
    },
    /// Creates a Deployment with its ReplicaSet and pods
    Family {
        /// How many pods
        pods: usize,
    },
    /// Deletes that Deployment, and waits until nothing is left of it
    Collect {
        /// Delete in the foreground
        #[arg(long)]
        foreground: bool,
    },
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("kubeconfig: {0}")]
    Config(#[from] kube::config::InferConfigError),
    #[error(transparent)]
    Call(#[from] kube::Error),
    #[error("watch: {0}")]
    Watch(#[from] kube_runtime::watcher::Error),
    #[error("serving: {0}")]
    Serving(#[source] std::io::Error),
    #[error("signals: {0}")]
    Signals(#[from] std::io::Error),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("Error: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<(), Error> {
    if let Command::Relay { at, to } = command {
        return relay::run(&at, &to).await.map_err(Error::Serving);
    }
    let client = Client::try_from(kube::Config::infer().await?)?;
    match command {
        Command::Relay { .. } => unreachable!("a relay needs no client"),
        Command::Nodes { count } => nodes::run(&client, count).await,
        Command::Create { deployments, stateful_sets, daemon_sets, pods, namespaces } => {
            let namespaces = workloads::namespaces(&client, namespaces).await?;
            let spread = workloads::Spread { client: &client, namespaces: &namespaces };
            spread.create(workloads::DEPLOYMENT, deployments, pods).await?;
            spread.create(workloads::STATEFUL_SET, stateful_sets, pods / 2).await?;
            spread.create(workloads::DAEMON_SET, daemon_sets, 0).await
        }
        Command::Jobs { count, completions, parallelism } => {
            jobs::run(&client, count, completions, parallelism).await
        }
        Command::Service { pods, changes } => services::run(&client, pods, changes).await,
        Command::Fill { objects } => filled::fill(&client, objects).await,
        Command::Empty => filled::delete(&client).await,
        Command::Roll { image } => workloads::roll(&client, &image).await,
        Command::Fleet { nodes, pods, silent } => fleet::Fleet { nodes, pods, silent }.run(&client).await,
        Command::Metrics => metrics::run(&client).await,
        Command::Autoscalers { count, namespaces, wait: false } => {
            autoscalers::create(&client, count, namespaces).await
        }
        Command::Autoscalers { count, namespaces, wait: true } => {
            autoscalers::active(&client, count, namespaces).await
        }
        Command::Label { value } => workloads::label(&client, &value).await,
        Command::Graph { sets, pods, maps, kinds, objects } => {
            garbage::graph(&client, &garbage::Numbers { sets, pods, maps, kinds, objects }).await
        }
        Command::Definitions { count, broken } => garbage::definitions(&client, count, broken).await,
        Command::Family { pods } => garbage::family(&client, pods).await,
        Command::Collect { foreground } => {
            let policy =
                if foreground { PropagationPolicy::Foreground } else { PropagationPolicy::Background };
            garbage::collect(&client, policy).await
        }
    }
}

/// Prints a line for the person, or the script, that runs the measurement.
#[expect(clippy::print_stdout, reason = "standard output is this program's result")]
fn report(line: &str) {
    println!("{line}");
}
