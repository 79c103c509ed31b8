use serde_json::{Value, json};

/// Starts a pod that the API server accepts: its container `c` has the image `i`, and it has no namespace, node or status.
#[must_use]
pub fn pod(name: &str) -> Pod {
    Pod(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
}

/// A pod under construction. Each method sets one thing and returns the builder; [`pod`] starts one.
#[derive(Clone, Debug)]
pub struct Pod(Value);

impl Pod {
    /// Sets the namespace. The API server takes it from the path, so only pods that it does not see need one.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.0["metadata"]["namespace"] = namespace.into();
        self
    }

    /// Sets the uid, which otherwise the API server assigns.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.0["metadata"]["uid"] = uid.into();
        self
    }

    /// Sets one label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = value.into();
        self
    }

    /// Sets the creation timestamp, such as `2026-01-01T00:00:00Z`.
    #[must_use]
    pub fn created_at(mut self, time: &str) -> Self {
        self.0["metadata"]["creationTimestamp"] = time.into();
        self
    }

    /// Sets the deletion timestamp, and the grace period in seconds.
    #[must_use]
    pub fn terminating(mut self, since: &str, grace: i64) -> Self {
        self.0["metadata"]["deletionTimestamp"] = since.into();
        self.0["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        self
    }

    /// Adds an owner reference with `controller: true`.
    #[must_use]
    pub fn owned_by(mut self, api_version: &str, kind: &str, name: &str, uid: &str) -> Self {
        let owner =
            json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true});
        self.push("metadata", "ownerReferences", owner);
        self
    }

    /// Sets the node.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.0["spec"]["nodeName"] = node.into();
        self
    }

    /// Replaces the containers by one of each name, with the image `i`.
    #[must_use]
    pub fn containers(mut self, names: &[&str]) -> Self {
        self.0["spec"]["containers"] = names.iter().map(|name| json!({"name": name, "image": "i"})).collect();
        self
    }

    /// Sets members of the spec to those of an object: a merge patch of the spec.
    #[must_use]
    pub fn spec(self, members: Value) -> Self {
        self.with(json!({"spec": members}))
    }

    /// Sets the phase.
    #[must_use]
    pub fn phase(mut self, phase: &str) -> Self {
        self.0["status"]["phase"] = phase.into();
        self
    }

    /// Sets `podIP` and `podIPs` to one address.
    #[must_use]
    pub fn ip(mut self, ip: &str) -> Self {
        self.0["status"]["podIP"] = ip.into();
        self.0["status"]["podIPs"] = json!([{"ip": ip}]);
        self
    }

    /// Sets the condition `Ready` to `True`.
    #[must_use]
    pub fn ready(self) -> Self {
        self.condition("Ready", "True")
    }

    /// Sets the condition `Ready` to `False`.
    #[must_use]
    pub fn unready(self) -> Self {
        self.condition("Ready", "False")
    }

    /// Sets a condition of that type to that status.
    #[must_use]
    pub fn condition(mut self, kind: &str, status: &str) -> Self {
        if let Some(conditions) = self.0.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
            conditions.retain(|condition| condition["type"] != kind);
        }
        self.push("status", "conditions", json!({"type": kind, "status": status}));
        self
    }

    /// Applies a merge patch, for what this builder has no method for.
    #[must_use]
    pub fn with(mut self, patch: Value) -> Self {
        json_patch::merge(&mut self.0, &patch);
        self
    }

    /// Returns the pod's JSON.
    #[must_use]
    pub fn build(self) -> Value {
        self.0
    }

    /// Appends to the list `name` of the member `parent`; starts either if it is missing.
    fn push(&mut self, parent: &str, name: &str, item: Value) {
        let list = &mut self.0[parent][name];
        match list {
            Value::Array(items) => items.push(item),
            _ => *list = json!([item]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_sets_its_members_and_keeps_the_others() {
        let built = pod("a")
            .namespace("ns")
            .uid("u")
            .label("app", "web")
            .label("tier", "front")
            .created_at("2026-01-01T00:00:00Z")
            .terminating("2026-01-02T00:00:00Z", 30)
            .owned_by("batch/v1", "Job", "j", "v")
            .on("n")
            .containers(&["x", "y"])
            .spec(json!({"hostNetwork": true}))
            .phase("Running")
            .ip("10.0.0.1")
            .condition("DisruptionTarget", "True")
            .ready()
            .unready()
            .with(json!({"metadata": {"generation": 2}, "status": {"reason": "Evicted"}}))
            .build();
        assert_eq!(
            built,
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "namespace": "ns", "name": "a", "uid": "u", "generation": 2,
                    "labels": {"app": "web", "tier": "front"},
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "deletionTimestamp": "2026-01-02T00:00:00Z", "deletionGracePeriodSeconds": 30,
                    "ownerReferences":
                        [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "v", "controller": true}],
                },
                "spec": {
                    "nodeName": "n", "hostNetwork": true,
                    "containers": [{"name": "x", "image": "i"}, {"name": "y", "image": "i"}],
                },
                "status": {
                    "phase": "Running", "reason": "Evicted", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
                    "conditions":
                        [{"type": "DisruptionTarget", "status": "True"}, {"type": "Ready", "status": "False"}],
                },
            })
        );
    }
}
