//! `external.metrics.k8s.io`: metrics that belong to no object of the cluster.

use serde::Deserialize;
use steersman_api::Quantity;
use steersman_controller::client::path_segment;

use super::MetricsApi;
use super::refusal::{Asked, get, query_text};

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    value: Quantity,
}

impl MetricsApi {
    /// The values of the series of a metric, in thousandths.
    pub(super) async fn external(
        &self,
        namespace: &str,
        metric: &str,
        series: &str,
    ) -> Result<Vec<i64>, String> {
        let fetch = async {
            let name = path_segment(metric).map_err(|why| format!("invalid resource {metric:?}: [{why}]"))?;
            let mut path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{name}");
            query_text(&mut path, &[("labelSelector", series)]);
            let resource = format!("{metric}.external.metrics.k8s.io");
            get::<List>(&self.sender, path, &Asked { resource: &resource, name: "" }).await
        };
        let list =
            fetch.await.map_err(|why| format!("unable to fetch metrics from external metrics API: {why}"))?;
        let items = list.items.unwrap_or_default();
        if items.is_empty() {
            return Err("no metrics returned from external metrics API".to_owned());
        }
        Ok(items.iter().map(|item| item.value.milli_value()).collect())
    }
}
