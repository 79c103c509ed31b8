//! Requests and limits of containers: `limits.cpu`, `requests.memory`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use steersman_api::quantity::Quantity;

/// What pods may have of each resource of the node: what a limit is where none is set.
pub type Allocatable = BTreeMap<String, Text>;

/// The value of a resource for the environment of `container` (`resourceFieldRef`), in units of the divisor, rounded up.
///
/// A limit that is not set is the pod's, or else the node's.
///
/// # Errors
/// The selector names no such container or resource, or a quantity is none; in words for the container's waiting state.
pub fn resource_value(
    pod: &Pod,
    container: &Container,
    selector: &ResourceFieldSelector,
    allocatable: &Allocatable,
) -> Result<String, String> {
    let named = selector.container_name.as_deref().filter(|name| !name.is_empty());
    let (container, defaults) = match named {
        None => (container, true),
        Some(name) => {
            let found = find(pod, name)?;
            // Upstream completes the limits of regular containers, and of the container itself, but not of init
            // containers that another one names.
            (found.container, found.regular)
        }
    };
    let with_pod_limits = || {
        let limits = pod.spec.as_ref()?.resources.as_ref()?.limits.as_ref()?;
        let mut merged = allocatable.clone();
        for name in ["cpu", "memory"] {
            match (limits.get(name), merged.get_mut(name)) {
                (Some(limit), Some(merged)) if !is_zero(limit) => *merged = limit.clone(),
                _ => {}
            }
        }
        Some(merged)
    };
    let defaults = defaults.then(|| with_pod_limits().unwrap_or_else(|| allocatable.clone()));
    value(container, selector, &defaults.unwrap_or_default())
}

/// The value of a resource for a file (`resourceFieldRef` of a volume). A limit that is not set is the node's.
///
/// # Errors
/// As of [`resource_value`].
pub fn file_resource_value(
    pod: &Pod,
    selector: &ResourceFieldSelector,
    allocatable: &Allocatable,
) -> Result<String, String> {
    let name = selector.container_name.as_deref().unwrap_or_default();
    value(find(pod, name)?.container, selector, allocatable)
}

struct Found<'a> {
    container: &'a Container,
    /// Not an init container.
    regular: bool,
}

fn find<'a>(pod: &'a Pod, name: &str) -> Result<Found<'a>, String> {
    let spec = pod.spec.iter();
    let regular = spec.clone().flat_map(|spec| &spec.containers).map(|c| (c, true));
    let init = spec.flat_map(|spec| spec.init_containers.iter().flatten()).map(|c| (c, false));
    let found = regular.chain(init).find(|(container, _)| container.name == name);
    found
        .map(|(container, regular)| Found { container, regular })
        .ok_or_else(|| format!("container {name} not found"))
}

/// Names of which a limit has a default. Huge pages always have their own.
const DEFAULTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

fn value(
    container: &Container,
    selector: &ResourceFieldSelector,
    defaults: &Allocatable,
) -> Result<String, String> {
    let unsupported = || format!("unsupported container resource : {}", selector.resource);
    let (list, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    if !DEFAULTED.contains(&name) && !name.starts_with("hugepages-") {
        return Err(unsupported());
    }
    let resources = container.resources.as_ref();
    let set = match list {
        "limits" => {
            let set = resources.and_then(|resources| resources.limits.as_ref()?.get(name));
            let default = || defaults.get(name).filter(|_| DEFAULTED.contains(&name));
            set.filter(|set| !is_zero(set)).or_else(default)
        }
        "requests" => resources.and_then(|resources| resources.requests.as_ref()?.get(name)),
        _ => return Err(unsupported()),
    };
    let amount = set.map_or(Ok(Quantity::default()), parse)?;
    let divisor = selector.divisor.as_ref().map_or(Ok(Quantity::default()), parse)?;
    let divisor = if divisor.is_zero() { Quantity::new(1) } else { divisor };
    let (amount, divisor) = match name {
        "cpu" => (amount.milli_value(), divisor.milli_value()),
        _ => (amount.value(), divisor.value()),
    };
    if divisor <= 0 {
        return Err(format!("the divisor of {} must be positive", selector.resource));
    }
    let (amount, divisor) = (i128::from(amount), i128::from(divisor));
    Ok((amount.div_euclid(divisor) + i128::from(amount.rem_euclid(divisor) != 0)).to_string())
}

fn parse(text: &Text) -> Result<Quantity, String> {
    text.0.parse().map_err(|invalid: steersman_api::quantity::InvalidQuantity| invalid.to_string())
}

/// A quantity that can't be read is not zero: the one who uses it says so.
fn is_zero(text: &Text) -> bool {
    parse(text).is_ok_and(Quantity::is_zero)
}
