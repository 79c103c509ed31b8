//! Objects of all the kinds that the managers look after, each in a state in which nothing is left to do.

use serde_json::{Value, json};

use support::identities::ACCOUNT_NAME;
use support::user::{User, items, template, workload};

/// Creates them, and waits until the managers have done what there is to do.
pub(super) async fn furnish(user: &User) {
    applications(user).await;
    jobs(user).await;
    services(user).await;
    identities(user).await;
    owners(user).await;
    volumes(user).await;
    devices(user).await;
}

async fn applications(user: &User) {
    user.create(
        "api/v1/*/resourcequotas",
        json!({"metadata": {"name": "quota"}, "spec": {"hard": {"pods": "100", "services": "20", "count/jobs.batch": "20"}}}),
    )
    .await;
    // The admission of pods refuses them until the quota is counted.
    user.sees("the quota is counted", "api/v1/*/resourcequotas/quota", |quota| {
        quota["status"]["used"]["pods"].is_string()
    })
    .await;
    user.create("apis/apps/v1/*/deployments", workload("web", json!({"replicas": 2}))).await;
    user.create("apis/apps/v1/*/deployments", workload("paused", json!({"replicas": 1, "paused": true})))
        .await;
    user.create("apis/apps/v1/*/replicasets", workload("rs", json!({"replicas": 2, "minReadySeconds": 1})))
        .await;
    user.create(
        "api/v1/*/replicationcontrollers",
        json!({"metadata": {"name": "rc"}, "spec": {"replicas": 1, "selector": {"app": "rc"}, "template": template("rc")}}),
    )
    .await;
    user.create("apis/apps/v1/*/daemonsets", workload("daemon", json!({}))).await;
    for (name, field, app) in [("min", "minAvailable", "web"), ("max", "maxUnavailable", "rs")] {
        let spec = json!({field: 1, "selector": {"matchLabels": {"app": app}}});
        user.create(
            "apis/policy/v1/*/poddisruptionbudgets",
            json!({"metadata": {"name": name}, "spec": spec}),
        )
        .await;
    }
    user.create("apis/autoscaling/v2/*/horizontalpodautoscalers", json!({
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 4,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    }))
    .await;

    let available = |count: u64| move |object: &Value| object["status"]["availableReplicas"] == count;
    user.sees("the Deployment is available", "apis/apps/v1/*/deployments/web", available(2)).await;
    // A second revision, and with it an old ReplicaSet of no pods.
    let template = json!({"template": {"metadata": {"annotations": {"revision": "two"}}}});
    user.patch("apis/apps/v1/*/deployments/web", json!({"spec": template})).await;
    user.sees("the second revision is out", "apis/apps/v1/*/deployments/web", |web| {
        let status = &web["status"];
        status["observedGeneration"] == 2 && status["updatedReplicas"] == 2 && status["replicas"] == 2
    })
    .await;
    user.sees("the ReplicaSet is available", "apis/apps/v1/*/replicasets/rs", available(2)).await;
    user.sees("the daemon is available", "apis/apps/v1/*/daemonsets/daemon", |set| {
        set["status"]["numberAvailable"] == 1
    })
    .await;
    user.sees("the autoscaler has tried", "apis/autoscaling/v2/*/horizontalpodautoscalers/web", |scaler| {
        scaler["status"]["conditions"].as_array().is_some_and(|conditions| conditions.len() >= 2)
    })
    .await;
}

async fn jobs(user: &User) {
    let job = |name: &str, ends: Option<&str>, more: Value| {
        let mut spec = json!({"template": template(name)});
        spec["template"]["spec"]["restartPolicy"] = json!("Never");
        if let Some(ends) = ends {
            spec["template"]["metadata"]["labels"]["ends"] = json!(ends);
        }
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"metadata": {"name": name}, "spec": spec})
    };
    for job in [
        job("runs", None, json!({"parallelism": 2, "completions": 3})),
        job("done", Some("Succeeded"), json!({"ttlSecondsAfterFinished": 36000})),
        job("indexed", Some("Succeeded"), json!({"completions": 2, "completionMode": "Indexed"})),
        job("fails", Some("Failed"), json!({"backoffLimit": 0})),
        job("suspended", None, json!({"suspend": true})),
    ] {
        user.create("apis/batch/v1/*/jobs", job).await;
    }
    let cron =
        json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job("cron", None, json!({}))["spec"]}});
    user.create("apis/batch/v1/*/cronjobs", json!({"metadata": {"name": "yearly"}, "spec": cron})).await;
    for (name, condition) in
        [("done", "Complete"), ("indexed", "Complete"), ("fails", "Failed"), ("suspended", "Suspended")]
    {
        user.sees(&format!("{name} is {condition}"), &format!("apis/batch/v1/*/jobs/{name}"), |job| {
            let conditions = job["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().any(|one| one["type"] == condition))
        })
        .await;
    }
    user.sees("the job runs", "apis/batch/v1/*/jobs/runs", |job| job["status"]["ready"] == 2).await;
}

async fn services(user: &User) {
    let service = |name: &str, spec: Value| {
        let mut spec = spec;
        spec["ports"] = json!([{"port": 80}]);
        json!({"metadata": {"name": name}, "spec": spec})
    };
    for service in [
        service("web", json!({"selector": {"app": "web"}})),
        service("headless", json!({"selector": {"app": "rs"}, "clusterIP": "None"})),
        service("empty", json!({"selector": {"app": "nobody"}})),
        service("outside", json!({})),
    ] {
        user.create("api/v1/*/services", service).await;
    }
    user.create("api/v1/*/endpoints", json!({
        "metadata": {"name": "outside"}, "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
    }))
    .await;
    for service in ["web", "headless", "empty", "outside"] {
        let path = format!(
            "apis/discovery.k8s.io/v1/*/endpointslices?labelSelector=kubernetes.io/service-name%3D{service}"
        );
        user.sees(&format!("{service} has a slice"), &path, |slices| !items(slices).is_empty()).await;
    }
    user.create(
        "apis/networking.k8s.io/v1/servicecidrs",
        json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.77.0.0/24"]}}),
    )
    .await;
}

async fn identities(user: &User) {
    let roles = "apis/rbac.authorization.k8s.io/v1/clusterroles";
    let part = json!({"metadata": {"name": "part", "labels": {"part-of": "sum"}}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    user.create(roles, part).await;
    let selector = json!({"clusterRoleSelectors": [{"matchLabels": {"part-of": "sum"}}]});
    user.create(roles, json!({"metadata": {"name": "sum"}, "rules": [], "aggregationRule": selector})).await;
    user.sees("the role is aggregated", &format!("{roles}/sum"), |role| role["rules"][0].is_object()).await;
    user.create("api/v1/*/secrets", json!({
        "metadata": {"name": "token", "annotations": {ACCOUNT_NAME: "default"}}, "type": "kubernetes.io/service-account-token",
    }))
    .await;
    user.sees("the Secret has a token", "api/v1/*/secrets/token", |secret| {
        secret["data"]["token"].is_string()
    })
    .await;
    let info = json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "clusters: []"}});
    user.create("api/v1/namespaces/kube-public/configmaps", info).await;
    let token = json!({
        "token-id": "abcdef", "token-secret": "0123456789abcdef", "expiration": "2099-01-01T00:00:00Z", "usage-bootstrap-signing": "true",
    });
    user.create("api/v1/namespaces/kube-system/secrets", json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token", "stringData": token,
    }))
    .await;
    user.sees("cluster-info is signed", "api/v1/namespaces/kube-public/configmaps/cluster-info", |info| {
        info["data"]["jws-kubeconfig-abcdef"].is_string()
    })
    .await;
}

/// An owner that waits for a dependent which a finalizer holds.
async fn owners(user: &User) {
    let owner = user.create("api/v1/*/configmaps", json!({"metadata": {"name": "owner"}})).await;
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
    });
    let held = json!({"metadata": {"name": "held", "ownerReferences": [reference], "finalizers": ["example.com/held"]}});
    user.create("api/v1/*/configmaps", held).await;
    user.delete("api/v1/*/configmaps/owner", "Foreground").await;
    user.sees("the dependent is being deleted", "api/v1/*/configmaps/held", |held| {
        held["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
}

async fn volumes(user: &User) {
    let size = json!({"storage": "1Gi"});
    let volume = |name: &str, class: &str, source: Value| {
        let mut spec = json!({
            "capacity": size, "accessModes": ["ReadWriteOnce"], "storageClassName": class, "persistentVolumeReclaimPolicy": "Retain",
        });
        spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let claim = |name: &str, class: &str| {
        json!({"metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "storageClassName": class,
        }})
    };
    let path = |name: &str| json!({"hostPath": {"path": format!("/tmp/{name}")}});
    let classes = "apis/storage.k8s.io/v1/storageclasses";
    user.create(classes, json!({"metadata": {"name": "outside"}, "provisioner": "example.com/disks"})).await;
    user.create(classes, json!({
        "metadata": {"name": "late"}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    }))
    .await;
    for (name, class) in
        [("one", "one"), ("two", "two"), ("let-go", "let-go"), ("set", "set"), ("unused", "unused")]
    {
        user.create("api/v1/persistentvolumes", volume(name, class, path(name))).await;
    }
    let disk = json!({"csi": {"driver": "example.com", "volumeHandle": "disk"}});
    user.create("api/v1/persistentvolumes", volume("disk", "disk", disk)).await;
    for name in ["one", "two", "let-go", "disk", "outside", "late", "none"] {
        user.create("api/v1/*/persistentvolumeclaims", claim(name, name)).await;
    }
    for name in ["one", "two", "let-go", "disk"] {
        bound(user, name).await;
    }
    let pod = |name: &str, volume: Value, labels: Value| {
        let mut pod = json!({"metadata": {"name": name, "labels": labels}, "spec": template(name)["spec"]});
        pod["spec"]["volumes"] = json!([volume]);
        pod
    };
    let of_claim = |claim: &str| json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    user.create("api/v1/*/pods", pod("uses-one", of_claim("one"), json!({}))).await;
    user.create("api/v1/*/pods", pod("uses-disk", of_claim("disk"), json!({}))).await;
    let ephemeral =
        json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim("e", "late")["spec"]}}});
    user.create("api/v1/*/pods", pod("ephemeral", ephemeral, json!({"unbound": ""}))).await;
    user.create(
        "apis/apps/v1/*/statefulsets",
        workload(
            "set",
            json!({
                "replicas": 1, "serviceName": "headless", "volumeClaimTemplates": [claim("data", "set")],
            }),
        ),
    )
    .await;
    user.sees("the ephemeral volume has a claim", "api/v1/*/persistentvolumeclaims/ephemeral-v", |_| true)
        .await;
    user.sees("the StatefulSet is available", "apis/apps/v1/*/statefulsets/set", |set| {
        set["status"]["availableReplicas"] == 1
    })
    .await;
    bound(user, "data-set-0").await;

    // A claim that its pod holds, and a volume whose claim is gone.
    user.sees("the pod runs", "api/v1/*/pods/uses-one", |pod| pod["status"]["phase"] == "Running").await;
    user.delete("api/v1/*/persistentvolumeclaims/one", "Background").await;
    user.delete("api/v1/*/persistentvolumeclaims/let-go", "Background").await;
    user.sees("the volume is let go", "api/v1/persistentvolumes/let-go", |volume| {
        volume["status"]["phase"] == "Released"
    })
    .await;

    // Plays the driver and the kubelet of the disk.
    let attachments = "apis/storage.k8s.io/v1/volumeattachments";
    let all = user.sees("the disk is to be attached", attachments, |all| !items(all).is_empty()).await;
    let name = items(&all)[0]["metadata"]["name"].as_str().unwrap();
    user.patch(&format!("{attachments}/{name}/status"), json!({"status": {"attached": true}})).await;
    user.patch(
        "api/v1/nodes/n1/status",
        json!({"status": {"volumesInUse": ["kubernetes.io/csi/example.com^disk"]}}),
    )
    .await;
    user.sees("the node's disk is attached", "api/v1/nodes/n1", |node| {
        node["status"]["volumesAttached"][0].is_object()
    })
    .await;
    user.create(
        "apis/storage.k8s.io/v1/volumeattributesclasses",
        json!({
            "metadata": {"name": "gold"}, "driverName": "example.com", "parameters": {"iops": "10"},
        }),
    )
    .await;
    user.sees("the class is protected", "apis/storage.k8s.io/v1/volumeattributesclasses/gold", |class| {
        class["metadata"]["finalizers"][0].is_string()
    })
    .await;
}

async fn bound(user: &User, claim: &str) {
    let path = format!("api/v1/*/persistentvolumeclaims/{claim}");
    user.sees(&format!("{claim} is bound"), &path, |claim| claim["status"]["phase"] == "Bound").await;
}

async fn devices(user: &User) {
    let request = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}});
    user.create(
        "apis/resource.k8s.io/v1/*/resourceclaimtemplates",
        json!({"metadata": {"name": "gpu"}, "spec": {"spec": request}}),
    )
    .await;
    let mut pod = json!({"metadata": {"name": "computes", "labels": {"unbound": ""}}, "spec": template("computes")["spec"]});
    pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "gpu"}]);
    user.create("api/v1/*/pods", pod).await;
    user.sees("the pod has a claim", "api/v1/*/pods/computes", |pod| {
        pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].is_string()
    })
    .await;
}
