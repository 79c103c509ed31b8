//! A cluster with managers at work.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use super::manager::Manager;
use super::{Cluster, eventually};

/// A cluster with a manager at work. The manager ends before another test has its turn.
pub struct Managed {
    pub client: kube::Client,
    pub manager: Manager,
    pub cluster: Cluster,
}

impl Managed {
    /// A server as the environment wants it, that no other test uses meanwhile, and a manager with these flags.
    pub async fn start(flags: &[&str]) -> Self {
        Self::on(Cluster::start_alone().await, flags)
    }

    /// This cluster, and a manager with these flags.
    pub fn on(cluster: Cluster, flags: &[&str]) -> Self {
        let manager = Manager::start(&cluster.kubeconfig(), flags);
        Self { client: cluster.client(), manager, cluster }
    }
}

/// Two managers, of which one leads.
pub struct Candidates {
    leader: Manager,
    _other: Manager,
    lease: String,
    leases: Api<Lease>,
    /// The identity of the first leader.
    first: String,
}

impl Candidates {
    /// Starts both with these flags.
    pub async fn start(cluster: &Cluster, flags: &[&str]) -> Self {
        let lease = format!("manager-of-{}", cluster.namespace);
        let resource = format!("--leader-elect-resource-name={lease}");
        let terms = [
            "--leader-elect-lease-duration=3s",
            "--leader-elect-renew-deadline=2s",
            "--leader-elect-retry-period=400ms",
            &resource,
        ];
        let flags = [flags, &terms].concat();
        let leases = Api::<Lease>::namespaced(cluster.client(), "kube-system");
        let leader = Manager::start_candidate(&cluster.kubeconfig(), &flags);
        let first = eventually("the first leads", || holder(&leases, &lease)).await;
        let other = Manager::start_candidate(&cluster.kubeconfig(), &flags);
        Self { leader, _other: other, lease, leases, first }
    }

    /// Kills the one that leads.
    pub fn kill_leader(&mut self) {
        self.leader.kill();
    }

    /// Whether the other one leads now.
    pub async fn has_changed(&self) -> bool {
        holder(&self.leases, &self.lease).await.is_some_and(|holder| holder != self.first)
    }
}

async fn holder(leases: &Api<Lease>, lease: &str) -> Option<String> {
    leases.get(lease).await.ok()?.spec?.holder_identity.filter(|holder| !holder.is_empty())
}
