//! Pods act on behalf of service accounts, and find a token of theirs (upstream's plugin `ServiceAccount`).

use serde_json::{Value, json};

use super::ROOT_CA;
use crate::meta::is_mirror;
use crate::names;
use crate::object::{self, at, list_at, members_at, str_at, text_at};

/// The account of pods that name none.
pub(super) const DEFAULT: &str = "default";
/// What volumes with a token are called; something random follows.
const VOLUME: &str = "kube-api-access-";
/// Where containers look for the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How long a token is good for, in seconds: upstream's odd number, by which such tokens are known.
const EXPIRATION: i64 = 3607;
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// What there is in a pod's namespace.
pub(super) struct Found<'a> {
    /// The account that the pod names, or the default one.
    pub(super) account: Option<&'a Value>,
    /// Whether there is the authority that goes with the token.
    pub(super) authority: bool,
}

/// Gives a new pod its account, and its containers a token.
///
/// Where nobody makes default accounts, or publishes the authority, pods that ask for neither run without: upstream
/// refuses them.
///
/// # Errors
/// The pod may not be, for that reason.
pub(super) fn admit(pod: &mut Value, namespace: &str, found: &Found<'_>) -> Result<(), String> {
    if is_mirror(pod) {
        return admit_mirror(pod);
    }
    let named = text_at(pod, "spec.serviceAccountName");
    let mounts = at(pod, "spec.automountServiceAccountToken").and_then(Value::as_bool);
    let indifferent = named.is_empty() && mounts != Some(true);
    let name = if named.is_empty() { DEFAULT.to_owned() } else { named };
    let spec = members_at(pod, "spec");
    for member in ["serviceAccountName", "serviceAccount"] {
        spec.insert(member.to_owned(), name.as_str().into());
    }
    let Some(account) = found.account else {
        if indifferent {
            return Ok(());
        }
        return Err(format!(
            "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
        ));
    };
    let wanted = mounts
        .or_else(|| at(account, "automountServiceAccountToken").and_then(Value::as_bool))
        .unwrap_or(true);
    if wanted && (found.authority || !indifferent) {
        mount_token(pod);
    }
    if list_at(pod, "spec.imagePullSecrets").is_empty() {
        let secrets = list_at(account, "imagePullSecrets").iter();
        let secrets: Vec<Value> = secrets.map(|secret| json!({"name": text_at(secret, "name")})).collect();
        if !secrets.is_empty() {
            members_at(pod, "spec").insert("imagePullSecrets".to_owned(), secrets.into());
        }
    }
    let enforce =
        at(account, "metadata.annotations").and_then(|all| all.get(ENFORCE)).and_then(Value::as_str);
    match enforce {
        Some("1" | "t" | "T" | "true" | "True" | "TRUE") => limit_secrets(pod, account, &name),
        _ => Ok(()),
    }
}

/// What a node shows of a pod of its own has no business with the API.
fn admit_mirror(pod: &Value) -> Result<(), String> {
    let spec = &pod["spec"];
    if !text_at(spec, "serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts".to_owned());
    }
    let of_volume = |volume: &Value| {
        let sources = volume.as_object().into_iter().flatten().map(|(_, source)| source);
        let mut sources = sources.filter(|source| source.is_object());
        let projected = list_at(volume, "projected.sources");
        sources.any(|source| {
            ["secretName", "secretRef", "nodePublishSecretRef"]
                .iter()
                .any(|member| source.get(*member).is_some())
        }) || projected.iter().any(|source| source.get("secret").is_some())
    };
    let of_container = |container: &Value| {
        let env = list_at(container, "env").iter();
        env.map(|env| at(env, "valueFrom.secretKeyRef")).any(|secret| secret.is_some())
            || list_at(container, "envFrom").iter().any(|env| env.get("secretRef").is_some())
    };
    let volumes = list_at(spec, "volumes");
    if !list_at(spec, "imagePullSecrets").is_empty()
        || volumes.iter().any(of_volume)
        || all_containers(spec).any(|(_, container)| of_container(container))
    {
        return Err("a mirror pod may not reference secrets".to_owned());
    }
    let mut projected = volumes.iter().flat_map(|volume| list_at(volume, "projected.sources"));
    if projected.any(|source| source.get("serviceAccountToken").is_some()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections".to_owned());
    }
    Ok(())
}

/// Init containers, and containers.
fn all_containers(spec: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    let of = |what, list| list_at(spec, list).iter().map(move |container| (what, container));
    of("init container", "initContainers").chain(of("container", "containers"))
}

/// Gives a token to each container that has nothing else in its place.
fn mount_token(pod: &mut Value) {
    let volumes = list_at(pod, "spec.volumes").iter();
    let mut own = volumes.filter_map(|volume| str_at(volume, "name")).filter(|name| name.starts_with(VOLUME));
    let own = own.next().map(str::to_owned);
    let volume = own.clone().unwrap_or_else(|| names::generate(VOLUME));
    let mount = json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH});
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        let containers = members_at(pod, "spec").get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if list_at(container, "volumeMounts").iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            let mounts = object::members(container).entry("volumeMounts").or_insert_with(|| json!([]));
            if let Some(mounts) = mounts.as_array_mut() {
                mounts.push(mount.clone());
                mounted = true;
            }
        }
    }
    if own.is_some() || !mounted {
        return;
    }
    let volumes = members_at(pod, "spec").entry("volumes").or_insert_with(|| json!([]));
    if let Some(volumes) = volumes.as_array_mut() {
        volumes.push(json!({"name": volume, "projected": token_source()}));
    }
}

fn token_source() -> Value {
    let namespace = json!({
        "path": "namespace",
        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
    });
    json!({
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": EXPIRATION, "path": "token"}},
            {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
    })
}

/// Pods of some accounts may have the secrets only that the account names.
fn limit_secrets(pod: &Value, account: &Value, name: &str) -> Result<(), String> {
    let spec = &pod["spec"];
    let is_among = |list: &str, secret: &str| list_at(account, list).iter().any(|of| of["name"] == secret);
    let refused = |what: String, secret: &str| {
        Err(format!(
            "{what} secret.secretName={secret:?} is not allowed because service account {name} does not reference that \
             secret"
        ))
    };
    for volume in list_at(spec, "volumes").iter().filter_map(|volume| str_at(volume, "secret.secretName")) {
        if !is_among("secrets", volume) {
            return refused("volume with".to_owned(), volume);
        }
    }
    for (what, container) in all_containers(spec) {
        let called = text_at(container, "name");
        for env in list_at(container, "env") {
            let secret =
                str_at(env, "valueFrom.secretKeyRef.name").filter(|secret| !is_among("secrets", secret));
            if let Some(secret) = secret {
                let variable = text_at(env, "name");
                return refused(format!("{what} {called} with envVar {variable} referencing"), secret);
            }
        }
        for env in list_at(container, "envFrom") {
            let secret = str_at(env, "secretRef.name").filter(|secret| !is_among("secrets", secret));
            if let Some(secret) = secret {
                return refused(format!("{what} {called} with envFrom referencing"), secret);
            }
        }
    }
    for (at, secret) in list_at(spec, "imagePullSecrets").iter().enumerate() {
        let secret = text_at(secret, "name");
        if !is_among("imagePullSecrets", &secret) {
            return Err(format!(
                "imagePullSecrets[{at}].name={secret:?} is not allowed because service account {name} does not \
                 reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: Value) -> Value {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}});
        object::members(&mut pod["spec"]).extend(spec.as_object().cloned().unwrap_or_default());
        pod
    }

    /// The pod as it is admitted.
    fn admitted(spec: Value, account: Option<Value>, authority: bool) -> Result<Value, String> {
        let mut pod = pod(spec);
        admit(&mut pod, "ns", &Found { account: account.as_ref(), authority })?;
        Ok(pod)
    }

    /// Which containers have a token.
    fn with_token(pod: &Value) -> Vec<String> {
        let of = |container: &Value| {
            list_at(container, "volumeMounts").iter().any(|mount| text_at(mount, "name").starts_with(VOLUME))
        };
        all_containers(&pod["spec"])
            .filter(|(_, container)| of(container))
            .map(|(_, container)| text_at(container, "name"))
            .collect()
    }

    #[test]
    fn each_container_finds_a_token_of_the_default_account() {
        let mut pod =
            pod(json!({"initContainers": [{"name": "i"}], "volumes": [{"name": "v", "emptyDir": {}}]}));
        admit(&mut pod, "ns", &Found { account: Some(&json!({})), authority: true }).unwrap();
        assert_eq!(pod["spec"]["serviceAccountName"], "default");
        assert_eq!(pod["spec"]["serviceAccount"], "default");
        assert_eq!(with_token(&pod), ["i", "a"]);
        let volume = &pod["spec"]["volumes"][1];
        let name = volume["name"].as_str().unwrap();
        assert_eq!(name.len(), VOLUME.len() + 5, "{name}");
        assert_eq!(volume["projected"], token_source());
        let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
        assert_eq!(pod["spec"]["containers"][0]["volumeMounts"], json!([mount]));
        assert!(pod["spec"].get("imagePullSecrets").is_none());
    }

    #[test]
    fn what_the_pod_says_of_the_token_goes_before_what_the_account_says() {
        let without = json!({"automountServiceAccountToken": false});
        for (spec, account, mounts) in [
            (json!({}), without.clone(), false),
            (json!({"automountServiceAccountToken": true}), without, true),
            (json!({"automountServiceAccountToken": false}), json!({}), false),
        ] {
            let pod = admitted(spec.clone(), Some(account), true).unwrap();
            assert_eq!(!with_token(&pod).is_empty(), mounts, "{spec}");
        }
    }

    #[test]
    fn what_is_mounted_there_already_stays() {
        let own =
            json!({"containers": [{"name": "a", "volumeMounts": [{"name": "v", "mountPath": MOUNT_PATH}]}]});
        let pod = admitted(own.clone(), Some(json!({})), true).unwrap();
        assert_eq!(pod["spec"]["containers"], own["containers"]);
        assert!(pod["spec"].get("volumes").is_none());
        let volume = json!([{"name": "kube-api-access-mine", "emptyDir": {}}]);
        let pod = admitted(json!({"volumes": volume}), Some(json!({})), true).unwrap();
        assert_eq!(pod["spec"]["volumes"], volume);
        assert_eq!(pod["spec"]["containers"][0]["volumeMounts"][0]["name"], "kube-api-access-mine");
    }

    #[test]
    fn a_pod_that_asks_for_no_account_runs_where_nobody_makes_any() {
        for (account, authority) in [(None, true), (None, false), (Some(json!({})), false)] {
            let pod = admitted(json!({}), account, authority).unwrap();
            assert_eq!(pod["spec"]["serviceAccountName"], "default");
            assert_eq!(with_token(&pod), [""; 0]);
        }
        let why = "error looking up service account ns/x: serviceaccount \"x\" not found";
        assert_eq!(admitted(json!({"serviceAccountName": "x"}), None, true).unwrap_err(), why);
        let asks = json!({"automountServiceAccountToken": true});
        admitted(asks, None, true).unwrap_err();
        // As upstream: it waits for the authority on its node.
        let pod = admitted(json!({"serviceAccountName": "x"}), Some(json!({})), false).unwrap();
        assert_eq!(with_token(&pod), ["a"]);
    }

    #[test]
    fn pull_secrets_are_the_accounts_where_the_pod_has_none() {
        let account = json!({"imagePullSecrets": [{"name": "s"}, {"name": "t"}]});
        let pod = admitted(json!({}), Some(account.clone()), true).unwrap();
        assert_eq!(pod["spec"]["imagePullSecrets"], account["imagePullSecrets"]);
        let own = json!([{"name": "mine"}]);
        let pod = admitted(json!({"imagePullSecrets": own}), Some(account), true).unwrap();
        assert_eq!(pod["spec"]["imagePullSecrets"], own);
    }

    #[test]
    fn an_account_may_limit_its_pods_to_its_secrets() {
        let account = json!({"metadata": {"annotations": {ENFORCE: "true"}}, "secrets": [{"name": "ok"}]});
        let because = "is not allowed because service account default does not reference that";
        let env = json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": "no", "key": "k"}}}]);
        let from = json!([{"secretRef": {"name": "no"}}]);
        for (spec, why) in [
            (
                json!({"volumes": [{"name": "v", "secret": {"secretName": "no"}}]}),
                format!("volume with secret.secretName=\"no\" {because} secret"),
            ),
            (
                json!({"initContainers": [{"name": "i", "env": env}]}),
                format!(
                    "init container i with envVar E referencing secret.secretName=\"no\" {because} secret"
                ),
            ),
            (
                json!({"containers": [{"name": "a", "envFrom": from}]}),
                format!("container a with envFrom referencing secret.secretName=\"no\" {because} secret"),
            ),
            (
                json!({"imagePullSecrets": [{"name": "no"}]}),
                format!("imagePullSecrets[0].name=\"no\" {because} imagePullSecret"),
            ),
        ] {
            assert_eq!(admitted(spec, Some(account.clone()), true).unwrap_err(), why);
        }
        let allowed = json!({"volumes": [{"name": "v", "secret": {"secretName": "ok"}}]});
        admitted(allowed, Some(account), true).unwrap();
    }

    #[test]
    fn a_mirror_pod_has_no_account_and_no_secrets() {
        let projected = |source: Value| json!([{"name": "v", "projected": {"sources": [source]}}]);
        for (spec, why) in [
            (json!({}), None),
            (
                json!({"serviceAccountName": "default"}),
                Some("a mirror pod may not reference service accounts"),
            ),
            (
                json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
                Some("a mirror pod may not reference secrets"),
            ),
            (
                json!({"volumes": projected(json!({"secret": {"name": "s"}}))}),
                Some("a mirror pod may not reference secrets"),
            ),
            (
                json!({"volumes": projected(json!({"serviceAccountToken": {"path": "t"}}))}),
                Some("a mirror pod may not use ServiceAccountToken volume projections"),
            ),
        ] {
            let mut pod = pod(spec);
            pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
            let before = pod.clone();
            let refused = admit(&mut pod, "ns", &Found { account: None, authority: true }).err();
            assert_eq!(refused.as_deref(), why);
            assert_eq!(pod, before);
        }
    }
}
