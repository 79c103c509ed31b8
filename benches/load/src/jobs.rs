//! Jobs.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::waiting::{name, until};
use crate::workloads::namespaces;
use crate::{Error, report};

/// How many calls are under way at a time.
const AT_ONCE: usize = 8;

/// Creates Jobs, waits until all are complete, and prints how long that took. The simulated nodes let their pods succeed.
pub(crate) async fn run(
    client: &Client,
    count: usize,
    completions: usize,
    parallelism: usize,
) -> Result<(), Error> {
    let resource = ApiResource {
        group: "batch".into(),
        version: "v1".into(),
        api_version: "batch/v1".into(),
        kind: "Job".into(),
        plural: "jobs".into(),
    };
    let namespace = namespaces(client, 1).await?.remove(0);
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &resource);
    let begun = Instant::now();
    let created = stream::iter(0..count).map(|_| {
        let job = serde_json::from_value(manifest(completions, parallelism));
        let job = job.expect("the manifest must be an object");
        let api = api.clone();
        async move { api.create(&PostParams::default(), &job).await.map(|job| name(&job)) }
    });
    let names: BTreeSet<String> = created.buffer_unordered(AT_ONCE).try_collect().await?;
    until(client, &resource, names, is_complete).await?;
    report(&format!("{count} jobs of {completions} completions, created to complete: {:?}", begun.elapsed()));
    Ok(())
}

fn manifest(completions: usize, parallelism: usize) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "generateName": "job-" },
        "spec": {
            "completions": completions, "parallelism": parallelism,
            "template": { "spec": {
                "restartPolicy": "Never", "containers": [{ "name": "main", "image": "busybox" }],
            } },
        },
    })
}

fn is_complete(job: &DynamicObject) -> bool {
    let conditions = job.data["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|is| is["type"] == "Complete" && is["status"] == "True")
}
