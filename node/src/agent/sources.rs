//! Where an agent's pods come from.

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::error::Error;
use super::options::Options;
use crate::node_status::LiveNode;
use crate::pod_config::{PodConfig, Source, api, file, url};

/// The sources, begun; what is told waits for the sync loop.
pub(super) struct Sources {
    pub(super) config: PodConfig,
    /// Of the manifests behind a URL, if there are any.
    pub(super) url: Option<url::Config>,
}

impl Sources {
    /// Says which sources there are, so that nothing is tidied up before all of them were heard.
    ///
    /// # Errors
    /// A header for manifests is none.
    pub(super) fn new(config: PodConfig, options: &Options) -> Result<Self, Error> {
        let configuration = &options.configuration;
        let headers = headers(&configuration.static_pod_url_header)?;
        let url = configuration.static_pod_url.clone().map(|url| url::Config {
            url,
            headers,
            period: configuration.http_check_frequency.0,
        });
        Ok(Self { config, url })
    }

    /// Starts to listen to them. Pods of the API server come once the node itself is known: they are admitted by what
    /// it says.
    pub(super) fn start(
        self,
        options: &Options,
        api_server: Option<(kube::Client, LiveNode)>,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) {
        let configuration = &options.configuration;
        if let Some(path) = configuration.static_pod_path.clone() {
            let (handle, stop) = (self.config.source(Source::File), stop.clone());
            let (name, period) = (options.node_name.clone(), configuration.file_check_frequency.0);
            let run = async move { file::run(path, &name, period, handle, stop).await };
            tasks.spawn(run.instrument(tracing::info_span!("file_source")));
        }
        if let Some(config) = self.url {
            let (handle, stop) = (self.config.source(Source::Http), stop.clone());
            let name = options.node_name.clone();
            let run = async move {
                if let Err(error) = url::run(config, &name, handle, stop).await {
                    tracing::error!(%error, "Manifests can't be fetched");
                }
            };
            tasks.spawn(run.instrument(tracing::info_span!("url_source")));
        }
        if let Some((client, node)) = api_server {
            let (handle, stop) = (self.config.source(Source::Api), stop.clone());
            let name = options.node_name.clone();
            let run = async move {
                if stop.run_until_cancelled(node.synced()).await.is_some() {
                    Box::pin(api::run(client, &name, handle, stop)).await;
                }
            };
            tasks.spawn(run.instrument(tracing::info_span!("api_source")));
        }
    }
}

fn headers(given: &std::collections::BTreeMap<String, Vec<String>>) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, values) in given {
        let wrong = |_| Error::ManifestHeader(format!("{name:?} is no header"));
        let header: HeaderName = name.parse().map_err(wrong)?;
        for value in values {
            // The value may be secret.
            let wrong = |_| Error::ManifestHeader(format!("a value of {name:?} can't be sent"));
            headers.append(header.clone(), HeaderValue::from_str(value).map_err(wrong)?);
        }
    }
    Ok(headers)
}
