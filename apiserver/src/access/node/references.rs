//! What pods and volumes name. Pure. The lists are upstream's.

use serde_json::Value;

use crate::object::{at, list_at, str_at, text_at};

/// Kinds that pods name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    Secret,
    ConfigMap,
    /// A PersistentVolumeClaim.
    Claim,
    /// A ResourceClaim.
    DeviceClaim,
    /// A ServiceAccount.
    Account,
}

/// Where containers are in a pod.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

impl Named {
    /// Where its name is in a container.
    fn in_containers(self) -> &'static [&'static str] {
        match self {
            Self::Secret => &["env.valueFrom.secretKeyRef.name", "envFrom.secretRef.name"],
            Self::ConfigMap => &["env.valueFrom.configMapKeyRef.name", "envFrom.configMapRef.name"],
            Self::Claim | Self::DeviceClaim | Self::Account => &[],
        }
    }

    /// Where its name is in a pod's spec.
    fn in_spec(self) -> &'static [&'static str] {
        match self {
            Self::Secret => &[
                "imagePullSecrets.name",
                "volumes.azureFile.secretName",
                "volumes.cephfs.secretRef.name",
                "volumes.cinder.secretRef.name",
                "volumes.csi.nodePublishSecretRef.name",
                "volumes.flexVolume.secretRef.name",
                "volumes.iscsi.secretRef.name",
                "volumes.projected.sources.secret.name",
                "volumes.rbd.secretRef.name",
                "volumes.scaleIO.secretRef.name",
                "volumes.secret.secretName",
                "volumes.storageos.secretRef.name",
            ],
            Self::ConfigMap => &["volumes.configMap.name", "volumes.projected.sources.configMap.name"],
            Self::Claim => &["volumes.persistentVolumeClaim.claimName"],
            Self::DeviceClaim => &["resourceClaims.resourceClaimName"],
            Self::Account => &["serviceAccountName"],
        }
    }

    /// Where its name is in a pod's status.
    fn in_status(self) -> &'static [&'static str] {
        match self {
            Self::DeviceClaim => {
                &["resourceClaimStatuses.resourceClaimName", "extendedResourceClaimStatus.resourceClaimName"]
            }
            Self::Secret | Self::ConfigMap | Self::Claim | Self::Account => &[],
        }
    }
}

/// Whether a pod names an object of that kind.
pub(super) fn names(pod: &Value, kind: Named, name: &str) -> bool {
    let mut all = all(pod, kind).into_iter();
    let ephemeral = kind == Named::Claim && ephemeral_claims(pod).any(|claim| claim == name);
    !name.is_empty() && (ephemeral || all.any(|named| named == name))
}

/// Whether a pod names any object of that kind.
pub(crate) fn is_any(pod: &Value, kind: Named) -> bool {
    all(pod, kind).iter().any(|named| !named.is_empty())
}

/// The names of the PersistentVolumeClaims of a pod's volumes.
pub(crate) fn claims(pod: &Value) -> Vec<String> {
    let named = all(pod, Named::Claim).into_iter().map(str::to_owned);
    named.chain(ephemeral_claims(pod)).collect()
}

/// Whether a volume of a pod is filled with a token for that audience; the empty one is the API server.
pub(crate) fn mounts_token_for(pod: &Value, audience: &str) -> bool {
    let volumes = list_at(pod, "spec.volumes").iter();
    let sources = volumes.flat_map(|volume| list_at(volume, "projected.sources"));
    let mut tokens = sources.filter_map(|source| at(source, "serviceAccountToken"));
    tokens.any(|token| text_at(token, "audience") == audience)
}

fn all(pod: &Value, kind: Named) -> Vec<&str> {
    let mut found = Vec::new();
    let spec = &pod["spec"];
    for path in kind.in_spec() {
        collect(spec, path, &mut found);
    }
    for containers in CONTAINERS {
        for path in kind.in_containers() {
            collect(&spec[containers], path, &mut found);
        }
    }
    for path in kind.in_status() {
        collect(&pod["status"], path, &mut found);
    }
    found
}

/// The texts at a path of member names, in all elements of the lists on the way.
fn collect<'a>(value: &'a Value, path: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Array(elements) => elements.iter().for_each(|element| collect(element, path, found)),
        Value::Object(members) => {
            let (member, rest) = path.split_once('.').unwrap_or((path, ""));
            if let Some(inner) = members.get(member) {
                collect(inner, rest, found);
            }
        }
        Value::String(text) if path.is_empty() => found.push(text),
        _ => {}
    }
}

/// The claims that are made for a pod's volumes.
fn ephemeral_claims(pod: &Value) -> impl Iterator<Item = String> {
    let volumes = list_at(pod, "spec.volumes").iter();
    let pod = text_at(pod, "metadata.name");
    let ephemeral = volumes.filter(|volume| volume.get("ephemeral").is_some_and(Value::is_object));
    ephemeral.map(move |volume| format!("{pod}-{}", text_at(volume, "name")))
}

/// The namespace and the name of the claim that a volume is for.
pub(super) fn claimed_by(volume: &Value) -> Option<(&str, &str)> {
    Some((str_at(volume, "spec.claimRef.namespace")?, str_at(volume, "spec.claimRef.name")?))
}

/// Namespaces and names of the Secrets that a volume needs on its node.
pub(super) fn secrets_of_volume<'a>(volume: &'a Value) -> Vec<(&'a str, &'a str)> {
    /// Sources whose Secrets are in the claim's namespace unless they say otherwise.
    const IN_CLAIMS_NAMESPACE: [&str; 5] =
        ["cephfs.secretRef", "flexVolume.secretRef", "rbd.secretRef", "scaleIO.secretRef", "iscsi.secretRef"];
    /// Those whose Secrets are where they say.
    const ELSEWHERE: [&str; 5] = [
        "cinder.secretRef",
        "storageos.secretRef",
        "csi.nodePublishSecretRef",
        "csi.nodeStageSecretRef",
        "csi.nodeExpandSecretRef",
    ];
    let spec = &volume["spec"];
    let of_claim = str_at(spec, "claimRef.namespace").unwrap_or_default();
    let named = |path: &str, name: &str, namespace: &str, otherwise: &'a str| {
        let source = at(spec, path)?;
        let namespace = str_at(source, namespace).filter(|namespace| !namespace.is_empty());
        Some((namespace.unwrap_or(otherwise), str_at(source, name)?))
    };
    let azure = named("azureFile", "secretName", "secretNamespace", of_claim);
    let of_claims = IN_CLAIMS_NAMESPACE.iter().map(|path| named(path, "name", "namespace", of_claim));
    let elsewhere = ELSEWHERE.iter().map(|path| named(path, "name", "namespace", ""));
    azure.into_iter().chain(of_claims.chain(elsewhere).flatten()).collect()
}
