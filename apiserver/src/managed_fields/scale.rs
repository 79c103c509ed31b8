//! The field that is the same in an object and in its scale: `spec.replicas`.

use serde_json::Value;

use super::managers::{Entry, Managers};
use super::set::FieldSet;

/// The version of scales.
const VERSION: &str = "autoscaling/v1";
/// Where both have the number.
const REPLICAS: &str = "spec.replicas";

/// The entries of a scale, from those of its object.
pub(crate) fn of_parent(list: Option<&Value>) -> Option<Value> {
    let mut managers = list.and_then(Managers::read)?;
    let replicas = FieldSet::of_fields(&[REPLICAS]);
    managers.retain(|entry| !entry.fields().intersection(&replicas).is_empty());
    for entry in managers.iter_mut() {
        VERSION.clone_into(&mut entry.version);
        entry.set_fields(replicas.clone());
    }
    managers.write()
}

/// The entries of an object in that version, after those of its scale became `scale`.
pub(crate) fn of_scale(parent: Option<&Value>, scale: Option<&Value>, version: &str) -> Option<Value> {
    let parent = parent.and_then(Managers::read).unwrap_or_default();
    let mut scale = scale.and_then(Managers::read).unwrap_or_default();
    let replicas = FieldSet::of_fields(&[REPLICAS]);
    let mut managers = Managers::default();
    for entry in parent.iter() {
        let mut entry = entry.clone();
        if !entry.fields().intersection(&replicas).is_empty() && scale.remove(&entry.id).is_none() {
            // Somebody took it.
            entry.set_fields(entry.fields().difference(&replicas));
        }
        if !entry.fields().is_empty() {
            managers.put(entry);
        }
    }
    for entry in scale.iter().filter(|entry| !entry.fields().intersection(&replicas).is_empty()) {
        let mut moved = Entry::new(entry.id.clone(), version, replicas.clone());
        moved.time = parent.get(&entry.id).and_then(|known| known.time.clone());
        managers.put(moved);
    }
    managers.write()
}
