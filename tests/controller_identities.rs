//! `--use-service-account-credentials`: each controller acts as a service account of its own, and Kubernetes's own roles grant
//! all that it asks for. The API server's audit log tells.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman. Without a real API server, the
//! tests say that they do nothing: the embedded one keeps no audit log.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

#[path = "takeover/furniture.rs"]
mod furniture;
#[path = "controller_identities/machines.rs"]
mod machines;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use support::audit::{MANAGER, action, forbidden, is_write, requests};
use support::living::LivingNodes;
use support::manager::Manager;
use support::real::MANAGER_TOKEN;
use support::user::{User, items, template, workload};
use support::{Cluster, identities, lines};

/// Gives each controller something to do, and waits until it is done.
async fn work(user: &User) {
    // The longest first: a run each minute.
    let job = |app: &str| {
        json!({"template": {
            "metadata": {"labels": {"app": app}},
            "spec": {"containers": [{"name": "c", "image": "image"}], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
        }})
    };
    let cron =
        json!({"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job("cron")}});
    user.create("apis/batch/v1/*/cronjobs", json!({"metadata": {"name": "cron"}, "spec": cron})).await;
    for number in 0..4 {
        let pod = json!({"metadata": {"name": format!("over-{number}"), "labels": {"app": "over"}}, "spec": template("over")["spec"]});
        user.create("api/v1/*/pods", pod).await;
        user.patch(&format!("api/v1/*/pods/over-{number}/status"), json!({"status": {"phase": "Succeeded"}}))
            .await;
    }

    node(user).await;
    applications(user).await;
    jobs(user, job("job")).await;
    services(user).await;
    cluster(user).await;
    ends(user).await;

    user.pods("cron", 1).await;
    // Which of the terminated pods are left depends on their ages.
    let over = "api/v1/*/pods?labelSelector=app%3Dover";
    user.sees("terminated pods go", over, |list| items(list).len() <= 1).await;
}

/// A node, ready for pods.
async fn node(user: &User) {
    user.create("api/v1/nodes", json!({"metadata": {"name": "n1"}})).await;
    // The API server taints new nodes.
    user.patch("api/v1/nodes/n1", json!({"spec": {"taints": null}})).await;
}

/// Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets and their budgets.
async fn applications(user: &User) {
    user.create("apis/policy/v1/*/poddisruptionbudgets", json!({
        "metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    })).await;
    user.create(
        "api/v1/*/resourcequotas",
        json!({"metadata": {"name": "quota"}, "spec": {"hard": {"pods": "100", "services": "9"}}}),
    )
    .await;
    user.sees("the quota is counted", "api/v1/*/resourcequotas/quota", |quota| {
        quota["status"]["used"]["pods"].is_string()
    })
    .await;
    user.create("apis/apps/v1/*/deployments", workload("web", json!({"replicas": 2}))).await;
    for (pod, ip) in user.pods("web", 2).await.iter().zip(1..) {
        user.runs(pod, ip).await;
    }
    user.sees("the Deployment is available", "apis/apps/v1/*/deployments/web", |web| {
        web["status"]["availableReplicas"] == 2
    })
    .await;
    user.sees("the budget allows one", "apis/policy/v1/*/poddisruptionbudgets/web", |budget| {
        budget["status"]["disruptionsAllowed"] == 1
    })
    .await;
    user.patch(
        "apis/apps/v1/*/deployments/web",
        json!({"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}),
    )
    .await;
    user.sees("a second ReplicaSet", "apis/apps/v1/*/replicasets", |sets| items(sets).len() == 2).await;
    user.patch("apis/apps/v1/*/deployments/web", json!({"spec": {"replicas": 1}})).await;

    let orphan =
        json!({"metadata": {"name": "orphan", "labels": {"app": "rs"}}, "spec": template("rs")["spec"]});
    user.create("api/v1/*/pods", orphan).await;
    user.create("apis/apps/v1/*/replicasets", workload("rs", json!({"replicas": 2}))).await;
    let pods = user.pods("rs", 2).await;
    assert!(pods.contains(&"orphan".to_owned()), "the pod is adopted: {pods:?}");
    user.sees("the ReplicaSet counts", "apis/apps/v1/*/replicasets/rs", |set| set["status"]["replicas"] == 2)
        .await;
    user.patch("apis/apps/v1/*/replicasets/rs", json!({"spec": {"replicas": 1}})).await;
    user.pods("rs", 1).await;
    user.create("api/v1/*/replicationcontrollers", json!({
        "metadata": {"name": "rc"}, "spec": {"replicas": 1, "selector": {"app": "rc"}, "template": template("rc")},
    }))
    .await;
    user.pods("rc", 1).await;
    user.sees("the controller counts", "api/v1/*/replicationcontrollers/rc", |rc| {
        rc["status"]["replicas"] == 1
    })
    .await;

    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    let set = json!({"replicas": 1, "serviceName": "set", "volumeClaimTemplates": [claim]});
    user.create("apis/apps/v1/*/statefulsets", workload("set", set)).await;
    user.pods("set", 1).await;
    user.sees("the StatefulSet counts", "apis/apps/v1/*/statefulsets/set", |set| {
        set["status"]["replicas"] == 1
    })
    .await;
    user.patch("apis/apps/v1/*/statefulsets/set", json!({"spec": {"replicas": 0}})).await;
    user.pods("set", 0).await;

    user.create("apis/apps/v1/*/daemonsets", workload("daemon", json!({}))).await;
    user.pods("daemon", 1).await;
    user.sees("the DaemonSet counts", "apis/apps/v1/*/daemonsets/daemon", |set| {
        set["status"]["currentNumberScheduled"] == 1
    })
    .await;
    user.sees("the node has a TTL", "api/v1/nodes/n1", |node| {
        node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"] == "0"
    })
    .await;
}

/// A job, until it has been cleaned up.
async fn jobs(user: &User, mut spec: Value) {
    spec["ttlSecondsAfterFinished"] = json!(1);
    user.create("apis/batch/v1/*/jobs", json!({"metadata": {"name": "job"}, "spec": spec})).await;
    for pod in user.pods("job", 1).await {
        let done = json!({"status": {"phase": "Succeeded", "containerStatuses": [{
            "name": "c", "image": "image", "imageID": "i", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:00Z"}},
        }]}});
        user.patch(&format!("api/v1/*/pods/{pod}/status"), done).await;
    }
    user.misses("apis/batch/v1/*/jobs/job").await;
}

/// Services with and without selectors, and their addresses.
async fn services(user: &User) {
    let port = json!([{"port": 80, "protocol": "TCP"}]);
    let service = |name: &str, selector: Value| json!({"metadata": {"name": name}, "spec": {"selector": selector, "ports": port}});
    user.create("api/v1/*/services", service("web", json!({"app": "web"}))).await;
    user.create("api/v1/*/services", service("outside", Value::Null)).await;
    user.create("api/v1/*/endpoints", json!({
        "metadata": {"name": "outside"}, "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
    }))
    .await;
    user.sees("the service has Endpoints", "api/v1/*/endpoints/web", |_| true).await;
    for service in ["web", "outside"] {
        let path = format!(
            "apis/discovery.k8s.io/v1/*/endpointslices?labelSelector=kubernetes.io/service-name%3D{service}"
        );
        user.sees(&format!("{service} has a slice"), &path, |slices| !items(slices).is_empty()).await;
    }
    user.patch("api/v1/*/endpoints/outside", json!({"subsets": []})).await;
    user.delete("api/v1/*/services/web", "Background").await;
    user.misses("api/v1/*/endpoints/web").await;
    let cidr = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.77.0.0/24"]}});
    user.create("apis/networking.k8s.io/v1/servicecidrs", cidr).await;
    user.sees("the ServiceCIDR is ready", "apis/networking.k8s.io/v1/servicecidrs/more", |cidr| {
        cidr["status"]["conditions"][0]["status"] == "True"
    })
    .await;
    user.delete("apis/networking.k8s.io/v1/servicecidrs/more", "Background").await;
    user.misses("apis/networking.k8s.io/v1/servicecidrs/more").await;
}

/// Roles, accounts, tokens and certificates.
async fn cluster(user: &User) {
    user.create(
        "apis/rbac.authorization.k8s.io/v1/clusterroles",
        json!({
            "metadata": {"name": "part", "labels": {"part-of": "sum"}},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        }),
    )
    .await;
    user.create(
        "apis/rbac.authorization.k8s.io/v1/clusterroles",
        json!({
            "metadata": {"name": "sum"}, "rules": [],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part-of": "sum"}}]},
        }),
    )
    .await;
    user.sees("the role is aggregated", "apis/rbac.authorization.k8s.io/v1/clusterroles/sum", |role| {
        role["rules"].as_array().is_some_and(|rules| rules.len() == 1)
    })
    .await;

    user.sees("the namespace has an account", "api/v1/*/serviceaccounts/default", |_| true).await;
    user.sees("the namespace has the root CA", "api/v1/*/configmaps/kube-root-ca.crt", |_| true).await;
    user.create(
        "api/v1/*/secrets",
        json!({
            "metadata": {"name": "token", "annotations": {identities::ACCOUNT_NAME: "default"}},
            "type": "kubernetes.io/service-account-token",
        }),
    )
    .await;
    user.sees("the Secret has a token", "api/v1/*/secrets/token", |secret| {
        secret["data"]["token"].is_string()
    })
    .await;

    let info = json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "clusters: []"}});
    user.create("api/v1/namespaces/kube-public/configmaps", info).await;
    let token = |id: &str, expiration: &str| {
        json!({
            "metadata": {"name": format!("bootstrap-token-{id}")}, "type": "bootstrap.kubernetes.io/token",
            "stringData": {"token-id": id, "token-secret": "0123456789abcdef", "expiration": expiration, "usage-bootstrap-signing": "true"},
        })
    };
    user.create("api/v1/namespaces/kube-system/secrets", token("abcdef", "2099-01-01T00:00:00Z")).await;
    user.create("api/v1/namespaces/kube-system/secrets", token("fedcba", "2020-01-01T00:00:00Z")).await;
    user.sees("cluster-info is signed", "api/v1/namespaces/kube-public/configmaps/cluster-info", |info| {
        info["data"]["jws-kubeconfig-abcdef"].is_string()
    })
    .await;
    user.misses("api/v1/namespaces/kube-system/secrets/bootstrap-token-fedcba").await;
}

/// Ends: foreground deletion, orphans, and a namespace with objects.
async fn ends(user: &User) {
    user.delete("apis/apps/v1/*/replicasets/rs", "Orphan").await;
    user.misses("apis/apps/v1/*/replicasets/rs").await;
    user.delete("apis/apps/v1/*/deployments/web", "Foreground").await;
    user.misses("apis/apps/v1/*/deployments/web").await;
    user.delete("apis/apps/v1/*/daemonsets/daemon", "Background").await;
    user.pods("daemon", 0).await;
    user.create("api/v1/namespaces", json!({"metadata": {"name": "short-lived"}})).await;
    user.create("api/v1/namespaces/short-lived/configmaps", json!({"metadata": {"name": "a"}})).await;
    user.delete("api/v1/namespaces/short-lived", "Background").await;
    user.misses("api/v1/namespaces/short-lived").await;
}

/// The writes that each account must have made: verb and resource, with the subresource after a slash.
const WRITES: &[(&str, &[&str])] = &[
    ("bootstrap-signer", &["update configmaps"]),
    ("clusterrole-aggregation-controller", &["patch clusterroles"]),
    ("cronjob-controller", &["create jobs", "update cronjobs/status", "create events"]),
    ("daemon-set-controller", &["create pods", "create controllerrevisions", "update daemonsets/status"]),
    ("deployment-controller", &["create replicasets", "update deployments/status", "create events"]),
    ("disruption-controller", &["update poddisruptionbudgets/status"]),
    // The API server deletes the Endpoints of a deleted Service, and the controller only what is then left.
    ("endpoint-controller", &["create endpoints"]),
    ("endpointslice-controller", &["create endpointslices"]),
    ("endpointslicemirroring-controller", &["create endpointslices", "delete endpointslices"]),
    ("generic-garbage-collector", &["delete pods", "delete replicasets", "patch pods", "patch replicasets"]),
    ("job-controller", &["create pods", "patch pods", "update jobs/status", "create events"]),
    (
        "namespace-controller",
        &["deletecollection configmaps", "update namespaces/finalize", "update namespaces/status"],
    ),
    ("pod-garbage-collector", &["delete pods"]),
    (
        "replicaset-controller",
        &["create pods", "patch pods", "delete pods", "update replicasets/status", "create events"],
    ),
    ("replication-controller", &["create pods", "update replicationcontrollers/status"]),
    ("resourcequota-controller", &["update resourcequotas/status"]),
    ("root-ca-cert-publisher", &["create configmaps"]),
    ("service-account-controller", &["create serviceaccounts"]),
    ("service-cidrs-controller", &["patch servicecidrs", "patch servicecidrs/status"]),
    (
        "statefulset-controller",
        &["create pods", "delete pods", "create persistentvolumeclaims", "update statefulsets/status"],
    ),
    ("token-cleaner", &["delete secrets"]),
    ("ttl-after-finished-controller", &["delete jobs"]),
    ("ttl-controller", &["patch nodes"]),
];

/// All that kube-controller-manager's own user may have written.
const OF_MANAGER: &[&str] = &[
    "create leases",
    "update leases",
    "create events",
    "patch events",
    "create serviceaccounts",
    "create serviceaccounts/token",
    "update secrets",
    "update serviceaccounts",
    "create selfsubjectaccessreviews",
];

/// The writes that each account must have made after [`machines`]: of the controllers of nodes, volumes, devices, autoscalers and
/// certificates.
const WRITES_OF_MACHINES: &[(&str, &[&str])] = &[
    (
        "attachdetach-controller",
        &["create volumeattachments", "delete volumeattachments", "patch nodes/status"],
    ),
    (
        "certificate-controller",
        &[
            "create subjectaccessreviews",
            "update certificatesigningrequests/approval",
            "update certificatesigningrequests/status",
            "delete certificatesigningrequests",
        ],
    ),
    ("device-taint-eviction-controller", &["patch pods/status", "delete pods", "create events"]),
    ("ephemeral-volume-controller", &["create persistentvolumeclaims"]),
    ("expand-controller", &["patch persistentvolumeclaims/status", "create events"]),
    (
        "horizontal-pod-autoscaler",
        &["update horizontalpodautoscalers/status", "update replicationcontrollers/scale", "create events"],
    ),
    ("node-controller", &["patch nodes", "patch pods/status", "delete pods", "create events"]),
    (
        "persistent-volume-binder",
        &[
            "update persistentvolumes",
            "update persistentvolumes/status",
            "update persistentvolumeclaims",
            "update persistentvolumeclaims/status",
            "create events",
        ],
    ),
    ("pv-protection-controller", &["update persistentvolumes"]),
    ("pvc-protection-controller", &["update persistentvolumeclaims"]),
    ("resource-claim-controller", &["create resourceclaims", "patch pods/status"]),
    ("volumeattributesclass-protection-controller", &["update volumeattributesclasses"]),
];

/// Shows, if the test fails, which requests the API server refused.
struct Refusals<'a>(&'a Cluster);

impl Drop for Refusals<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.0.audit_log();
            let refused =
                requests(&log).filter(|(_, request)| request["responseStatus"]["code"].as_u64() >= Some(400));
            let refused = refused.map(|(user, request)| {
                format!(
                    "{user}: {} {}: {}",
                    action(request),
                    request["requestURI"],
                    request["responseStatus"]
                )
            });
            println!("refused:\n{}", lines(refused.collect::<BTreeSet<_>>()));
        }
    }
}

/// Runs a manager that has only its own user's token, and these further flags, while `work` goes on. Then asserts that the API
/// server has forbidden nothing, and that it has logged these writes.
async fn acts(cluster: &Cluster, more: &[&str], writes: &[(&str, &[&str])], work: impl Future<Output = ()>) {
    let [key, ca] = identities::files(cluster);
    let flags = [&["--use-service-account-credentials", &key, &ca], more].concat();
    let mut manager = Manager::start_candidate(&cluster.kubeconfig_with_token(MANAGER_TOKEN), &flags);
    let _refusals = Refusals(cluster);
    work.await;
    manager.stop().await;

    let log = cluster.audit_log();
    let forbidden = forbidden(&log);
    assert!(forbidden.is_empty(), "forbidden:\n{}", lines(&forbidden));

    let expected = writes
        .iter()
        .flat_map(|(account, actions)| actions.iter().map(move |action| (*account, (*action).to_owned())));
    let writes: BTreeSet<_> = requests(&log)
        .filter(|(_, request)| is_write(request))
        .map(|(user, request)| (user, action(request)))
        .collect();
    let missing: Vec<_> = expected.filter(|write| !writes.contains(write)).collect();
    let of_manager = writes.iter().filter(|(user, _)| *user == MANAGER);
    let unexpected: Vec<_> = of_manager.filter(|(_, action)| !OF_MANAGER.contains(&&**action)).collect();
    let all = lines(writes.iter().map(|(user, action)| format!("{user}: {action}")));
    assert!(missing.is_empty(), "missing: {missing:?} in\n{all}");
    assert!(unexpected.is_empty(), "written by the manager itself: {unexpected:?}");
}

#[tokio::test]
async fn each_controller_acts_as_its_own_account_and_nothing_is_forbidden() {
    let Some(cluster) = Cluster::start_audited().await else {
        return println!("skipped: KUBEBUILDER_ASSETS names no real API server");
    };
    let more = ["--controllers=*,bootstrapsigner,tokencleaner", "--terminated-pod-gc-threshold=1"];
    let user = User::of(&cluster);
    acts(&cluster, &more, WRITES, work(&user)).await;
}

#[tokio::test]
async fn controllers_of_nodes_volumes_devices_and_certificates_act_as_their_own_accounts() {
    let Some(cluster) = Cluster::start_audited().await else {
        return println!("skipped: KUBEBUILDER_ASSETS names no real API server");
    };
    let [certificate, key] = machines::authority(cluster.kubeconfig().parent().unwrap());
    let more = [
        "--controllers=*,bootstrapsigner,tokencleaner",
        "--node-monitor-grace-period=20s",
        "--node-startup-grace-period=20s",
        "--node-eviction-rate=10",
        "--allocate-node-cidrs",
        "--cluster-cidr=10.244.0.0/16",
        // kube-controller-manager cleans requests before its cache is filled, unless it starts its controllers late.
        "--controller-start-interval=3s",
        &certificate,
        &key,
    ];
    let user = User::of(&cluster);
    machines::old_request(&user).await;
    let work = async {
        let _nodes = LivingNodes::start(user.clone(), &["n1"]).await;
        machines::silent_node(&user).await;
        furniture::furnish(&user).await;
        machines::volumes(&user).await;
        machines::autoscaler(&user).await;
        machines::devices(&cluster, &user).await;
        machines::certificates(&user).await;
        machines::silence_is_noticed(&user).await;
    };
    acts(&cluster, &more, WRITES_OF_MACHINES, work).await;
}
