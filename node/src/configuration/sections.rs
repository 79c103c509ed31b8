//! The parts of the configuration that have parts of their own.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use steersman_api::GoDuration;

/// How requests to the node's server are told apart by who sends them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Authentication {
    /// By client certificate.
    pub x509: X509Authentication,
    /// By bearer token, which the API server is asked about.
    pub webhook: WebhookAuthentication,
    /// Requests that say nothing of their sender.
    pub anonymous: AnonymousAuthentication,
}

/// Authentication by client certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct X509Authentication {
    /// PEM file of the authorities whose certificates are believed: the common name is the user, organisations are groups.
    /// Default: none, and no certificate is believed.
    #[serde(rename = "clientCAFile", skip_serializing_if = "Option::is_none")]
    pub client_ca_file: Option<PathBuf>,
}

/// Authentication by TokenReview.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookAuthentication {
    /// Whether bearer tokens are believed at all. Default: true.
    pub enabled: bool,
    /// How long an answer holds. Default: 2 minutes.
    #[serde(rename = "cacheTTL")]
    pub cache_ttl: GoDuration,
}

impl Default for WebhookAuthentication {
    fn default() -> Self {
        Self { enabled: true, cache_ttl: GoDuration::seconds(120) }
    }
}

/// Requests without credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnonymousAuthentication {
    /// Whether they are let in, as user `system:anonymous` of group `system:unauthenticated`. Default: false.
    pub enabled: bool,
}

/// Who may do what at the node's server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Authorization {
    /// How it is decided. Default: [`AuthorizationMode::Webhook`].
    pub mode: AuthorizationMode,
    /// How long the API server's answers hold.
    pub webhook: WebhookAuthorization,
}

/// How it is decided who may do what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthorizationMode {
    /// Whoever is authenticated may do everything.
    AlwaysAllow,
    /// The API server is asked (SubjectAccessReview).
    #[default]
    Webhook,
}

/// How long answers to SubjectAccessReviews hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookAuthorization {
    /// A yes. Default: 5 minutes.
    #[serde(rename = "cacheAuthorizedTTL")]
    pub cache_authorized_ttl: GoDuration,
    /// A no. Default: 30 seconds.
    #[serde(rename = "cacheUnauthorizedTTL")]
    pub cache_unauthorized_ttl: GoDuration,
}

impl Default for WebhookAuthorization {
    fn default() -> Self {
        Self {
            cache_authorized_ttl: GoDuration::seconds(300),
            cache_unauthorized_ttl: GoDuration::seconds(30),
        }
    }
}

/// How containers that keep ending are held back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CrashLoopBackOff {
    /// The longest wait before a container is started again: 1 second to 5 minutes. Default: 5 minutes.
    #[serde(rename = "maxContainerRestartPeriod")]
    pub max_container_restart_period: GoDuration,
}

impl Default for CrashLoopBackOff {
    fn default() -> Self {
        Self { max_container_restart_period: GoDuration::seconds(300) }
    }
}

/// How the agent logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoggingConfiguration {
    /// The form of lines. Default: [`LogFormat::Text`].
    pub format: LogFormat,
    /// klog's level: the higher, the more is said. Default: 0.
    pub verbosity: i32,
}

/// The form of the log's lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// klog's.
    #[default]
    Text,
    /// A JSON object each.
    Json,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsMinVersion {
    /// 1.2; older ones are never spoken, whoever allows them.
    #[serde(rename = "VersionTLS12", alias = "VersionTLS10", alias = "VersionTLS11")]
    Tls12,
    /// 1.3.
    #[serde(rename = "VersionTLS13")]
    Tls13,
}

/// Who makes the cgroups of pods, and how they are called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupDriver {
    /// The agent and the runtime, as folders.
    #[default]
    Cgroupfs,
    /// systemd, as slices and scopes.
    Systemd,
}

/// What is held to what the node has to give away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    /// Nothing; stands alone.
    None,
    /// All pods together, to the node's allocatable.
    Pods,
    /// The system's daemons, to `systemReserved`.
    SystemReserved,
    /// The same, processor time only.
    SystemReservedCompressible,
    /// Kubernetes's daemons, to `kubeReserved`.
    KubeReserved,
    /// The same, processor time only.
    KubeReservedCompressible,
}
