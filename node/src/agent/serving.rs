//! The agent's HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use prometheus::Registry;
use rustix::process::{Resource, getrlimit};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::error::Error;
use super::host::AgentHost;
use super::options::{Connections, Options, limits};
use crate::configuration::{AuthorizationMode, KubeletConfiguration, TlsMinVersion};
use crate::server::auth::{ApiReviewer, Auth, AuthConfig, Authorization, ClientCa, Tokens};
use crate::server::tls::{
    CipherSuites, MinVersion, SelfSigned, ServingCertificate, Spoken, serving_certificate_files,
};
use crate::server::{self, Handlers, Metrics, Parts};

/// Connections at a time: some for the API server, some for collectors, and one for each stream.
const MAX_CONNECTIONS: u64 = 1000;
/// Of the files that the agent may have open, the server takes one in so many: a tunnel has two, and so much again is left
/// for everything else.
const FILES: u64 = 4;

/// What is measured.
#[derive(Clone, Copy)]
pub(super) struct Registries<'a> {
    /// All but those of probes.
    pub(super) all: &'a Registry,
    /// Those of probes.
    pub(super) probes: &'a Registry,
}

/// Addresses taken, certificates read, nothing served yet.
pub(super) struct Serving {
    https: Option<(TcpListener, Parts)>,
    healthz: Option<TcpListener>,
}

impl Serving {
    /// Takes the addresses.
    ///
    /// # Errors
    /// An address is taken, or a certificate can't be read.
    pub(super) async fn bind(
        options: &Options,
        connections: &Connections,
        host: AgentHost,
        metrics: Metrics,
        registries: Registries<'_>,
    ) -> Result<Self, Error> {
        let configuration = &options.configuration;
        let https = if configuration.enable_server {
            let address = SocketAddr::new(configuration.address, configuration.port);
            let listener = server::bind(address).await?;
            let parts = Parts {
                host: Arc::new(host),
                runtime: Arc::clone(&connections.runtime),
                auth: auth(options, connections, registries.all)?,
                certificate: Arc::new(certificate(options)?),
                tls: spoken(configuration)?,
                metrics,
                registry: registries.all.clone(),
                probe_registry: registries.probes.clone(),
                handlers: match configuration.enable_debugging_handlers {
                    true => Handlers::All,
                    false => Handlers::WithoutDebugging,
                },
                max_connections: max_connections(getrlimit(Resource::Nofile).current),
            };
            tracing::info!(%address, "Starting to listen");
            Some((listener, parts))
        } else {
            None
        };
        let healthz = match configuration.healthz_port {
            0 => None,
            port => Some(server::bind(SocketAddr::new(configuration.healthz_bind_address, port)).await?),
        };
        Ok(Self { https, healthz })
    }

    /// Serves until `stop`.
    pub(super) fn start(self, tasks: &mut JoinSet<()>, stop: &CancellationToken) {
        if let Some((listener, parts)) = self.https {
            let stop = stop.clone();
            let run = async move {
                if let Err(error) = server::serve(listener, parts, stop).await {
                    tracing::error!(%error, "The server ended");
                }
            };
            tasks.spawn(run.instrument(tracing::info_span!("server")));
        }
        if let Some(listener) = self.healthz {
            let run = server::serve_healthz(listener, stop.clone());
            tasks.spawn(run.instrument(tracing::info_span!("healthz")));
        }
    }
}

/// How many connections a process takes that may have so many files open; `None` for any number.
fn max_connections(files: Option<u64>) -> usize {
    let most = files.map_or(MAX_CONNECTIONS, |files| (files / FILES).clamp(1, MAX_CONNECTIONS));
    usize::try_from(most).unwrap_or(usize::MAX)
}

fn certificate(options: &Options) -> Result<ServingCertificate, Error> {
    let configuration = &options.configuration;
    let (certificate, key) = match (&configuration.tls_cert_file, &configuration.tls_private_key_file) {
        (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
        _ => {
            let name = &options.node_name;
            let names = SelfSigned { common_name: name.clone(), names: vec![name.clone()] };
            serving_certificate_files(&options.cert_dir, "kubelet", &names)?
        }
    };
    Ok(ServingCertificate::load(certificate, key)?)
}

fn spoken(configuration: &KubeletConfiguration) -> Result<Spoken, Error> {
    let min_version = match configuration.tls_min_version {
        None | Some(TlsMinVersion::Tls12) => MinVersion::Tls12,
        Some(TlsMinVersion::Tls13) => MinVersion::Tls13,
    };
    let cipher_suites = CipherSuites::named(&configuration.tls_cipher_suites)?;
    Ok(Spoken { min_version, cipher_suites, ..Spoken::default() })
}

fn auth(options: &Options, connections: &Connections, registry: &Registry) -> Result<Auth, Error> {
    let metrics = steersman_serving::auth::Metrics::new();
    metrics.register(registry)?;
    let (authentication, authorization) =
        (&options.configuration.authentication, &options.configuration.authorization);
    let limits = limits(options.configuration.kube_api_qps, options.configuration.kube_api_burst);
    let reviewer = connections.clients.as_ref().map(|clients| {
        let client = clients.component_with("kubelet-reviews", limits);
        Arc::new(ApiReviewer::new(client, &metrics))
    });
    let client_ca = authentication.x509.client_ca_file.as_ref();
    let client_ca = client_ca.map(|path| ClientCa::load(path).map(Arc::new)).transpose()?;
    let tokens = reviewer
        .clone()
        .filter(|_| authentication.webhook.enabled)
        .map(|reviewer| Tokens { reviewer, ttl: authentication.webhook.cache_ttl.0 });
    let access = match (authorization.mode, reviewer) {
        (AuthorizationMode::AlwaysAllow, _) => Authorization::AlwaysAllow,
        (AuthorizationMode::Webhook, Some(reviewer)) => Authorization::Webhook {
            reviewer,
            allowed_ttl: authorization.webhook.cache_authorized_ttl.0,
            denied_ttl: authorization.webhook.cache_unauthorized_ttl.0,
        },
        // Without API server nobody can say who may.
        (AuthorizationMode::Webhook, None) => Authorization::Nobody,
    };
    Ok(Auth::new(AuthConfig {
        node: options.node_name.clone(),
        anonymous: authentication.anonymous.enabled,
        client_ca,
        tokens,
        authorization: access,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_others() {
        for (files, connections) in
            [(None, 1000), (Some(1 << 20), 1000), (Some(4000), 1000), (Some(1024), 256), (Some(2), 1)]
        {
            assert_eq!(max_connections(files), connections, "{files:?}");
        }
    }
}
