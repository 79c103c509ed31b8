//! Environments as tables.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMapEnvSource, ConfigMapKeySelector, EnvFromSource, FileKeySelector, ObjectFieldSelector,
    ResourceFieldSelector, SecretEnvSource, SecretKeySelector,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::*;
use crate::machine::Family;

fn config_map(pairs: &[(&str, &str)]) -> Result<Arc<ConfigMap>, ObjectError> {
    let data = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Ok(Arc::new(ConfigMap { data: Some(data), ..Default::default() }))
}

fn secret(pairs: &[(&str, &[u8])]) -> Result<Arc<Secret>, ObjectError> {
    let data = pairs.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec()))).collect();
    Ok(Arc::new(Secret { data: Some(data), ..Default::default() }))
}

fn not_found<T>(what: &str) -> Result<Arc<T>, ObjectError> {
    Err(ObjectError::NotFound(format!("{what} not found")))
}

/// `settings` and `keys` are there, `none` is not, and `forbidden` can't be read.
fn objects() -> Referred {
    let forbidden = || ObjectError::Other("no relationship found between node 'n' and this object".into());
    Referred {
        config_maps: [
            ("settings".into(), config_map(&[("A", "a"), ("B.x", "b"), ("REF", "$(A)")])),
            ("none".into(), not_found("configmap \"none\"")),
            ("forbidden".into(), Err(forbidden())),
        ]
        .into(),
        secrets: [
            ("keys".into(), secret(&[("A", b"secret a"), ("KEY", b"k")])),
            ("binary".into(), secret(&[("bin", &[0xff])])),
            ("none".into(), not_found("secret \"none\"")),
        ]
        .into(),
    }
}

fn written(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}

fn from(name: &str, source: EnvVarSource) -> EnvVar {
    EnvVar { name: name.into(), value: None, value_from: Some(source) }
}

fn map_key(map: &str, key: &str, optional: bool) -> EnvVarSource {
    let of = ConfigMapKeySelector { name: map.into(), key: key.into(), optional: Some(optional) };
    EnvVarSource { config_map_key_ref: Some(of), ..Default::default() }
}

fn secret_key(secret: &str, key: &str, optional: bool) -> EnvVarSource {
    let of = SecretKeySelector { name: secret.into(), key: key.into(), optional: Some(optional) };
    EnvVarSource { secret_key_ref: Some(of), ..Default::default() }
}

fn field(path: &str, version: &str) -> EnvVarSource {
    let of = ObjectFieldSelector { api_version: Some(version.into()), field_path: path.into() };
    EnvVarSource { field_ref: Some(of), ..Default::default() }
}

fn all_of_map(map: &str, prefix: &str, optional: bool) -> EnvFromSource {
    let of = ConfigMapEnvSource { name: map.into(), optional: Some(optional) };
    EnvFromSource { config_map_ref: Some(of), prefix: Some(prefix.into()), secret_ref: None }
}

fn all_of_secret(secret: &str, prefix: &str, optional: bool) -> EnvFromSource {
    let of = SecretEnvSource { name: secret.into(), optional: Some(optional) };
    EnvFromSource { secret_ref: Some(of), prefix: Some(prefix.into()), config_map_ref: None }
}

/// As `NAME=value`.
fn made(env_from: Vec<EnvFromSource>, env: Vec<EnvVar>) -> Result<Vec<String>, String> {
    let mut pod = Pod::default();
    pod.metadata.name = Some("web".into());
    pod.metadata.namespace = Some("shop".into());
    let container = Container { env_from: Some(env_from), env: Some(env), ..Default::default() };
    let services = [("SVC_HOST", "10.0.0.1"), ("A", "of a service")];
    let inputs = EnvInputs {
        services: &services.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        objects: &objects(),
        files: &EnvFiles::read(&container, &BTreeMap::new()),
        addresses: &PodAddresses::new(&["10.2.0.3".into()], &["10.1.0.1".into()], Family::V4),
        allocatable: &[("cpu".to_owned(), Quantity("2".into()))].into(),
    };
    let env = environment(&pod, &container, &inputs)?;
    Ok(env.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
}

#[test]
fn values_are_expanded_by_what_stands_before_them_and_by_services() {
    let env = vec![
        written("X", "x"),
        written("Y", "$(X) $(SVC_HOST) $(LATER) $$(X) $(A)"),
        written("LATER", "l"),
        written("EMPTY", ""),
        written("SVC_HOST", "own"),
        written("X", "$(X)-again"),
    ];
    assert_eq!(
        made(vec![], env).unwrap(),
        [
            "X=x-again",
            "Y=x 10.0.0.1 $(LATER) $(X) of a service",
            "LATER=l",
            "EMPTY=",
            "SVC_HOST=own",
            "A=of a service"
        ]
    );
}

#[test]
fn whole_config_maps_and_secrets_come_first_and_single_variables_replace_theirs() {
    let env_from = vec![
        all_of_map("settings", "", false),
        all_of_secret("keys", "", false),
        all_of_map("settings", "P_", false),
        all_of_map("none", "", true),
        all_of_secret("none", "", true),
    ];
    let env = vec![written("KEY", "own"), written("SUM", "$(A) $(P_A) $(REF)")];
    assert_eq!(
        made(env_from, env).unwrap(),
        [
            "A=secret a",
            "B.x=b",
            "REF=$(A)",
            "KEY=own",
            "P_A=a",
            "P_B.x=b",
            "P_REF=$(A)",
            "SUM=secret a a $(A)",
            "SVC_HOST=10.0.0.1"
        ]
    );
}

#[test]
fn values_come_from_fields_resources_and_keys() {
    let cpu = ResourceFieldSelector { resource: "limits.cpu".into(), ..Default::default() };
    let env = vec![
        from("NAME", field("metadata.name", "v1")),
        from("IP", field("status.podIP", "v1")),
        from("NODE_IP", field("status.hostIP", "v1")),
        from("CPU", EnvVarSource { resource_field_ref: Some(cpu), ..Default::default() }),
        from("MAP", map_key("settings", "REF", false)),
        from("SECRET", secret_key("keys", "KEY", false)),
        from("BINARY", secret_key("binary", "bin", false)),
        from("NO_KEY", map_key("settings", "none", true)),
        from("NO_MAP", map_key("none", "A", true)),
        from("NO_SECRET_KEY", secret_key("keys", "none", true)),
        from("NO_SECRET", secret_key("none", "A", true)),
        EnvVar { value: Some("written".into()), ..from("BOTH", map_key("none", "A", false)) },
        from("NOTHING", EnvVarSource::default()),
    ];
    assert_eq!(
        made(vec![], env).unwrap(),
        [
            "NAME=web",
            "IP=10.2.0.3",
            "NODE_IP=10.1.0.1",
            "CPU=2",
            "MAP=$(A)",
            "SECRET=k",
            "BINARY=\u{fffd}",
            "BOTH=written",
            "NOTHING=",
            "A=of a service",
            "SVC_HOST=10.0.0.1"
        ]
    );
}

#[test]
fn what_is_missing_is_named_in_upstreams_words() {
    let file = FileKeySelector { key: "K".into(), path: "p".into(), volume_name: "v".into(), optional: None };
    for (env, error) in [
        (map_key("none", "A", false), "configmap \"none\" not found"),
        (map_key("settings", "X", false), "couldn't find key X in ConfigMap shop/settings"),
        (map_key("forbidden", "A", true), "no relationship found between node 'n' and this object"),
        (secret_key("none", "A", false), "secret \"none\" not found"),
        (secret_key("keys", "X", false), "couldn't find key X in Secret shop/keys"),
        (field("spec.nothing", "v1"), "unsupported fieldPath: spec.nothing"),
        (field("metadata.name", "v9"), "unsupported pod version: v9"),
        (
            EnvVarSource { file_key_ref: Some(file), ..Default::default() },
            "cannot find the volume \"v\" referenced by FileKeyRef",
        ),
    ] {
        assert_eq!(made(vec![], vec![from("V", env)]).unwrap_err(), error);
    }
    for (env_from, error) in [
        (all_of_map("none", "", false), "configmap \"none\" not found"),
        (all_of_map("forbidden", "", true), "no relationship found between node 'n' and this object"),
        (all_of_secret("none", "", false), "secret \"none\" not found"),
    ] {
        assert_eq!(made(vec![env_from], vec![]).unwrap_err(), error);
    }
}
