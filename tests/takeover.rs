//! A cluster in use gets another manager, and after a while the first one again, on the same lease: no pod goes, and the API
//! server's audit log shows that no object is written without cause, and that nothing was forbidden to steersman.
//!
//! Runs where `KUBEBUILDER_ASSETS` names a folder that holds kube-controller-manager too; elsewhere it says that it does not.
//! `TAKEOVER_SECONDS` says how long each manager is watched; 40 by default.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

#[path = "takeover/furniture.rs"]
mod furniture;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use support::audit::{MANAGER, action, forbidden, is_write, requests};
use support::living::LivingNodes;
use support::manager::Manager;
use support::real::MANAGER_TOKEN;
use support::user::{User, items};
use support::{Cluster, eventually, identities, lines, real};

/// How long nothing must have been written before a cluster counts as being at rest: longer than the period of autoscalers
/// and of unbound claims, 15 seconds.
const REST: Duration = Duration::from_secs(20);

/// What managers write whatever there is to do, of which no object that somebody else looks after changes: who, and the verb
/// and the resource.
const EVER: &[(&str, &str)] = &[
    (MANAGER, "update leases"),
    (MANAGER, "create events"),
    (MANAGER, "create serviceaccounts"),
    (MANAGER, "create serviceaccounts/token"),
    (MANAGER, "create selfsubjectaccessreviews"),
    // Who can't do what is asked of them say so again and again.
    ("horizontal-pod-autoscaler", "create events"),
    ("horizontal-pod-autoscaler", "patch events"),
    ("persistent-volume-binder", "create events"),
    ("persistent-volume-binder", "patch events"),
    // A new leader greets each node.
    ("node-controller", "create events"),
    ("node-controller", "patch events"),
    // kube-controller-manager's new leader patches nodes with what they have already.
    ("attachdetach-controller", "patch nodes/status"),
];

#[derive(Clone, Copy, PartialEq)]
enum Who {
    Steersman,
    Upstream,
}

/// A cluster with a node, all kinds of objects, and a log of who wrote what.
struct Stage {
    cluster: Cluster,
    user: User,
    assets: PathBuf,
    flags: Vec<String>,
}

impl Stage {
    async fn set() -> Option<Self> {
        let assets = real::assets().filter(|assets| assets.join("kube-controller-manager").exists())?;
        let cluster = Cluster::start_audited().await?;
        let mut flags: Vec<String> = identities::files(&cluster).into();
        flags.push("--use-service-account-credentials".to_owned());
        flags.push("--controllers=*,bootstrap-signer-controller,token-cleaner-controller".to_owned());
        Some(Self { user: User::of(&cluster), cluster, assets, flags })
    }

    fn start(&self, who: Who) -> Manager {
        let kubeconfig = self.cluster.kubeconfig_with_token(MANAGER_TOKEN);
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        match who {
            Who::Steersman => Manager::start_candidate(&kubeconfig, &flags),
            Who::Upstream => Manager::start_upstream_candidate(&self.assets, &kubeconfig, &flags),
        }
    }

    /// Each write from the `since`th request of the log on that has a cause to be looked for: who, what, which object.
    fn writes(&self, since: usize) -> Vec<String> {
        let log = self.cluster.audit_log();
        let needs_a_cause =
            |user: &str, request: &Value| is_write(request) && !EVER.contains(&(user, &*action(request)));
        requests(&log[since.min(log.len())..])
            .filter(|(user, request)| needs_a_cause(user, request))
            .map(|(user, request)| {
                let code = &request["responseStatus"]["code"];
                format!("{user}: {} {} ({code})", action(request), request["requestURI"])
            })
            .collect()
    }

    fn position(&self) -> usize {
        self.cluster.audit_log().len()
    }

    /// Ends a manager, and asserts that the API server has forbidden nothing to steersman since the `since`th request of the
    /// log.
    async fn stop(&self, who: Who, manager: &mut Manager, since: usize) {
        manager.stop().await;
        let forbidden = forbidden(&self.cluster.audit_log()[since..]);
        assert!(who == Who::Upstream || forbidden.is_empty(), "forbidden:\n{}", lines(forbidden));
    }

    /// Waits until the managers have nothing left to write.
    async fn rests(&self) {
        let mut position = self.position();
        let mut since = tokio::time::Instant::now();
        eventually("the cluster is at rest", || {
            if !self.writes(position).is_empty() {
                (position, since) = (self.position(), tokio::time::Instant::now());
            }
            std::future::ready((since.elapsed() >= REST).then_some(()))
        })
        .await;
    }

    /// Waits until another manager than `before` holds the lease, and returns who.
    async fn leads(&self, before: &str) -> String {
        let holder = |lease: &Value| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        let path = "apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
        let wanted = |lease: &Value| !holder(lease).is_empty() && holder(lease) != before;
        holder(&self.user.sees("the next manager leads", path, wanted).await)
    }

    /// The uid and the phase of every pod, and the volumes of every node.
    async fn state(&self) -> BTreeSet<String> {
        let pods = self.user.get("api/v1/pods").await.unwrap();
        let nodes = self.user.get("api/v1/nodes").await.unwrap();
        let line = |object: &Value| {
            let (metadata, status) = (&object["metadata"], &object["status"]);
            format!(
                "{} {} {} {}",
                metadata["name"], metadata["uid"], status["phase"], status["volumesAttached"]
            )
        };
        items(&pods).iter().chain(items(&nodes)).map(line).collect()
    }
}

#[allow(clippy::disallowed_methods, reason = "only who starts the test knows how long it may take")]
fn watched() -> Duration {
    let seconds = std::env::var("TAKEOVER_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(40))
}

async fn hands_over(first: Who, second: Who) {
    let Some(stage) = Stage::set().await else {
        return println!("no kube-controller-manager is at hand: not run");
    };
    let _nodes = LivingNodes::start(stage.user.clone(), &["n1"]).await;
    let mut position = stage.position();
    let (mut leading, mut manager) = (first, stage.start(first));
    let mut leader = stage.leads("").await;
    furniture::furnish(&stage.user).await;
    stage.rests().await;
    let state = stage.state().await;

    for (turn, who) in [second, first].into_iter().enumerate() {
        stage.stop(leading, &mut manager, position).await;
        position = stage.position();
        (leading, manager) = (who, stage.start(who));
        leader = stage.leads(&leader).await;
        // Nothing is waited for: this is how long what must not happen has time to happen.
        tokio::time::sleep(watched()).await;
        let writes = stage.writes(position);
        assert!(writes.is_empty(), "hand-over {}: written without cause:\n{}", turn + 1, lines(writes));
        assert_eq!(stage.state().await, state, "hand-over {}", turn + 1);
    }
    stage.stop(leading, &mut manager, position).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steersman_takes_over_from_kube_controller_manager_and_hands_back() {
    hands_over(Who::Upstream, Who::Steersman).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_controller_manager_takes_over_from_steersman_and_hands_back() {
    hands_over(Who::Steersman, Who::Upstream).await;
}
