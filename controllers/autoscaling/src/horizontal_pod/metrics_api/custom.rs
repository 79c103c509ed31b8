//! `custom.metrics.k8s.io`: metrics of objects of the cluster.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use steersman_api::{GroupVersion, GroupVersionResource, Quantity};
use steersman_client::rest_mapper::Error;
use steersman_controller::client::path_segment;
use steersman_kinds::horizontal_pod_autoscaler::TargetReference;

use super::super::pods::{Sample, Samples};
use super::MetricsApi;
use super::refusal::{Asked, get, query_text};

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// `v1beta1`.
    V1beta1,
    /// `v1beta2`.
    V1beta2,
}

/// The window of a value that names none.
const DEFAULT_WINDOW: i64 = 60;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup {
    #[serde(default)]
    preferred_version: Option<Named>,
    #[serde(default)]
    versions: Vec<Named>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    group_version: String,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    #[serde(default)]
    described_object: Option<Described>,
    #[serde(default)]
    timestamp: Option<Timestamp>,
    /// Named `window` in `v1beta1`.
    #[serde(default, alias = "window")]
    window_seconds: Option<i64>,
    #[serde(default)]
    value: Quantity,
}

#[derive(Deserialize)]
struct Described {
    #[serde(default)]
    name: Option<String>,
}

impl Version {
    /// The version that upstream would choose: the preferred one if it is known, else the first known one.
    fn choose(group: &ApiGroup) -> Option<Self> {
        let preferred = group.preferred_version.iter();
        preferred.chain(&group.versions).find_map(|version| match version.group_version.as_str() {
            "custom.metrics.k8s.io/v1beta1" => Some(Self::V1beta1),
            "custom.metrics.k8s.io/v1beta2" => Some(Self::V1beta2),
            _ => None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::V1beta1 => "v1beta1",
            Self::V1beta2 => "v1beta2",
        }
    }
}

impl MetricsApi {
    /// The values of a metric of the pods that `pods` selects.
    pub(super) async fn of_pods(
        &self,
        namespace: &str,
        pods: &str,
        metric: &str,
        series: &str,
    ) -> Result<Samples, String> {
        let fetch = async {
            let resource = self.qualified("", "Pod").await?;
            let selectors = [("labelSelector", pods), ("metricLabelSelector", series)];
            self.custom(namespace, &resource, "*", Some(metric), &selectors).await
        };
        let items = fetch.await.map_err(outer)?;
        if items.is_empty() {
            return Err("no metrics returned from custom metrics API".to_owned());
        }
        let sample = |item: Item| {
            let window = u64::try_from(item.window_seconds.unwrap_or(DEFAULT_WINDOW)).unwrap_or(0);
            let window = Duration::from_secs(window);
            let sample = Sample { at: item.timestamp, window, value: item.value.milli_value() };
            let name = item.described_object.and_then(|described| described.name);
            (name.unwrap_or_default().into(), sample)
        };
        Ok(items.into_iter().map(sample).collect())
    }

    /// The value of a metric of an object, in thousandths.
    pub(super) async fn of_object(
        &self,
        namespace: &str,
        object: &TargetReference,
        metric: &str,
        series: &str,
    ) -> Result<i64, String> {
        let fetch = async {
            let GroupVersion { group, .. } = GroupVersion::parse(&object.api_version);
            let selectors = [("metricLabelSelector", series)];
            let items = if group.is_empty() && object.kind == "Namespace" {
                // The autoscaler's own namespace, whatever its spec names.
                self.custom(namespace, "metrics", metric, None, &selectors).await?
            } else {
                let resource = self.qualified(&group, &object.kind).await?;
                self.custom(namespace, &resource, &object.name, Some(metric), &selectors).await?
            };
            let count = items.len();
            match <[Item; 1]>::try_from(items) {
                Ok([item]) => Ok(item.value.milli_value()),
                Err(_) => Err(format!(
                    "the custom metrics API server returned {count} results when we asked for exactly one"
                )),
            }
        };
        fetch.await.map_err(outer)
    }

    async fn custom(
        &self,
        namespace: &str,
        resource: &str,
        name: &str,
        metric: Option<&str>,
        selectors: &[(&str, &str)],
    ) -> Result<Vec<Item>, String> {
        let version = self.version().await?.name();
        let mut path = format!("/apis/custom.metrics.k8s.io/{version}/namespaces/{namespace}/{resource}");
        for segment in [Some(name), metric].into_iter().flatten() {
            path.push('/');
            path.push_str(
                &path_segment(segment)
                    .map_err(|why| format!("invalid resource name {segment:?}: [{why}]"))?,
            );
        }
        query_text(&mut path, selectors);
        let resource = format!("{resource}.custom.metrics.k8s.io");
        let list: List = get(&self.sender, path, &Asked { resource: &resource, name }).await?;
        Ok(list.items.unwrap_or_default())
    }

    /// The version of the API to use. Asked for once in a tick.
    async fn version(&self) -> Result<Version, String> {
        let version = Arc::clone(&self.known().custom);
        let ask = || async {
            let path = "/apis/custom.metrics.k8s.io".to_owned();
            let group: Option<ApiGroup> = get(&self.sender, path, &Asked { resource: "", name: "" })
                .await
                .or_else(|why| if why.contains("could not find") { Ok(None) } else { Err(why) })?;
            let group = group.ok_or("no custom metrics API (custom.metrics.k8s.io) registered")?;
            Version::choose(&group).ok_or_else(|| "no known available metric versions found".to_owned())
        };
        version.get_or_try_init(ask).await.copied()
    }

    /// The resource of a kind, with its group.
    async fn qualified(&self, group: &str, kind: &str) -> Result<String, String> {
        let mapped = match self.mapper.preferred_for(group, kind).await {
            Ok(mapped) => mapped,
            Err(error) => {
                let named = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
                let why = match error {
                    Error::NoMatch(_) => format!("no matches for kind {kind:?} in group {group:?}"),
                    other => other.to_string(),
                };
                return Err(format!("unable to map kind {named} to resource: {why}"));
            }
        };
        let GroupVersionResource { group, resource, .. } = &mapped.gvr;
        Ok(if group.is_empty() { resource.to_string() } else { format!("{resource}.{group}") })
    }
}

fn outer(why: String) -> String {
    format!("unable to fetch metrics from custom metrics API: {why}")
}
