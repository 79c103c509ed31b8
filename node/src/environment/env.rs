//! The variables of a container's environment.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar, EnvVarSource, Pod, Secret};

use super::env_file::EnvFiles;
use super::expansion::expand;
use crate::downward::{Allocatable, PodAddresses, field_value, resource_value};
use crate::objects::{ObjectError, Objects};

/// What a container's environment is made of, beside pod and container.
pub struct EnvInputs<'a> {
    /// Variables of services. What the container declares stands before them.
    pub services: &'a BTreeMap<String, String>,
    /// The config maps and secrets that the container refers to.
    pub objects: &'a Referred,
    /// The files in volumes that the container refers to.
    pub files: &'a EnvFiles,
    /// Addresses of pod and node.
    pub addresses: &'a PodAddresses,
    /// What pods may have of the node.
    pub allocatable: &'a Allocatable,
}

/// Config maps and secrets by name, each as it could be had.
#[derive(Debug, Default)]
pub struct Referred {
    config_maps: BTreeMap<String, Result<Arc<ConfigMap>, ObjectError>>,
    secrets: BTreeMap<String, Result<Arc<Secret>, ObjectError>>,
}

/// Variables in the order in which they were first named, each once.
#[derive(Debug, Default)]
struct Env {
    order: Vec<String>,
    values: BTreeMap<String, String>,
}

impl Referred {
    /// Gets what the environment of `container` refers to.
    pub async fn get(objects: &dyn Objects, namespace: &str, container: &Container) -> Self {
        let mut referred = Self::default();
        let from = container.env_from.iter().flatten();
        let values = || container.env.iter().flatten().filter_map(source);
        let config_maps = from.clone().filter_map(|from| from.config_map_ref.as_ref().map(|of| &of.name));
        let of_values = values().filter_map(|source| source.config_map_key_ref.as_ref().map(|of| &of.name));
        for name in config_maps.chain(of_values) {
            if !referred.config_maps.contains_key(name) {
                let got = objects.config_map(namespace, name).await;
                referred.config_maps.insert(name.clone(), got);
            }
        }
        let secrets = from.filter_map(|from| from.secret_ref.as_ref().map(|of| &of.name));
        let of_values = values().filter_map(|source| source.secret_key_ref.as_ref().map(|of| &of.name));
        for name in secrets.chain(of_values) {
            if !referred.secrets.contains_key(name) {
                let got = objects.secret(namespace, name).await;
                referred.secrets.insert(name.clone(), got);
            }
        }
        referred
    }
}

/// The environment of a container: what it declares, in its order, then what it is told of services.
///
/// Of a name that comes again the last value counts, at the first one's place. `$(NAME)` in a value stands for what was
/// declared before, or else for a service's variable.
///
/// # Errors
/// What a value refers to is not there and not optional, or can't be a value; in words for the container's waiting state.
pub fn environment(
    pod: &Pod,
    container: &Container,
    inputs: &EnvInputs<'_>,
) -> Result<Vec<(String, String)>, String> {
    let mut env = Env::default();
    add_from(&mut env, container, inputs.objects)?;
    for variable in container.env.iter().flatten() {
        let value = match (variable.value.as_deref().filter(|value| !value.is_empty()), source(variable)) {
            (Some(text), _) => {
                let known = |name: &str| env.values.get(name).or_else(|| inputs.services.get(name));
                Some(expand(text, known))
            }
            (None, Some(source)) => value_from(pod, container, source, inputs)?,
            (None, None) => Some(String::new()),
        };
        if let Some(value) = value {
            env.set(variable.name.clone(), value);
        }
    }
    let Env { order, mut values } = env;
    let own: Vec<_> = order.into_iter().filter_map(|name| values.remove_entry(&name)).collect();
    let of_services = inputs.services.iter().filter(|(name, _)| own.iter().all(|(known, _)| known != *name));
    let of_services: Vec<_> = of_services.map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok([own, of_services].concat())
}

/// Where a variable's value is from, if it is not written out.
pub(super) fn source(variable: &EnvVar) -> Option<&EnvVarSource> {
    let written_out = variable.value.as_deref().is_some_and(|value| !value.is_empty());
    variable.value_from.as_ref().filter(|_| !written_out)
}

/// `envFrom`: all of a config map or secret, each name with the prefix before it.
fn add_from(env: &mut Env, container: &Container, objects: &Referred) -> Result<(), String> {
    for from in container.env_from.iter().flatten() {
        let name = |key: &str| format!("{}{key}", from.prefix.as_deref().unwrap_or_default());
        if let Some(of) = &from.config_map_ref {
            let Some(map) = find(&objects.config_maps, &of.name, of.optional)? else { continue };
            for (key, value) in map.data.iter().flatten() {
                env.set(name(key), value.clone());
            }
        } else if let Some(of) = &from.secret_ref {
            let Some(secret) = find(&objects.secrets, &of.name, of.optional)? else { continue };
            for (key, value) in secret.data.iter().flatten() {
                env.set(name(key), text(&value.0));
            }
        }
    }
    Ok(())
}

/// The value from elsewhere; `None` where it is optional and not there, and the variable is left out.
fn value_from(
    pod: &Pod,
    container: &Container,
    source: &EnvVarSource,
    inputs: &EnvInputs<'_>,
) -> Result<Option<String>, String> {
    let missing = |key: &str, kind: &str, name: &str, optional: Option<bool>| match optional {
        Some(true) => Ok(None),
        _ => Err(format!("couldn't find key {key} in {kind} {}/{name}", namespace(pod))),
    };
    if let Some(field) = &source.field_ref {
        let version = field.api_version.as_deref().unwrap_or("v1");
        if version != "v1" {
            return Err(format!("unsupported pod version: {version}"));
        }
        return field_value(pod, &field.field_path, inputs.addresses).map(Some);
    }
    if let Some(selector) = &source.resource_field_ref {
        return resource_value(pod, container, selector, inputs.allocatable).map(Some);
    }
    if let Some(of) = &source.config_map_key_ref {
        let Some(map) = find(&inputs.objects.config_maps, &of.name, of.optional)? else { return Ok(None) };
        return match map.data.as_ref().and_then(|data| data.get(&of.key)) {
            Some(value) => Ok(Some(value.clone())),
            None => missing(&of.key, "ConfigMap", &of.name, of.optional),
        };
    }
    if let Some(of) = &source.secret_key_ref {
        let Some(secret) = find(&inputs.objects.secrets, &of.name, of.optional)? else { return Ok(None) };
        return match secret.data.as_ref().and_then(|data| data.get(&of.key)) {
            Some(value) => Ok(Some(text(&value.0))),
            None => missing(&of.key, "Secret", &of.name, of.optional),
        };
    }
    if let Some(of) = &source.file_key_ref {
        return inputs.files.value(of);
    }
    Ok(Some(String::new()))
}

/// The object; `None` where it is optional and there is none.
fn find<'a, T>(
    objects: &'a BTreeMap<String, Result<Arc<T>, ObjectError>>,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<&'a T>, String> {
    match objects.get(name) {
        Some(Ok(object)) => Ok(Some(object)),
        Some(Err(error)) if error.is_not_found() && optional == Some(true) => Ok(None),
        Some(Err(error)) => Err(error.to_string()),
        None => Err(format!("{name:?} was not asked for")),
    }
}

/// What is not UTF-8 is replaced, as runtimes do when they write it into a container's specification, which is JSON.
fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}

impl Env {
    fn set(&mut self, name: String, value: String) {
        if self.values.insert(name.clone(), value).is_none() {
            self.order.push(name);
        }
    }
}

#[cfg(test)]
mod tests;
