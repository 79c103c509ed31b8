//! A new cluster in which steersman runs the fifteen controllers that keep it clean and its members known, while
//! kube-controller-manager runs all others.
//!
//! Runs where `KUBEBUILDER_ASSETS` names a folder that holds kube-controller-manager and kubelet, too; elsewhere it says that it
//! does not. `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;
use kube::config::KubeConfigOptions;
use serde_json::{Value, json};
use steersman_api::Time;
use support::bootstrap::{NODE, Tokens, client_with, in_seconds, join, let_nodes_join};
use support::certificates::{OF_KUBELET, Requests};
use support::cron_jobs::minutes_ago;
use support::identities::{ACCOUNT_NAME, ACCOUNT_UID, Identities};
use support::manager::Manager;
use support::namespaces::{Space, config_map};
use support::quotas::Quota;
use support::real::{self, RealServer};
use support::user::{User, workload};
use support::{Cluster, Server, eventually, until};

/// The controllers that the manager under test runs, and kube-controller-manager does not.
const CONTROLLERS: [&str; 15] = [
    "garbage-collector-controller",
    "namespace-controller",
    "resourcequota-controller",
    "clusterrole-aggregation-controller",
    "serviceaccount-controller",
    TOKENS,
    "legacy-serviceaccount-token-cleaner-controller",
    "root-ca-certificate-publisher-controller",
    "certificatesigningrequest-signing-controller",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "bootstrap-signer-controller",
    "token-cleaner-controller",
    "ttl-controller",
    "service-cidr-controller",
];
/// kube-controller-manager runs this one whether it is enabled or not, if it has a key.
const TOKENS: &str = "serviceaccount-token-controller";

/// The file with the authority of the API server's certificate, in the server's folder.
const AUTHORITY: &str = "certs/apiserver.crt";

/// The cluster, and what its managers work on.
struct Fresh {
    cluster: Cluster,
    server: Arc<RealServer>,
    user: User,
    identities: Identities,
    requests: Requests,
    tokens: Tokens,
}

impl Fresh {
    async fn start(assets: &Path) -> Self {
        let server = Arc::new(RealServer::start_fresh(assets).await);
        let cluster = Cluster::on(Server::Real(Arc::clone(&server))).await;
        let client = cluster.client();
        Self {
            server,
            user: User::of(&cluster),
            identities: Identities::of(&client),
            requests: Requests::of(&cluster),
            tokens: Tokens::of(client),
            cluster,
        }
    }

    fn manager(&self) -> Manager {
        let file = |flag: &str, name: &str| format!("--{flag}={}", self.server.folder().join(name).display());
        let flags = [
            format!("--controllers={}", CONTROLLERS.join(",")),
            file("service-account-private-key-file", "sa.key"),
            file("root-ca-file", AUTHORITY),
            file("cluster-signing-cert-file", "ca.crt"),
            file("cluster-signing-key-file", "ca.key"),
            "--legacy-service-account-token-clean-up-period=1s".to_owned(),
        ];
        Manager::start(&self.cluster.kubeconfig(), &flags.each_ref().map(String::as_str))
    }

    fn kube_controller_manager(&self, assets: &Path) -> Manager {
        let others = CONTROLLERS.map(|name| format!("-{name}")).join(",");
        let flag = format!("--controllers=*,{others}");
        Manager::start_upstream(assets, &self.cluster.kubeconfig(), &[&flag])
    }

    /// Creates what the cleaners have to remove.
    async fn leave_old_objects(&self) {
        let tracking =
            "api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
        self.user
            .sees("the API server tracks tokens", tracking, |map| map["data"]["since"].is_string())
            .await;
        self.user.patch(tracking, json!({ "data": { "since": "2020-01-01" } })).await;
        let uid = self.identities.create_account("robot", &["old"]).await;
        // The cleaner spares a Secret that is written meanwhile: this one is complete.
        let authority = std::fs::read_to_string(self.server.folder().join(AUTHORITY)).unwrap();
        let complete = json!({
            "metadata": {
                "labels": { "kubernetes.io/legacy-token-invalid-since": "2021-01-01" },
                "annotations": { ACCOUNT_UID: uid },
            },
            "stringData": { "token": "old", "ca.crt": authority, "namespace": self.cluster.namespace },
        });
        self.identities.create_secret("old", "robot", complete).await;
        self.requests.ask("old", &OF_KUBELET).await;
        self.requests.decide("old", "Denied", Some(minutes_ago(90))).await;
        self.tokens.create("expird", in_seconds(-60)).await;
        let made = Time::now().seconds();
        until("the token is older than a second", || Time::now().seconds() > made + 2).await;
    }

    async fn old_objects_are_gone(&self) {
        self.identities.gone("old").await;
        self.tokens.goes("expird").await;
        eventually("the old request is gone", || async {
            self.requests.api.get_opt(&self.requests.name("old")).await.ok()?.is_none().then_some(())
        })
        .await;
    }

    /// Pods need the service account of their namespace, and trust the API server by the published authority.
    async fn pods_are_made_and_counted_and_go_with_their_deployment(&self) {
        let quota = Quota::create(&self.cluster.client(), "pods", json!({ "pods": "9" })).await;
        quota.uses(json!({ "pods": "0" })).await;
        self.user.create("apis/apps/v1/*/deployments", workload("web", json!({ "replicas": 3 }))).await;
        let pods = self.user.pods("web", 3).await;
        quota.uses(json!({ "pods": "3" })).await;
        let pod = self.user.get(&format!("api/v1/*/pods/{}", pods[0])).await.unwrap();
        assert_eq!(pod["spec"]["serviceAccountName"], "default");
        let volumes = pod["spec"]["volumes"].to_string();
        assert!(volumes.contains("kube-root-ca.crt"), "{volumes}");
        let who = self.user_of_pods().await;
        assert_eq!(who, format!("system:serviceaccount:{}:default", self.cluster.namespace));

        self.user.delete("apis/apps/v1/*/deployments/web", "Background").await;
        self.user.pods("web", 0).await;
        quota.uses(json!({ "pods": "0" })).await;
    }

    /// The user that a pod is to the API server, which it trusts by the authority in its namespace.
    async fn user_of_pods(&self) -> String {
        let map = "api/v1/*/configmaps/kube-root-ca.crt";
        let map =
            self.user.sees("the authority is published", map, |map| map["data"]["ca.crt"].is_string()).await;
        let token = self.user.create("api/v1/*/serviceaccounts/default/token", json!({ "spec": {} })).await;
        let mut kubeconfig = self.server.kubeconfig();
        let cluster = &mut kubeconfig["clusters"][0]["cluster"];
        cluster.as_object_mut().unwrap().remove("insecure-skip-tls-verify");
        cluster["certificate-authority-data"] =
            STANDARD.encode(map["data"]["ca.crt"].as_str().unwrap()).into();
        kubeconfig["users"][0]["user"] = json!({ "token": token["status"]["token"] });
        let kubeconfig = serde_json::from_value(kubeconfig).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        user_of(kube::Client::try_from(config.unwrap()).unwrap()).await
    }

    async fn roles_aggregate(&self) {
        for role in ["view", "edit", "admin"] {
            let path = format!("apis/rbac.authorization.k8s.io/v1/clusterroles/{role}");
            let has_rules = |role: &Value| role["rules"].as_array().is_some_and(|rules| !rules.is_empty());
            self.user.sees(&format!("{role} has rules"), &path, has_rules).await;
        }
    }

    async fn a_secret_gets_its_token(&self) {
        self.identities.create_secret("token", "robot", json!({})).await;
        let secret = self.identities.filled("token").await;
        assert_eq!(secret.metadata.annotations.unwrap()[ACCOUNT_NAME], "robot");
        let token = String::from_utf8(secret.data.unwrap()["token"].0.clone()).unwrap();
        assert_eq!(self.identities.review(&token).await.authenticated, Some(true));
    }

    /// A kubelet joins, and its node gets the TTL of a small cluster.
    async fn a_kubelet_joins(&self, assets: &Path) {
        let_nodes_join(&self.cluster.client()).await;
        self.tokens.create("abcdef", in_seconds(3600)).await;
        self.tokens.publish("a kubeconfig").await;
        self.tokens.are_signatures_of("a kubeconfig", &["abcdef"]).await;
        let folder = tempfile::tempdir().unwrap();
        let issued = join(assets, self.server.kubeconfig(), "abcdef", folder.path()).await;
        let kubelet = client_with(&issued, self.server.kubeconfig()).await;
        assert_eq!(user_of(kubelet.clone()).await, format!("system:node:{NODE}"));
        // Without a runtime, the kubelet itself does not come so far.
        let node = serde_json::from_value(json!({ "metadata": { "name": NODE } })).unwrap();
        let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(kubelet);
        nodes.create(&PostParams::default(), &node).await.unwrap();
        let has_ttl = |node: &Value| node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"] == "0";
        self.user.sees("the node has a TTL", &format!("api/v1/nodes/{NODE}"), has_ttl).await;
    }

    async fn a_range_is_ready_and_a_namespace_goes(&self) {
        let range = json!({ "metadata": { "name": "more" }, "spec": { "cidrs": ["192.168.9.0/28"] } });
        self.user.create("apis/networking.k8s.io/v1/servicecidrs", range).await;
        let is_ready = |range: &Value| {
            range["status"]["conditions"][0]["type"] == "Ready"
                && range["metadata"]["finalizers"] == json!(["networking.k8s.io/service-cidr-finalizer"])
        };
        self.user.sees("the range is ready", "apis/networking.k8s.io/v1/servicecidrs/more", is_ready).await;
        let space = Space::create(&self.cluster.client()).await;
        space.put(config_map("map")).await;
        space.delete().await;
        space.is_gone().await;
    }
}

/// The name of the user that a client is to the API server.
async fn user_of(client: kube::Client) -> String {
    let reviews = Api::<SelfSubjectReview>::all(client);
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    review.status.unwrap().user_info.unwrap().username.unwrap()
}

/// Waits until a manager says that it runs the fifteen controllers, and no others.
async fn runs_the_fifteen(manager: &Manager) {
    eventually("the fifteen controllers run", || async {
        let (_, report) = manager.get("/debug/controllers?format=json").await?;
        let report: Value = serde_json::from_str(&report).ok()?;
        let controllers = report["controllers"].as_array()?;
        let running = controllers.iter().filter(|controller| controller["state"] == "running");
        let running: BTreeSet<_> = running.filter_map(|controller| controller["name"].as_str()).collect();
        (running == BTreeSet::from(CONTROLLERS)).then_some(())
    })
    .await;
}

/// Waits until kube-controller-manager says that it runs none of the fifteen.
async fn runs_none_of_the_fifteen(manager: &Manager) {
    until("kube-controller-manager runs without the fifteen", || {
        let log = manager.log();
        CONTROLLERS.iter().all(|name| {
            let why = if *name == TOKENS { "skipping controller" } else { "controller is disabled" };
            log.contains(&format!("\"Warning: {why}\" controller=\"{name}\""))
        })
    })
    .await;
}

#[tokio::test]
async fn a_new_cluster_lives_with_fifteen_controllers_of_steersman_and_all_others_of_kubernetes() {
    let has_all =
        |assets: &Path| ["kube-controller-manager", "kubelet"].iter().all(|name| assets.join(name).exists());
    let Some(assets) = real::assets().filter(|assets| has_all(assets)) else {
        println!("no kube-controller-manager and kubelet are at hand: not run");
        return;
    };
    let fresh = Fresh::start(&assets).await;
    fresh.leave_old_objects().await;
    let pod = steersman_testing::pod("early").build();
    let refused = fresh.user.send(Method::POST, "api/v1/*/pods", &pod).await.unwrap_err();
    assert!(refused.to_string().contains("serviceaccount \"default\" not found"), "{refused}");

    let theirs = fresh.kube_controller_manager(&assets);
    runs_none_of_the_fifteen(&theirs).await;
    let ours = fresh.manager();
    if ours.is_steersman() {
        runs_the_fifteen(&ours).await;
    }
    fresh.pods_are_made_and_counted_and_go_with_their_deployment().await;
    fresh.roles_aggregate().await;
    fresh.a_secret_gets_its_token().await;
    fresh.old_objects_are_gone().await;
    fresh.a_kubelet_joins(&assets).await;
    fresh.a_range_is_ready_and_a_namespace_goes().await;
}
