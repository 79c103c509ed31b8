//! Namespaces, service accounts and roles.

use std::ops::Range;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::{Area, Made};
use support::Cluster;
use support::identities::{Identities, files, text};

const ROOT_CA: &str = "kube-root-ca.crt";

/// Numbered namespaces, service accounts with a Secret each, and roles that are part of another one.
pub(crate) struct Members {
    client: kube::Client,
    identities: Identities,
    /// Begins the names of objects that belong to no namespace, and is the name of the role with all the rules.
    prefix: String,
    files: [String; 2],
}

impl Members {
    fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.prefix)
    }

    fn roles(&self) -> Api<ClusterRole> {
        Api::all(self.client.clone())
    }

    async fn create_role(&self, role: Value) {
        let role = serde_json::from_value(role).unwrap();
        self.roles().create(&PostParams::default(), &role).await.unwrap();
    }
}

impl Area for Members {
    const CONTROLLERS: &'static str = "serviceaccount-controller,serviceaccount-token-controller,\
        root-ca-certificate-publisher-controller,clusterrole-aggregation-controller";
    const ONE_BY_ONE: &'static [&'static str] = &["account", "root CA", "token"];
    const AT_ONCE: &'static [&'static str] = &["rule"];

    async fn of(cluster: &Cluster) -> Self {
        let client = cluster.client();
        let members = Self {
            identities: Identities::of(&client),
            client,
            prefix: cluster.namespace.clone(),
            files: files(cluster),
        };
        let part_of = json!({ "part-of": members.prefix });
        let role = json!({
            "metadata": { "name": members.prefix }, "rules": null,
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": part_of }] },
        });
        members.create_role(role).await;
        members
    }

    fn flags(&self) -> Vec<String> {
        self.files.to_vec()
    }

    async fn create(&self, numbers: Range<usize>) {
        let namespaces = Api::<Namespace>::all(self.client.clone());
        for number in numbers {
            let name = self.name(number);
            let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
            namespaces.create(&PostParams::default(), &namespace).await.unwrap();
            self.identities.create_account(&name, &[]).await;
            self.identities.create_secret(&name, &name, json!({})).await;
            self.create_role(json!({
                "metadata": { "name": name, "labels": { "part-of": self.prefix } },
                "rules": [{ "apiGroups": [""], "resources": [name], "verbs": ["get"] }],
            }))
            .await;
        }
    }

    async fn made(&self, count: usize) -> Made {
        let mut made = Made::new();
        let sum = self.roles().get(&self.prefix).await.ok().and_then(|role| role.rules).unwrap_or_default();
        for number in 0..count {
            let name = self.name(number);
            let account =
                Api::<ServiceAccount>::namespaced(self.client.clone(), &name).get_opt("default").await;
            let map = Api::<ConfigMap>::namespaced(self.client.clone(), &name).get_opt(ROOT_CA).await;
            let secret = self.identities.secrets.get(&name).await;
            let rule = sum.iter().find(|rule| rule.resources.iter().flatten().any(|of| *of == name));
            let versions = [
                ("account", account.ok().flatten().and_then(|account| account.resource_version())),
                ("root CA", map.ok().flatten().and_then(|map| map.resource_version())),
                ("token", secret.ok().and_then(|secret| text(&secret, "token"))),
                ("rule", rule.map(|rule| format!("{rule:?}"))),
            ];
            let versions = versions.into_iter().filter_map(|(kind, version)| Some((kind, version?)));
            made.extend(versions.map(|(kind, version)| ((kind, number), version)));
        }
        made
    }

    async fn check(&self, made: &Made, count: usize) {
        let token = &made[&("token", count - 1)];
        assert_eq!(self.identities.review(token).await.authenticated, Some(true));
    }
}
