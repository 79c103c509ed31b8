//! The scale of an object: how many replicas it wants and has, in one shape for all kinds.

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use steersman_api::schema::{self, Kind};

use super::answer::{answer, shape_of, value_answer};
use super::apply::{APPLY, Config, refusal_of};
use super::body::ResponseBody;
use super::checks::{check_name, other_uid};
use super::incoming::{body_of, cannot_be_handled, other_kind, patch_type};
use super::negotiate::{Answered, Shape, media_type};
use super::options::{Commit, WriteOptions};
use super::request::{Call, Request, Verb};
use super::server::ApiServer;
use super::track::{Tracking, manager_of};
use crate::codec;
use crate::field::FieldError;
use crate::managed_fields::{self, Reset, Subject, Type};
use crate::object;
use crate::patch::Patch;
use crate::refusal::{Refusal, Result};
use crate::registry::selector_of;
use crate::store::Object;
use crate::table::{self, Heads};

impl ApiServer {
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
        self.write_scale(request, options.commit, |old| {
            let patched = patch.apply(Some(scale_kind()), old)?;
            let scale = conformed(&patched).map_err(|misfit| misfit.of_patch(&patched))?;
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
                let applied = managed_fields::apply(subject, old, &config.value, manager, force);
                let applied = applied.map_err(refusal_of)?;
                conformed(&applied).map_err(|misfit| misfit.of_patch(&applied))
            })
        })
    }

    /// The scale with its managers, after `manager` has made it of `old`.
    fn tracked_scale(&self, request: &Request, old: &Value, mut scale: Value, manager: &str) -> Value {
        self.with_scale(request, |subject| managed_fields::update(subject, old, &mut scale, manager));
        scale
    }

    /// Calls `with` with a scale as the subject of a write.
    fn with_scale<T>(&self, request: &Request, with: impl FnOnce(&Subject<'_>) -> T) -> T {
        self.with_subject(&request.call.resource, "scale", |subject| {
            with(&Subject {
                api_version: "autoscaling/v1",
                kind: "Scale",
                ty: Type::Kind(scale_kind()),
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

/// The body as the scale of the object that the path names.
fn scale_in_body(request: &Request) -> Result<Value> {
    let scale = conformed(&body_of(request, "Scale")?).map_err(Misfit::of_body)?;
    check_name(&request.call.name, &scale)?;
    Ok(scale)
}

fn scale_kind() -> &'static Kind {
    let kind = schema::table().kind("autoscaling", "v1", "Scale");
    kind.expect("the schema table must hold what every server speaks")
}

/// Why a value is no scale.
enum Misfit {
    OtherKind { kind: String, api_version: String },
    Form(codec::Error),
}

impl Misfit {
    /// The refusal of a body.
    fn of_body(self) -> Refusal {
        match self {
            Self::OtherKind { kind, api_version } => other_kind(&kind, &api_version, "Scale"),
            Self::Form(codec::Error::TooManyValues) => Refusal::too_many_values(),
            Self::Form(error) => {
                Refusal::bad_request(cannot_be_handled("Scale", "v1", "Scale", &error.to_string()))
            }
        }
    }

    /// The refusal of a patch that made `patched`.
    fn of_patch(self, patched: &Value) -> Refusal {
        match self.of_body() {
            refusal if refusal.status.code == 400 => Refusal::patch_misfits(patched, &refusal.status.message),
            refusal => refusal,
        }
    }
}

/// A scale in the canonical form of its kind. One that does not say what it is counts as a scale.
fn conformed(scale: &Value) -> std::result::Result<Value, Misfit> {
    let (kind, api_version) = (object::text_at(scale, "kind"), object::text_at(scale, "apiVersion"));
    if !matches!((kind.as_str(), api_version.as_str()), ("" | "Scale", "" | "autoscaling/v1")) {
        return Err(Misfit::OtherKind { kind, api_version });
    }
    managed_fields::without_fields(scale.clone(), |scale| codec::normalize(scale_kind(), scale))
        .map_err(Misfit::Form)
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
