//! Gets a pod's claims bound before the pod is.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde::de::DeserializeOwned;
use steersman_api::names;
use steersman_client::fault::told;

use super::claims::{self, Step, Wanted};

/// What a pod's claims allow.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claims {
    /// All are bound, or there are none.
    Bound,
    /// The binder, or a provisioner, is at work.
    Binding,
}

/// Reads the pod's claims, and starts the binding of those that wait for their first pod. `others` are the other pods on the
/// node.
///
/// # Errors
/// Why the pod can't be bound.
pub(super) async fn settle(
    client: &kube::Client,
    pod: &Pod,
    node: &Node,
    others: &[&Pod],
) -> Result<Claims, String> {
    let names = claims::names(pod);
    if names.is_empty() {
        return Ok(Claims::Bound);
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let of_namespace = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let (volumes, classes) = (Api::all(client.clone()), Api::<StorageClass>::all(client.clone()));
    let mut wanted = Vec::new();
    for (name, is_ephemeral) in names {
        let claim = read(&of_namespace, &name).await?;
        let spec = claim.as_ref().and_then(|claim| claim.spec.as_ref());
        let volume = spec.and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty());
        let class = claim.as_ref().map(claims::class_of).filter(|class| !class.is_empty());
        let class = match class {
            Some(class) if volume.is_none() => read(&classes, class).await?,
            _ => None,
        };
        let volume = match volume {
            Some(volume) => read(&volumes, volume).await?,
            None => None,
        };
        wanted.push(Wanted { name, is_ephemeral, claim, volume, class });
    }
    let free: Vec<PersistentVolume> = if wanted.iter().any(|one| one.class.is_some()) {
        volumes.list(&ListParams::default()).await.map_err(failed)?.items
    } else {
        Vec::new()
    };
    let steps = claims::plan(pod, node, others, &wanted, &free)?;
    if steps.is_empty() {
        return Ok(Claims::Bound);
    }
    for step in steps {
        let parameters = PatchParams::default();
        match step {
            Step::Reserve(volume, patch) => {
                volumes.patch(&volume, &parameters, &Patch::Merge(patch)).await.map(drop)
            }
            Step::Await(_) | Step::AwaitProvisioner(_) => Ok(()),
            Step::Select(claim, patch) => {
                of_namespace.patch(&claim, &parameters, &Patch::Merge(patch)).await.map(drop)
            }
        }
        .map_err(failed)?;
    }
    Ok(Claims::Binding)
}

/// Reads the object of that name; `None` if there is none. The name comes from a user: in a path, one that no object can have
/// might lead to another object.
async fn read<K: Clone + DeserializeOwned + Debug>(api: &Api<K>, name: &str) -> Result<Option<K>, String> {
    if !names::subdomain(name).is_empty() {
        return Ok(None);
    }
    api.get_opt(name).await.map_err(failed)
}

fn failed(error: kube::Error) -> String {
    format!("running PreBind plugin \"VolumeBinding\": {}", told(&error))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use http_body_util::Full;
    use hyper::body::Bytes;
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;

    /// What becomes of a pod with this claim, and the paths that the API server is asked for. It answers with `claim`.
    async fn settled(name: &str, claim: Value) -> (Result<Claims, String>, Vec<String>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            seen.lock().push(request.uri().to_string());
            let claim = claim.to_string();
            async move { Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(claim)))) }
        });
        let client = kube::Client::new(service, "default");
        let volumes = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": name } }]);
        let pod = json!({ "metadata": { "name": "p", "namespace": "d" }, "spec": { "containers": [], "volumes": volumes } });
        let (pod, node) = (serde_json::from_value(pod).unwrap(), Node::default());
        let outcome = settle(&client, &pod, &node, &[]).await;
        let asked = asked.lock().clone();
        (outcome, asked)
    }

    #[tokio::test]
    async fn a_name_that_no_object_can_have_is_not_put_into_a_path() {
        let refused = |why: &str| Err(format!("0/1 nodes are available: {why}."));
        for name in ["../../pods/p", "..", "c?x=1", "c%2fd"] {
            let (outcome, asked) = settled(name, json!({})).await;
            assert_eq!(outcome, refused(&format!("persistentvolumeclaim {name:?} not found")));
            assert!(asked.is_empty(), "{asked:?}");
        }
        let of_claim = ["/api/v1/namespaces/d/persistentvolumeclaims/c"];
        let meta = json!({ "name": "c", "namespace": "d", "annotations": { "pv.kubernetes.io/bind-completed": "yes" } });
        let (outcome, asked) =
            settled("c", json!({ "metadata": meta, "spec": { "volumeName": "../namespaces/d/secrets/s" } }))
                .await;
        let missing = "1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
        assert_eq!((outcome, &*asked), (refused(missing), &of_claim.map(str::to_owned)[..]));
        let (outcome, asked) =
            settled("c", json!({ "metadata": meta, "spec": { "storageClassName": "../csidrivers/d" } }))
                .await;
        let unbound = "pod has unbound immediate PersistentVolumeClaims";
        assert_eq!((outcome, &*asked), (refused(unbound), &of_claim.map(str::to_owned)[..]));
    }
}
