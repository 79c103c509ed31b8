//! StatefulSets whose pods have claims.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::Value;

use super::*;

/// Makes an object without namespace.
async fn make<K>(client: &kube::Client, object: Value)
where
    K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope, DynamicType = ()>,
    K: serde::de::DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
{
    let object = serde_json::from_value::<K>(object).unwrap();
    Api::<K>::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
}

/// The class of volumes that are made by hand, and are bound once a pod needs them.
async fn local_class(client: &kube::Client) {
    make::<StorageClass>(
        client,
        json!({
            "metadata": { "name": "local" }, "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }),
    )
    .await;
}

/// Members of the spec of a local volume that only the node `host` has.
fn local(path: &Path, host: &str) -> Value {
    let terms = json!([{ "matchExpressions": [
        { "key": "kubernetes.io/hostname", "operator": "In", "values": [host] } ] }]);
    json!({
        "local": { "path": path }, "storageClassName": "local",
        "nodeAffinity": { "required": { "nodeSelectorTerms": terms } },
    })
}

async fn volume(client: &kube::Client, name: &str, members: Value) {
    let mut spec = json!({
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
    });
    spec.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    make::<PersistentVolume>(client, json!({ "metadata": { "name": name }, "spec": spec })).await;
}

/// A set whose pods have a claim of that class, or of the default one, and that container.
async fn set(client: &kube::Client, name: &str, replicas: i32, class: Option<&str>, container: Value) {
    let labels = json!({ "app": name });
    let mut container = container;
    container["name"] = json!("a");
    container["image"] = json!("docker.io/library/busybox:1.36");
    container["imagePullPolicy"] = json!("IfNotPresent");
    container["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    let set = json!({
        "metadata": { "name": name },
        "spec": {
            "serviceName": name, "replicas": replicas, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "terminationGracePeriodSeconds": 1, "containers": [container] },
            },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": { "requests": { "storage": "1Gi" } },
            } }],
        },
    });
    let sets = Api::<StatefulSet>::default_namespaced(client.clone());
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
}

async fn until_ready(client: &kube::Client, name: &str, replicas: i32) {
    let sets = Api::<StatefulSet>::default_namespaced(client.clone());
    eventually(&format!("{name} has {replicas} pods that are ready"), || async {
        let status = sets.get(name).await.ok()?.status?;
        (status.ready_replicas == Some(replicas)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_pods_of_a_set_wait_for_volumes_of_their_node_and_then_run() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = Standalone::start(&data).await;
    let client = client(&data).await;
    local_class(&client).await;
    volume(&client, "elsewhere", local(Path::new("/none"), "another")).await;
    volume(&client, "here", local(Path::new("/none"), "n")).await;
    set(&client, "db", 2, Some("local"), json!({})).await;
    until_ready(&client, "db", 1).await;
    // The second has no volume yet, and says so.
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let message = eventually("the second pod says why it waits", || async {
        let status = pods.get("db-1").await.ok()?.status?;
        let mut conditions = status.conditions?.into_iter();
        conditions.find(|one| one.type_ == "PodScheduled" && one.status == "False")?.message
    })
    .await;
    let expected = "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.";
    assert_eq!(message, expected);
    volume(&client, "later", local(Path::new("/none"), "n")).await;
    until_ready(&client, "db", 2).await;
    let claims = Api::<PersistentVolumeClaim>::default_namespaced(client.clone());
    for (claim, volume) in [("data-db-0", "here"), ("data-db-1", "later")] {
        let claim = claims.get(claim).await.unwrap();
        assert_eq!(claim.spec.unwrap().volume_name.as_deref(), Some(volume));
    }
    assert!(all.stop().await.success());
}

#[tokio::test]
async fn a_claim_without_class_gets_a_folder_that_goes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = Standalone::start(&data).await;
    let client = client(&data).await;
    set(&client, "db", 1, None, json!({})).await;
    until_ready(&client, "db", 1).await;
    let claims = Api::<PersistentVolumeClaim>::default_namespaced(client.clone());
    let volumes = Api::<PersistentVolume>::all(client.clone());
    let claim = claims.get("data-db-0").await.unwrap();
    let name = claim.spec.unwrap().volume_name.unwrap();
    assert_eq!(name, format!("pvc-{}", claim.metadata.uid.unwrap()));
    let spec = volumes.get(&name).await.unwrap().spec.unwrap();
    let path = PathBuf::from(spec.local.unwrap().path);
    assert_eq!(path, data.join("volumes").join(format!("{name}_default_data-db-0")));
    std::fs::write(path.join("file"), "data").unwrap();
    let events = Api::<Event>::default_namespaced(client.clone());
    eventually("the claim's events say where the volume is from", || async {
        let all = events.list(&ListParams::default()).await.ok()?.items;
        let of_claim = all.iter().filter(|event| event.involved_object.name.as_deref() == Some("data-db-0"));
        let reasons: Vec<_> = of_claim.filter_map(|event| event.reason.as_deref()).collect();
        ["Provisioning", "ProvisioningSucceeded"].iter().all(|one| reasons.contains(one)).then_some(())
    })
    .await;

    // The claim outlives its set, and the data the next start.
    let sets = Api::<StatefulSet>::default_namespaced(client.clone());
    sets.delete("db", &DeleteParams::default()).await.unwrap();
    assert!(all.stop().await.success());
    let mut again = Standalone::start(&data).await;
    let client = super::client(&data).await;
    assert!(path.join("file").is_file());
    let claims = Api::<PersistentVolumeClaim>::default_namespaced(client.clone());
    claims.delete("data-db-0", &DeleteParams::default()).await.unwrap();
    let volumes = Api::<PersistentVolume>::all(client.clone());
    eventually("the volume is gone", || async { volumes.get_opt(&name).await.ok()?.is_none().then_some(()) })
        .await;
    assert!(!path.exists());
    assert!(again.stop().await.success());
}

/// Needs what `ordinary_pods_run_in_containers_and_a_second_start_finds_them_running` needs.
#[tokio::test]
async fn a_set_keeps_its_data_beyond_pods_and_restarts_in_containers() {
    let Some((endpoint, _)) = containers() else {
        println!("no container runtime and kubectl are named, or this is not root: not run");
        return;
    };
    let _alone = RUNTIME.lock().await;
    let folder = TemporaryFolder::create();
    let data = folder.path().join("data");
    let start = || {
        let mut command = command(&data);
        command.arg("--container-runtime-endpoint").arg(&endpoint);
        Standalone::start_as(command)
    };
    let mut all = start().await;
    let before = client(&data).await;
    local_class(&before).await;
    let (disk, host) = (folder.path().join("disk"), folder.path().join("host"));
    for folder in [&disk, &host] {
        std::fs::create_dir(folder).unwrap();
    }
    volume(&before, "disk", local(&disk, "n")).await;
    let by_hand = json!({ "hostPath": { "path": host, "type": "Directory" }, "storageClassName": "by-hand" });
    volume(&before, "host", by_hand).await;
    let writes = json!({ "command": ["sh", "-c", "echo started >>/data/log; exec sleep 1000"] });
    for (name, class) in [("on-disk", "local"), ("on-host", "by-hand")] {
        set(&before, name, 1, Some(class), writes.clone()).await;
    }
    for name in ["on-disk", "on-host"] {
        until_ready(&before, name, 1).await;
    }
    let lines = |folder: &Path| std::fs::read_to_string(folder.join("log")).unwrap().lines().count();
    assert_eq!((lines(&disk), lines(&host)), (1, 1));
    assert!(all.stop().await.success());

    // The containers run on meanwhile; the next start takes their volumes over.
    let mut again = start().await;
    let after = client(&data).await;
    let pods = Api::<Pod>::default_namespaced(after.clone());
    for name in ["on-disk", "on-host"] {
        let pod = format!("{name}-0");
        let uid = pods.get(&pod).await.unwrap().metadata.uid;
        pods.delete(&pod, &DeleteParams::default()).await.unwrap();
        eventually(&format!("{pod} is another pod"), || async {
            (pods.get(&pod).await.ok()?.metadata.uid != uid).then_some(())
        })
        .await;
        until_ready(&after, name, 1).await;
    }
    assert_eq!((lines(&disk), lines(&host)), (2, 2));
    let sets = Api::<StatefulSet>::default_namespaced(after.clone());
    sets.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    eventually("all pods are gone", || async {
        pods.list(&ListParams::default()).await.ok()?.items.is_empty().then_some(())
    })
    .await;
    assert_eq!((lines(&disk), lines(&host)), (2, 2));
    support::until("nothing of a pod is mounted", || {
        let pods = data.join("node/root/pods").display().to_string();
        !std::fs::read_to_string("/proc/self/mounts").unwrap().contains(&pods)
    })
    .await;
    assert!(again.stop().await.success());
    clear(&endpoint).await;
}
