//! Renews the Lease.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::PostParams;
use steersman_client::fault::told;
use tokio_util::sync::CancellationToken;

/// Where the Leases of nodes are.
pub const NAMESPACE: &str = "kube-node-lease";
/// How often a renewal is tried at once (client-go: `maxUpdateRetries`).
const TRIES: u32 = 5;
/// The waits between tries to read or make the Lease: from twice the first one up (client-go: `maxBackoff`).
const WAITS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(7)];
/// The part of the Lease's duration after which it is renewed (upstream: `nodeLeaseRenewIntervalFraction`).
const RENEW_FRACTION: f64 = 0.25;
/// By how much of the interval renewals are spread.
const JITTER: f64 = 0.04;
/// The time that a call has at most (upstream: `nodeStatusUpdateFrequency`, by default).
const LONGEST_CALL: Duration = Duration::from_secs(10);
/// The time that a call has however short the Lease is: an API server under load may need it.
const SHORTEST_CALL: Duration = Duration::from_secs(1);

/// Makes and renews the Lease of a node, whatever else the node is at. It is kept when the node stops.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    node_name: String,
    duration_seconds: i32,
}

/// Why the Lease was not renewed. It is tried again.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("reading the lease: {}", told(.0))]
    Get(#[source] Box<kube::Error>),
    #[error("creating the lease: {}", told(.0))]
    Create(#[source] Box<kube::Error>),
    #[error("updating the lease: {}", told(.0))]
    Update(#[source] Box<kube::Error>),
    #[error("another one changed the lease")]
    Conflict,
    #[error("reading the node that owns the lease: {}", told(.0))]
    Node(#[source] Box<kube::Error>),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

/// The Lease as the API server has it.
enum Ensured {
    /// It was made just now.
    Created(Lease),
    /// It was there.
    Found(Lease),
}

/// The calls.
struct Calls {
    leases: Api<Lease>,
    nodes: Api<Node>,
    /// How long each may take.
    timeout: Duration,
}

impl Calls {
    /// Drops a call that takes too long. The lease client sends the next call over another connection then: this one may be
    /// half-open.
    async fn in_time<T>(&self, call: impl Future<Output = T>) -> Result<T, Error> {
        tokio::time::timeout(self.timeout, call).await.map_err(|_| Error::Timeout(self.timeout))
    }
}

impl Heartbeat {
    /// `duration_seconds` is the time that the Lease lasts (`nodeLeaseDurationSeconds`, by default 40); it is renewed four
    /// times in that.
    pub fn new(node_name: &str, duration_seconds: i32) -> Self {
        Self { node_name: node_name.to_owned(), duration_seconds }
    }

    /// Renews until `stop`. `client` has connections that nothing else uses, and neither limits nor retries
    /// (`Clients::lease_client`), so that this never waits behind others.
    pub async fn run(&self, client: kube::Client, stop: CancellationToken) {
        let calls = Calls {
            leases: Api::namespaced(client.clone(), NAMESPACE),
            nodes: Api::all(client),
            timeout: self.interval().clamp(SHORTEST_CALL, LONGEST_CALL),
        };
        Box::pin(stop.run_until_cancelled(self.renew_for_ever(&calls))).await;
    }

    /// The time from one renewal to the next. A call has no longer either, so that one without an answer leaves time for
    /// others before the Lease is over.
    fn interval(&self) -> Duration {
        Duration::from_secs(self.duration_seconds.max(1).unsigned_abs().into()).mul_f64(RENEW_FRACTION)
    }

    async fn renew_for_ever(&self, calls: &Calls) {
        let interval = self.interval();
        let mut latest = None;
        loop {
            latest = self.renew(calls, latest).await;
            tokio::time::sleep(interval.mul_f64(1.0 + JITTER * rand::random::<f64>())).await;
        }
    }

    /// Renews once. Nobody else should write the Lease, so the last version known is tried first. Answers with the version
    /// known now.
    async fn renew(&self, calls: &Calls, latest: Option<Lease>) -> Option<Lease> {
        if let Some(latest) = latest
            && let Some(renewed) = self.update(calls, latest).await
        {
            return Some(renewed);
        }
        match self.ensure(calls).await? {
            Ensured::Created(lease) => Some(lease),
            Ensured::Found(lease) => {
                let renewed = self.update(calls, lease.clone()).await;
                if renewed.is_none() {
                    tracing::error!("Failed to renew the node's lease, will retry");
                }
                Some(renewed.unwrap_or(lease))
            }
        }
    }

    /// Writes the Lease, based on `lease`; `None` if it could not be.
    async fn update(&self, calls: &Calls, mut lease: Lease) -> Option<Lease> {
        for _ in 0..TRIES {
            match self.try_update(calls, lease.clone()).await {
                Ok(renewed) => return Some(renewed),
                Err(Error::Conflict) => match self.ensure(calls).await? {
                    Ensured::Created(lease) => return Some(lease),
                    Ensured::Found(newer) => lease = newer,
                },
                Err(error) => tracing::error!(%error, "Failed to update lease"),
            }
        }
        None
    }

    async fn try_update(&self, calls: &Calls, lease: Lease) -> Result<Lease, Error> {
        let lease = self.renewed(calls, lease).await?;
        let params = PostParams::default();
        let written = calls.in_time(calls.leases.replace(&self.node_name, &params, &lease)).await?;
        written.map_err(|error| match error {
            kube::Error::Api(status) if status.reason == "Conflict" => Error::Conflict,
            other => Error::Update(Box::new(other)),
        })
    }

    /// The Lease, made where there is none, however often it takes; `None` if the Node that is to own it is not there.
    async fn ensure(&self, calls: &Calls) -> Option<Ensured> {
        let [mut wait, longest] = WAITS;
        loop {
            let error = match self.try_ensure(calls).await {
                Ok(ensured) => return Some(ensured),
                Err(Error::Node(error)) if matches!(&*error, kube::Error::Api(status) if status.code == 404) =>
                {
                    tracing::info!(
                        node = self.node_name,
                        "The node's lease waits for the node to be registered"
                    );
                    return None;
                }
                Err(error @ Error::Node(_)) => {
                    tracing::error!(%error, "Failed to get node when trying to set owner ref to the node lease");
                    return None;
                }
                Err(error) => error,
            };
            wait = (wait * 2).min(longest);
            tracing::error!(%error, interval = ?wait, "Failed to ensure lease exists, will retry");
            tokio::time::sleep(wait).await;
        }
    }

    async fn try_ensure(&self, calls: &Calls) -> Result<Ensured, Error> {
        let found = calls.in_time(calls.leases.get_opt(&self.node_name)).await?;
        if let Some(lease) = found.map_err(|error| Error::Get(Box::new(error)))? {
            return Ok(Ensured::Found(lease));
        }
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.node_name.clone()),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec { holder_identity: Some(self.node_name.clone()), ..LeaseSpec::default() }),
        };
        let lease = self.renewed(calls, lease).await?;
        let created = calls.in_time(calls.leases.create(&PostParams::default(), &lease)).await?;
        created.map(Ensured::Created).map_err(|error| Error::Create(Box::new(error)))
    }

    /// The Lease with a new time, and owned by the Node: with that it goes, too.
    async fn renewed(&self, calls: &Calls, mut lease: Lease) -> Result<Lease, Error> {
        let spec = lease.spec.get_or_insert_default();
        spec.lease_duration_seconds = Some(self.duration_seconds);
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        if lease.metadata.owner_references.as_ref().is_none_or(Vec::is_empty) {
            let node = calls.in_time(calls.nodes.get(&self.node_name)).await?;
            let node = node.map_err(|error| Error::Node(Box::new(error)))?;
            lease.metadata.owner_references = Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: self.node_name.clone(),
                uid: node.metadata.uid.unwrap_or_default(),
                ..OwnerReference::default()
            }]);
        }
        Ok(lease)
    }
}
