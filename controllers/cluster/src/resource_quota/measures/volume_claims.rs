//! What a PersistentVolumeClaim uses of quotas.

use steersman_api::Quantity;
use steersman_kinds::persistent_volume_claim::{BetaClass, StorageAllotment, StorageDemand};

use super::super::amounts::Amounts;
use super::super::names::OF_STORAGE_CLASS;

/// What a claim uses: itself, and the storage that it asks for or has, whichever is more. Both count for the storage class,
/// too.
pub(crate) fn of_volume_claim(
    demand: &StorageDemand,
    allotment: &StorageAllotment,
    beta_class: &BetaClass,
) -> Amounts {
    let mut usage = Amounts::one_each(["count/persistentvolumeclaims", "persistentvolumeclaims"]);
    let storage = demand.resources.requests.get("storage").map(|asked| {
        let asked = whole(asked);
        allotment.allocated.get("storage").filter(|allocated| *allocated > asked).map_or(asked, whole)
    });
    let class = beta_class.0.as_ref().unwrap_or(&demand.class);
    if !class.is_empty() {
        usage.set(format!("{class}{OF_STORAGE_CLASS}persistentvolumeclaims"), Quantity::new(1));
    }
    if let Some(storage) = storage {
        usage.set("requests.storage", storage);
        if !class.is_empty() {
            usage.set(format!("{class}{OF_STORAGE_CLASS}requests.storage"), storage);
        }
    }
    usage
}

/// The amount, rounded up to whole bytes: the API server refuses fractions in the status of a quota.
fn whole(amount: Quantity) -> Quantity {
    let rounded = Quantity::bytes(amount.value());
    if rounded > amount { rounded } else { amount }
}
