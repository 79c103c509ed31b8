//! How a server behaves.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::usage::Usage;

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many changes of each resource are remembered, as far as their states are not more than 32 MiB: watches and
    /// paged lists that need older ones get 410. Default: 10,000.
    pub history: usize,
    /// Between the bookmarks of a watch. Default: one minute, as upstream.
    pub bookmark_interval: Duration,
    /// How long a watch goes on whose client does not say: between this and twice as long. Default: 30 minutes.
    pub min_watch_timeout: Duration,
    /// How many bytes the objects may take together, as they are stored, with their keys. Writes beyond that are refused with
    /// 500, as upstream refuses them where etcd's `--quota-backend-bytes` is used up; writes that need no more space are not,
    /// and deletes may take an eighth more. Default: 2 GiB, as etcd.
    pub quota_backend_bytes: u64,
    /// The largest body that is read, in bytes. Default: 3 MiB, as upstream.
    pub body_limit: usize,
    /// Maximum number of bytes that the bodies of all requests hold together. A user may hold at most as many as remain free. A
    /// request that would exceed either limit gets 429. Default: 64 MiB.
    pub bodies_limit: usize,
    /// Maximum number of concurrent reads, without watches, logs and streams; 0 for no limit. A user may have
    /// at most as many as remain free, so one user alone gets half; more get 429. Members of `system:masters` are not limited,
    /// and health is not counted. Default: 400, as upstream.
    pub max_requests_in_flight: usize,
    /// Maximum number of concurrent writes, likewise. Default: 200, as upstream.
    pub max_mutating_requests_in_flight: usize,
    /// How long a request may take that is no watch, log or stream, with reading its body: then it is refused with 504, and may
    /// have done what it should all the same. Default: 60 seconds, as upstream; with a
    /// [`TestServer`](crate::TestServer) for ever, as its clock may jump.
    pub request_timeout: Option<Duration>,
    /// The time of day that objects are stamped with, and that tokens expire by. Default: the machine's clock; with a
    /// [`TestServer`](crate::TestServer) a clock that follows tokio's.
    pub clock: Option<Clock>,
    /// Whether new pods get their service account and a token of it, as upstream's admission plugin `ServiceAccount` has it.
    /// Default: they do; with a [`TestServer`](crate::TestServer) they do not.
    pub service_account_tokens: bool,
    /// The authority (PEM) that nodes' certificates must be of. Default: none, and they are not looked at.
    pub kubelet_certificate_authority: Option<String>,
    /// What running containers use: with it, `metrics.k8s.io/v1beta1` is served. Default: none, and it is not.
    pub usage: Option<Arc<dyn Usage>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            history: 10_000,
            bookmark_interval: Duration::from_secs(60),
            min_watch_timeout: Duration::from_secs(1800),
            quota_backend_bytes: 2 << 30,
            body_limit: 3 * 1024 * 1024,
            bodies_limit: 64 * 1024 * 1024,
            max_requests_in_flight: 400,
            max_mutating_requests_in_flight: 200,
            request_timeout: Some(Duration::from_secs(60)),
            clock: None,
            service_account_tokens: true,
            kubelet_certificate_authority: None,
            usage: None,
        }
    }
}
