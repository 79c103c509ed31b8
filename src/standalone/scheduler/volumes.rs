//! Gets a pod's claims bound before the pod is.

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
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

/// Reads the pod's claims, and writes what binds those that wait for their first pod.
///
/// # Errors
/// Why the pod can't be bound.
pub(super) async fn settle(client: &kube::Client, pod: &Pod, node: &Node) -> Result<Claims, String> {
    let names = claims::names(pod);
    if names.is_empty() {
        return Ok(Claims::Bound);
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let of_namespace = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let (volumes, classes) = (Api::all(client.clone()), Api::<StorageClass>::all(client.clone()));
    let mut wanted = Vec::new();
    for (name, is_ephemeral) in names {
        let claim = of_namespace.get_opt(&name).await.map_err(failed)?;
        let spec = claim.as_ref().and_then(|claim| claim.spec.as_ref());
        let volume = spec.and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty());
        let class = claim.as_ref().map(claims::class_of).filter(|class| !class.is_empty());
        let class = match class {
            Some(class) if volume.is_none() => classes.get_opt(class).await.map_err(failed)?,
            _ => None,
        };
        let volume = match volume {
            Some(volume) => volumes.get_opt(volume).await.map_err(failed)?,
            None => None,
        };
        wanted.push(Wanted { name, is_ephemeral, claim, volume, class });
    }
    let free: Vec<PersistentVolume> = if wanted.iter().any(|one| one.class.is_some()) {
        volumes.list(&ListParams::default()).await.map_err(failed)?.items
    } else {
        Vec::new()
    };
    let steps = claims::plan(pod, node, &wanted, &free)?;
    if steps.is_empty() {
        return Ok(Claims::Bound);
    }
    for step in steps {
        let parameters = PatchParams::default();
        match step {
            Step::Reserve(volume, patch) => {
                volumes.patch(&volume, &parameters, &Patch::Merge(patch)).await.map(drop)
            }
            Step::Await(_) => Ok(()),
            Step::Select(claim, patch) => {
                of_namespace.patch(&claim, &parameters, &Patch::Merge(patch)).await.map(drop)
            }
        }
        .map_err(failed)?;
    }
    Ok(Claims::Binding)
}

fn failed(error: kube::Error) -> String {
    format!("running PreBind plugin \"VolumeBinding\": {}", told(&error))
}
