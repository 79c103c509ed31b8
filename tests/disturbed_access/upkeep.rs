//! Quotas, nodes and ranges of cluster IPs.

use std::ops::Range;

use serde_json::{Value, json};

use crate::{Area, Made};
use support::Cluster;
use support::user::User;

/// Numbered quotas that are counted, nodes that get a TTL, and ServiceCIDRs that get a finalizer and become ready.
pub(crate) struct Upkeep {
    user: User,
}

impl Upkeep {
    fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.user.namespace())
    }

    /// The version of an object that is as wanted.
    async fn version(&self, path: String, is_as_wanted: impl Fn(&Value) -> bool) -> Option<String> {
        let object = self.user.get(&path).await.filter(is_as_wanted)?;
        Some(object["metadata"]["resourceVersion"].to_string())
    }
}

fn is_ready(range: &Value) -> bool {
    let conditions = range["status"]["conditions"].as_array().into_iter().flatten();
    range["metadata"]["finalizers"] == json!(["networking.k8s.io/service-cidr-finalizer"])
        && conditions
            .into_iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

impl Area for Upkeep {
    const CONTROLLERS: &'static str = "resourcequota-controller,ttl-controller,service-cidr-controller";
    const ONE_BY_ONE: &'static [&'static str] = &["count", "TTL", "range"];
    const AT_ONCE: &'static [&'static str] = &[];

    async fn of(cluster: &Cluster) -> Self {
        Self { user: User::of(cluster) }
    }

    fn flags(&self) -> Vec<String> {
        Vec::new()
    }

    async fn create(&self, numbers: Range<usize>) {
        for number in numbers {
            let name = self.name(number);
            let named = || json!({ "metadata": { "name": name } });
            self.user.create("api/v1/namespaces", named()).await;
            self.user.create(&format!("api/v1/namespaces/{name}/secrets"), named()).await;
            let mut quota = named();
            quota["spec"]["hard"]["secrets"] = "9".into();
            self.user.create(&format!("api/v1/namespaces/{name}/resourcequotas"), quota).await;
            self.user.create("api/v1/nodes", named()).await;
            let mut range = named();
            range["spec"]["cidrs"] = json!([format!("192.168.{number}.0/28")]);
            self.user.create("apis/networking.k8s.io/v1/servicecidrs", range).await;
        }
    }

    async fn made(&self, count: usize) -> Made {
        let mut made = Made::new();
        for number in 0..count {
            let name = self.name(number);
            let quota = format!("api/v1/namespaces/{name}/resourcequotas/{name}");
            let is_counted = |quota: &Value| quota["status"]["used"] == json!({ "secrets": "1" });
            let has_ttl =
                |node: &Value| node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"] == "0";
            let range = format!("apis/networking.k8s.io/v1/servicecidrs/{name}");
            let versions = [
                ("count", self.version(quota, is_counted).await),
                ("TTL", self.version(format!("api/v1/nodes/{name}"), has_ttl).await),
                ("range", self.version(range, is_ready).await),
            ];
            let versions = versions.into_iter().filter_map(|(kind, version)| Some((kind, version?)));
            made.extend(versions.map(|(kind, version)| ((kind, number), version)));
        }
        made
    }

    async fn check(&self, _: &Made, _: usize) {}
}
