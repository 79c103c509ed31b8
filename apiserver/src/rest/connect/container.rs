//! Which container of a pod is meant.

use serde_json::Value;

use crate::object::{list_at, text_at};
use crate::refusal::{Refusal, Result};

/// The container that a client asks for, or the only one.
///
/// # Errors
/// There is none of that name, or it is not clear which one is meant.
pub(super) fn chosen(pod: &Value, pod_name: &str, asked: &str) -> Result<String> {
    let names = ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|list| list_at(&pod["spec"], list))
        .map(|container| text_at(container, "name"));
    let names: Vec<String> = names.collect();
    if !asked.is_empty() {
        if names.iter().any(|name| name == asked) {
            return Ok(asked.to_owned());
        }
        return Err(Refusal::bad_request(format!("container {asked} is not valid for pod {pod_name}")));
    }
    let why = format!("a container name must be specified for pod {pod_name}");
    match list_at(pod, "spec.containers") {
        [only] => Ok(text_at(only, "name")),
        [] => Err(Refusal::bad_request(why)),
        _ => Err(Refusal::bad_request(format!("{why}, choose one of: [{}]", names.join(" ")))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_only_container_is_meant_where_none_is_named() {
        let one = json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}});
        let two = json!({"spec": {
            "containers": [{"name": "a"}, {"name": "b"}],
            "initContainers": [{"name": "i"}],
            "ephemeralContainers": [{"name": "e"}],
        }});
        for (pod, asked, chosen_or_why) in [
            (&one, "", Ok("a")),
            (&one, "i", Ok("i")),
            (&one, "x", Err("container x is not valid for pod p")),
            (&two, "b", Ok("b")),
            (&two, "e", Ok("e")),
            (&two, "", Err("a container name must be specified for pod p, choose one of: [i a b e]")),
            (&json!({}), "", Err("a container name must be specified for pod p")),
        ] {
            let found = chosen(pod, "p", asked).map_err(|refusal| refusal.status.message);
            assert_eq!(found.as_deref().map_err(String::as_str), chosen_or_why, "{asked}");
        }
    }
}
