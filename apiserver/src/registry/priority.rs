//! Priorities of pods, as upstream's admission finds them.

use std::sync::Arc;

use serde_json::Value;

use super::strategy::{Context, Strategy};
use crate::field::FieldError;
use crate::object::{self, default_text, int_at, is_true, members, members_at, text_at};
use crate::refusal::{Refusal, Result};
use crate::store::Object;

/// What classes of users may have at most.
const MOST: i64 = 1_000_000_000;
/// What classes of the system are called.
const OF_SYSTEM: &str = "system-";
/// Whether others make way, where no class says so.
const PREEMPTION: &str = "PreemptLowerPriority";

/// A class that every cluster has.
pub(crate) struct SystemClass {
    pub(crate) name: &'static str,
    pub(crate) value: i64,
    pub(crate) description: &'static str,
}

/// The classes that every cluster has.
pub(crate) const SYSTEM_CLASSES: [SystemClass; 2] = [
    SystemClass {
        name: "system-cluster-critical",
        value: 2_000_000_000,
        description: "Used for system critical pods that must run in the cluster, but can be moved to another node if \
            necessary.",
    },
    SystemClass {
        name: "system-node-critical",
        value: 2_000_001_000,
        description: "Used for system critical pods that must not be moved from their current node.",
    },
];

/// Sets a new pod's priority to that of its class, or of the class that is the default.
///
/// # Errors
/// There is no such class, or the pod says something else.
pub(super) fn set(context: &Context<'_>, pod: &mut Value) -> Result<()> {
    let name = text_at(pod, "spec.priorityClassName");
    let class = if name.is_empty() { default_class(context) } else { Some(class(context, pod, &name)?) };
    let (name, priority, preemption) = match class {
        Some(class) => class,
        None => (String::new(), 0, PREEMPTION.to_owned()),
    };
    let refused = |why: String| Refusal::forbidden(context.resource, &text_at(pod, "metadata.name"), why);
    if let Some(given) = int_at(pod, "spec.priority").filter(|given| *given != priority) {
        return Err(refused(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        )));
    }
    let given = text_at(pod, "spec.preemptionPolicy");
    if !given.is_empty() && given != preemption {
        return Err(refused(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {preemption} from the given PriorityClass name"
        )));
    }
    let spec = members_at(pod, "spec");
    if !name.is_empty() {
        spec.insert("priorityClassName".to_owned(), name.into());
    }
    spec.insert("priority".to_owned(), priority.into());
    spec.insert("preemptionPolicy".to_owned(), preemption.into());
    Ok(())
}

/// An update that leaves it out keeps it.
pub(super) fn keep(pod: &mut Value, old: &Value) {
    for member in ["priority", "preemptionPolicy"] {
        if let Some(before) = old["spec"].get(member) {
            object::default_to(members_at(pod, "spec"), member, before.clone());
        }
    }
}

/// What is wrong with a new class.
pub(super) fn validate_class(class: &Value) -> Vec<FieldError> {
    let (name, value) = (text_at(class, "metadata.name"), int_at(class, "value").unwrap_or(0));
    let mut errors = Vec::new();
    if name.starts_with(OF_SYSTEM) {
        let known = SYSTEM_CLASSES.iter().find(|class| class.name == name);
        let wrong = match known {
            None => Some(format!("{name} is not a known system priority class")),
            Some(known) if known.value != value => {
                Some(format!("value of {name} PriorityClass must be {}", known.value))
            }
            Some(_) if is_true(class, "globalDefault") => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(wrong) = wrong {
            let why = format!(
                "priority class names with '{OF_SYSTEM}' prefix are reserved for system use only. error: {wrong}"
            );
            errors.push(FieldError::forbidden("metadata.name", why));
        }
    } else if value > MOST {
        let why = format!("maximum allowed value of a user defined priority is {MOST}");
        errors.push(FieldError::forbidden("value", why));
    }
    let policy = text_at(class, "preemptionPolicy");
    if !matches!(policy.as_str(), "Never" | PREEMPTION) {
        let supported = ["Never", PREEMPTION];
        errors.push(FieldError::not_supported("preemptionPolicy", policy, &supported));
    }
    errors
}

/// Refuses a second default class.
///
/// # Errors
/// There is one already, with another name.
pub(super) fn check_default(context: &Context<'_>, class: &Value) -> Result<()> {
    let name = text_at(class, "metadata.name");
    match default_class(context) {
        Some((default, ..)) if is_true(class, "globalDefault") && default != name => {
            let why =
                format!("PriorityClass {default} is already marked as default. Only one default can exist");
            Err(Refusal::forbidden(context.resource, &name, why))
        }
        _ => Ok(()),
    }
}

/// Name, value and preemption policy.
type Class = (String, i64, String);

fn class(context: &Context<'_>, pod: &Value, name: &str) -> Result<Class> {
    if let Some(found) = context.store.get(&table(), &steersman_api::ObjectKey::cluster(name)) {
        return Ok(of(&found));
    }
    let system = SYSTEM_CLASSES.iter().find(|class| class.name == name);
    system.map(|class| (name.to_owned(), class.value, PREEMPTION.to_owned())).ok_or_else(|| {
        let why = format!("no PriorityClass with name {name} was found");
        Refusal::forbidden(context.resource, &text_at(pod, "metadata.name"), why)
    })
}

/// Of several defaults, which two writers at a time can leave, the lowest.
fn default_class(context: &Context<'_>) -> Option<Class> {
    let classes = context.store.snapshot(&table(), "", None).ok()?.objects;
    let defaults = classes.iter().filter(|class| is_true(class.kept(), "globalDefault"));
    defaults.map(of).min_by_key(|(_, value, _)| *value)
}

fn of(class: &Arc<Object>) -> Class {
    let value = int_at(class.kept(), "value").unwrap_or(0);
    (class.key.name.to_string(), value, text_at(class.kept(), "preemptionPolicy"))
}

fn table() -> crate::store::TableId {
    "priorityclasses.scheduling.k8s.io".into()
}

/// The rules of priority classes.
pub(crate) struct PriorityClass;

impl Strategy for PriorityClass {
    fn default(&self, class: &mut Value) {
        default_text(members(class), "preemptionPolicy", "PreemptLowerPriority");
    }

    fn prepare_for_create(&self, context: &Context<'_>, class: &mut Value) -> Result<()> {
        check_default(context, class)
    }

    fn prepare_for_update(&self, context: &Context<'_>, class: &mut Value, _: &Value) -> Result<()> {
        check_default(context, class)
    }

    fn validate(&self, _: &Context<'_>, class: &Value) -> Vec<FieldError> {
        validate_class(class)
    }

    fn validate_update(&self, _: &Context<'_>, class: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if class["value"] != old["value"] {
            errors.push(FieldError::forbidden("value", "may not be changed in an update."));
        }
        errors
    }
}
