//! Resources of one object that are not its whole: scale, binding.

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use steersman_api::schema;

use super::answer::{answer, done, shape_of, value_answer};
use super::apply::{APPLY, Config, refusal_of};
use super::body::ResponseBody;
use super::checks::{check_name, other_uid};
use super::incoming::patch_type;
use super::negotiate::{Answered, Shape, body_format, media_type};
use super::options::{Commit, WriteOptions};
use super::request::{Call, Request, Verb};
use super::server::ApiServer;
use super::track::{Tracking, manager_of};
use crate::codec::{self};
use crate::field::FieldError;
use crate::managed_fields::{self, Reset, Subject, Type};
use crate::meta;
use crate::object;
use crate::patch::Patch;
use crate::refusal::{Refusal, Result};
use crate::registry::{Resource, selector_of};
use crate::store::Object;
use crate::table::{self, Heads};

impl ApiServer {
    /// Does to an object what a POST to its subresource asks for.
    pub(super) fn create_through_subresource(&self, request: &Request) -> Result<Response<ResponseBody>> {
        match (request.call.resource.plural.as_str(), request.call.subresource.as_str()) {
            ("pods", "binding") => self.bind(request),
            ("pods", "eviction") => self.evict(request),
            ("serviceaccounts", "token") => self.issue_token(request),
            _ => Err(Refusal::not_implemented(&request.call)),
        }
    }

    fn bind(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let call = &request.call;
        let binding = body_of(request)?;
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

    /// How many replicas an object wants and has.
    pub(super) fn get_scale(&self, request: &Request, object: &Object) -> Result<Response<ResponseBody>> {
        let shape = shape_of(request, Answered::Object)?;
        self.scale_answer(request, &scale_of(&object.parsed()), shape)
    }

    pub(super) fn update_scale(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let options = WriteOptions::of_update(request)?;
        let scale = scale_in_body(request)?;
        let manager = manager_of(request, &options);
        self.write_scale(request, options.commit, |old| {
            Ok(self.tracked_scale(request, old, scale.clone(), &manager))
        })
    }

    pub(super) fn patch_scale(&self, request: &Request) -> Result<Response<ResponseBody>> {
        if media_type(&request.headers) == APPLY {
            return self.apply_scale(request);
        }
        let patch_type = patch_type(request)?;
        let options = WriteOptions::of_patch(request)?;
        let patch = Patch::parse(patch_type, &request.body)?;
        let manager = manager_of(request, &options);
        let kind = schema::table().kind("autoscaling", "v1", "Scale");
        self.write_scale(request, options.commit, |old| {
            let scale = patch.apply(kind, old)?;
            Ok(self.tracked_scale(request, old, scale, &manager))
        })
    }

    fn apply_scale(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let options = WriteOptions::of_apply(request)?;
        let config = Config::read(&request.body)?;
        config.warnings(request)?;
        self.write_scale(request, options.commit, |old| {
            self.with_scale(request, |subject| {
                let (manager, force) = (&options.manager, options.force);
                managed_fields::apply(subject, old, &config.value, manager, force).map_err(refusal_of)
            })
        })
    }

    /// The scale with its managers, after `manager` has made it of `old`.
    fn tracked_scale(&self, request: &Request, old: &Value, scale: Value, manager: &str) -> Value {
        let kind = schema::table().kind("autoscaling", "v1", "Scale");
        let mut scale = kind.and_then(|kind| schema::normalize(kind, &scale).ok()).unwrap_or(scale);
        self.with_scale(request, |subject| managed_fields::update(subject, old, &mut scale, manager));
        scale
    }

    /// Calls `with` with a scale as the subject of a write.
    fn with_scale<T>(&self, request: &Request, with: impl FnOnce(&Subject<'_>) -> T) -> T {
        let kind = schema::table().kind("autoscaling", "v1", "Scale");
        self.with_subject(&request.call.resource, "scale", |subject| {
            with(&Subject {
                api_version: "autoscaling/v1",
                kind: "Scale",
                ty: kind.map_or(Type::Deduced, Type::Kind),
                reset: Reset::default(),
                now: subject.now.clone(),
                ..*subject
            })
        })
    }

    fn write_scale(
        &self,
        request: &Request,
        commit: Commit,
        change: impl Fn(&Value) -> Result<Value>,
    ) -> Result<Response<ResponseBody>> {
        let shape = shape_of(request, Answered::Object)?;
        let call = Call { subresource: String::new(), ..request.call.clone() };
        let whole = Request { call, ..request.clone() };
        let written = self.modify(&whole, commit, Tracking::Done, |old| {
            let managed = old["metadata"].get("managedFields");
            let mut before = scale_of(old);
            managed_fields::put(&mut before, managed_fields::of_parent(managed));
            let mut scale = change(&before)?;
            let managed_scale = managed_fields::take(&mut scale);
            let version = &request.call.resource.api_version;
            let managed = managed_fields::of_scale(managed, managed_scale.as_ref(), version);
            let call = &request.call;
            let (uid, theirs) =
                (object::text_at(&scale, "metadata.uid"), object::text_at(old, "metadata.uid"));
            let other = !uid.is_empty() && uid != theirs;
            let why = other_uid(&uid, &theirs);
            // The whole is another one than is meant; where the scale is, its parts are not looked at.
            if other && call.verb == Verb::Update {
                return Err(Refusal::precondition(&call.resource, &call.namespace, &call.name, why));
            }
            let replicas = object::int_at(&scale, "spec.replicas").unwrap_or(0);
            if replicas < 0 {
                let why = "must be greater than or equal to 0";
                let error = FieldError::invalid("spec.replicas", replicas, why);
                return Err(Refusal::invalid_kind("autoscaling", "Scale", &call.name, &[error]));
            }
            if other {
                return Err(Refusal::conflict_with(&call.resource, "scale", &call.name, why));
            }
            let mut new = old.clone();
            object::members_at(&mut new, "spec").insert("replicas".to_owned(), replicas.into());
            let version = object::text_at(&scale, "metadata.resourceVersion");
            object::metadata(&mut new).insert("resourceVersion".to_owned(), version.into());
            managed_fields::take(&mut new);
            managed_fields::put(&mut new, managed);
            Ok(new)
        })?;
        self.scale_answer(request, &scale_of(&written.parsed()), shape)
    }

    fn scale_answer(&self, request: &Request, scale: &Value, shape: Shape) -> Result<Response<ResponseBody>> {
        let Some(table) = shape.table else { return value_answer(StatusCode::OK, scale, shape) };
        let tabulator = self.tabulator(&request.call.resource, table);
        let table = tabulator.single_value(&table::scale(), scale, self.clock().now(), Heads::Shown);
        Ok(answer(StatusCode::OK, shape.media_type(), ResponseBody::full(table.freeze())))
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

/// Notes on a pod that it has a node, since `now` unless it had one before.
fn note_scheduled(pod: &mut Value, now: &str) {
    let conditions = object::members_at(pod, "status").entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    let mut noted = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now});
    match conditions.iter_mut().find(|condition| condition["type"] == "PodScheduled") {
        None => conditions.push(noted),
        Some(old) => {
            if old["status"] == "True" {
                object::carry_over(&mut noted, old, "lastTransitionTime");
            }
            *old = noted;
        }
    }
}

/// The body as the scale of the object that the path names.
fn scale_in_body(request: &Request) -> Result<Value> {
    let scale = body_of(request)?;
    let (kind, api_version) = (object::text_at(&scale, "kind"), object::text_at(&scale, "apiVersion"));
    if !matches!((kind.as_str(), api_version.as_str()), ("" | "Scale", "" | "autoscaling/v1")) {
        let (_, version) = steersman_api::GroupVersion::split(&api_version);
        let why = format!(
            "{kind} in version {version:?} cannot be handled as a Scale: no kind {kind:?} is registered for version \
             {api_version:?} under this path"
        );
        return Err(Refusal::bad_request(why));
    }
    check_name(&request.call.name, &scale)?;
    Ok(scale)
}

/// An `autoscaling/v1` Scale of a kind that has replicas.
fn scale_of(object: &Value) -> Value {
    let mut metadata = Map::new();
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(name) {
            metadata.insert(name.to_owned(), value.clone());
        }
    }
    let selector = match object::at(object, "spec.selector") {
        // Replication controllers have plain labels, the others a LabelSelector.
        Some(labels @ Value::Object(members)) if !members.keys().any(|key| key.starts_with("match")) => {
            selector_of(&json!({"matchLabels": labels}))
        }
        Some(selector) => selector_of(selector),
        None => None,
    };
    json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": metadata,
        "spec": {"replicas": object::int_at(object, "spec.replicas").unwrap_or(0)},
        "status": {
            "replicas": object::int_at(object, "status.replicas").unwrap_or(0),
            "selector": selector.unwrap_or_default().to_string(),
        },
    })
}

/// The body as whatever kind the subresource takes.
pub(super) fn body_of(request: &Request) -> Result<Value> {
    let format = body_format(&request.headers)?;
    let bad = |error| Refusal::bad_request(format!("couldn't read the body: {error}"));
    codec::decode(format, &request.body).map_err(bad)
}
