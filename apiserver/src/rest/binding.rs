//! The binding of a pod to its node.

use http::Response;
use serde_json::{Value, json};

use super::answer::{done, shape_of};
use super::body::ResponseBody;
use super::incoming::body_of;
use super::negotiate::Answered;
use super::options::Commit;
use super::request::{Call, Request};
use super::server::ApiServer;
use super::track::Tracking;
use crate::field::FieldError;
use crate::meta;
use crate::object;
use crate::refusal::{Refusal, Result};
use crate::registry::Resource;

impl ApiServer {
    /// Gives a pod the node that the body names.
    pub(super) fn bind(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let call = &request.call;
        let binding = body_of(request, "Binding")?;
        if object::text_at(&binding, "metadata.name") != call.name {
            return Err(Refusal::bad_request("name in URL does not match name in Binding object"));
        }
        let node = object::text_at(&binding, "target.name");
        let wrong = wrong_target(&object::text_at(&binding, "target.kind"), &node);
        if let Some(wrong) = wrong {
            return Err(Refusal::unforeseen(wrong));
        }
        let now = meta::stamp(self.clock().now());
        let commit = Commit::parse(&request.query)?;
        let whole =
            Request { call: Call { subresource: "binding".to_owned(), ..call.clone() }, ..request.clone() };
        self.modify(&whole, commit, Tracking::Off, |pod| {
            check_said_of(&call.resource, &binding, pod)?;
            let assigned = object::text_at(pod, "spec.nodeName");
            if object::at(pod, "metadata.deletionTimestamp").is_some() {
                let why = format!("pod {} is being deleted, cannot be assigned to a host", call.name);
                return Err(Refusal::conflict_with(&call.resource, "binding", &call.name, why));
            }
            if !assigned.is_empty() {
                let why = format!("pod {} is already assigned to node {assigned:?}", call.name);
                return Err(Refusal::conflict_with(&call.resource, "binding", &call.name, why));
            }
            if !object::list_at(pod, "spec.schedulingGates").is_empty() {
                let why = format!("pod {} has non-empty .spec.schedulingGates", call.name);
                return Err(Refusal::conflict_with(&call.resource, "binding", &call.name, why));
            }
            let mut pod = pod.clone();
            object::members_at(&mut pod, "spec").insert("nodeName".to_owned(), node.as_str().into());
            for member in ["labels", "annotations"] {
                if let Some(Value::Object(more)) = binding["metadata"].get(member) {
                    object::members_at(&mut pod, &format!("metadata.{member}")).extend(more.clone());
                }
            }
            // What was only intended is history now.
            object::members_at(&mut pod, "status").remove("nominatedNodeName");
            note_scheduled(&mut pod, &now);
            Ok(pod)
        })?;
        Ok(done(shape_of(request, Answered::Object)?))
    }
}

/// What is wrong with what a pod shall be bound to, as upstream words it.
fn wrong_target(kind: &str, name: &str) -> Option<String> {
    let mut errors = Vec::new();
    if !matches!(kind, "" | "Node") {
        errors.push(FieldError::not_supported("target.kind", kind, &["Node", "<empty>"]).to_string());
    }
    if name.is_empty() {
        errors.push(FieldError::required("target.name", "").to_string());
    }
    match errors.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        all => Some(format!("[{}]", all.join(", "))),
    }
}

/// The uid and the version that a binding says must be the pod's.
fn check_said_of(resource: &Resource, binding: &Value, pod: &Value) -> Result<()> {
    let [name, namespace] = ["name", "namespace"].map(|member| object::text_at(&pod["metadata"], member));
    for (member, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let [said, is] = [binding, pod].map(|object| object::text_at(&object["metadata"], member));
        if !said.is_empty() && said != is {
            let why =
                format!("Precondition failed: {what} in precondition: {said}, {what} in object meta: {is}");
            return Err(Refusal::precondition(resource, &namespace, &name, why));
        }
    }
    Ok(())
}

/// Sets the pod's condition `PodScheduled` to `True`.
fn note_scheduled(pod: &mut Value, now: &str) {
    let scheduled = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now});
    object::set_condition(object::members_at(pod, "status"), scheduled);
}
