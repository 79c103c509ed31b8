//! What a ResourceClaim uses of quotas.

use steersman_api::Quantity;
use steersman_kinds::resource_claim::{DeviceDemand, DeviceRequest};

use super::super::amounts::Amounts;
use super::super::names::{COUNT_OF_DEVICE_CLAIMS, DEVICES, DeviceClasses, IMPLICIT_RESOURCE, REQUESTS};

/// The most devices that one claim can get. Upstream: `AllocationResultsMaxSize`.
const MOST_DEVICES: i64 = 32;

/// What a claim uses: itself, and devices by their classes. Of alternatives, the most counts for each class.
pub(crate) fn of_device_claim(claim: &DeviceDemand) -> Amounts {
    let mut usage = Amounts::one_each([COUNT_OF_DEVICE_CLAIMS]);
    for DeviceRequest { exactly, first_available } in &claim.devices.requests {
        let mut most = Amounts::default();
        let mut alternatives = Amounts::default();
        for request in first_available {
            let devices = devices(&request.mode, request.count);
            if devices > Quantity::default() {
                alternatives.set(format!("{}{DEVICES}", request.class), devices);
                most.raise(&alternatives);
            }
        }
        if let Some(request) = exactly.as_ref().filter(|_| first_available.is_empty()) {
            most.set(format!("{}{DEVICES}", request.class), devices(&request.mode, request.count));
        }
        usage.add_all(&most);
    }
    usage
}

/// The number of devices that a request asks for at most. A mode that is newer than this program counts nothing.
fn devices(mode: &str, count: i64) -> Quantity {
    Quantity::new(match mode {
        "ExactCount" => count,
        "All" => MOST_DEVICES,
        _ => 0,
    })
}

/// The usage of a claim with the extended resources that its device classes stand for. `by_pod` is the usage of the pod for
/// whose extended resources the claim was made, if so: what is counted there is not counted twice.
pub(crate) fn with_extended_resources(usage: Amounts, classes: &DeviceClasses, by_pod: &Amounts) -> Amounts {
    let mut extended = Amounts::default();
    for (name, devices) in usage.iter() {
        let Some(class) = name.strip_suffix(DEVICES).filter(|class| !class.is_empty()) else { continue };
        extended.set(format!("{REQUESTS}{IMPLICIT_RESOURCE}{class}"), devices);
        if let Some(resource) = classes.resource_of(class) {
            extended.set(format!("{REQUESTS}{resource}"), devices);
        }
    }
    let mut all = usage;
    for (name, devices) in extended.iter() {
        let more = devices - by_pod.get(name).unwrap_or_default();
        if more > Quantity::default() {
            all.set(name.clone(), more);
        }
    }
    all
}
