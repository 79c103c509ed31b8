//! The scale of an object: how many replicas it wants and has, in one shape for all kinds.

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use steersman_api::schema::{self, Kind};

use super::answer::{answer, shape_of, value_answer, with_warnings};
use super::apply::{APPLY, Config, refusal_of};
use super::body::ResponseBody;
use super::checks::{check_name, other_uid};
use super::incoming::{Wanted, body_of, other_kind, patch_type, strictness};
use super::negotiate::{Answered, Shape, body_format, media_type};
use super::options::{Commit, WriteOptions};
use super::request::{Call, Request, Verb};
use super::server::ApiServer;
use super::track::{Tracking, manager_of};
use crate::codec::{self, Format};
use crate::field::FieldError;
use crate::managed_fields::{self, Reset, Subject, Type, shown_name};
use crate::meta;
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
        let (scale, warnings) = scale_in_body(request)?;
        let manager = manager_of(request, &options);
        let answer = self.write_scale(request, options.commit, |old| {
            Ok(self.tracked_scale(request, old, scale.clone(), &manager))
        })?;
        Ok(with_warnings(answer, &warnings))
    }

    pub(super) fn patch_scale(&self, request: &Request) -> Result<Response<ResponseBody>> {
        if media_type(&request.headers) == APPLY {
            return self.apply_scale(request);
        }
        let patch_type = patch_type(request)?;
        let options = WriteOptions::of_patch(request)?;
        let patch = Patch::parse(patch_type, &request.body)?;
        let manager = manager_of(request, &options);
        let mut warnings = Vec::new();
        let answer = self.write_scale(request, options.commit, |old| {
            let mut patched = patch.apply(Some(scale_kind()), old)?;
            // Nothing of it needs to be read unless the patch is about it.
            if patched["metadata"].get("managedFields") == old["metadata"].get("managedFields") {
                managed_fields::take(&mut patched);
            }
            let scale = conformed(&patched).map_err(|misfit| misfit.of_patch(&patched))?;
            warnings = strictness(request, SCALE, scale_kind(), &patched, false)?;
            Ok(self.tracked_scale(request, old, scale, &manager))
        })?;
        Ok(with_warnings(answer, &warnings))
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
                conformed(&applied).map_err(|misfit| misfit.of_config(&config.value))
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
                api_version: API_VERSION,
                kind: SCALE.kind,
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
        mut change: impl FnMut(&Value) -> Result<Value>,
    ) -> Result<Response<ResponseBody>> {
        let shape = shape_of(request, Answered::Object)?;
        let call = Call { subresource: String::new(), ..request.call.clone() };
        let whole = Request { call, ..request.clone() };
        let written = self.modify(&whole, commit, Tracking::Done, |old| {
            let managed = old["metadata"].get("managedFields");
            let mut before = scale_of(old);
            managed_fields::put(&mut before, managed_fields::of_parent(managed));
            let mut scale = change(&before)?;
            check_place(request, &scale)?;
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

/// Reads the body as a scale of the object that the path names. Returns it with what the client should be warned of.
fn scale_in_body(request: &Request) -> Result<(Value, Vec<String>)> {
    let body = body_of(request, SCALE.kind)?;
    let scale = conformed(&body).map_err(Misfit::of_body)?;
    let warnings = match body_format(&request.headers)? {
        Format::Json => {
            let duplicates = schema::has_duplicates(&body, &request.body);
            strictness(request, SCALE, scale_kind(), &body, duplicates)?
        }
        // Protobuf drops what it does not know on its own.
        Format::Protobuf => Vec::new(),
    };
    check_place(request, &scale)?;
    Ok((scale, warnings))
}

/// The name and the namespace of a scale must be those of the path.
fn check_place(request: &Request, scale: &Value) -> Result<()> {
    let call = &request.call;
    check_name(&call.name, scale)?;
    meta::check_namespace(&call.namespace, scale)
}

const SCALE: Wanted<'static> = Wanted { kind: "Scale", version: "v1" };
const API_VERSION: &str = "autoscaling/v1";

fn scale_kind() -> &'static Kind {
    let kind = schema::table().kind("autoscaling", SCALE.version, SCALE.kind);
    kind.expect("the schema table must hold what every server speaks")
}

/// Why a value can't be used as a Scale.
enum Misfit {
    OtherKind { kind: String, api_version: String },
    TooManyValues,
    Form(codec::Error),
}

impl Misfit {
    /// The answer to a body that misfits.
    fn of_body(self) -> Refusal {
        match self {
            Self::OtherKind { kind, api_version } => other_kind(&kind, &api_version, SCALE.kind),
            Self::TooManyValues => Refusal::too_many_values(),
            Self::Form(error) => Refusal::bad_request(SCALE.cannot_be(&error.to_string())),
        }
    }

    /// The answer to a patch that made `patched`, which misfits.
    fn of_patch(self, patched: &Value) -> Refusal {
        match self {
            Self::TooManyValues => Refusal::too_many_values(),
            misfit => Refusal::patch_misfits(patched, &misfit.of_body().status.message),
        }
    }

    /// The answer to an applied configuration that led to a misfit.
    fn of_config(self, config: &Value) -> Refusal {
        match self {
            Self::TooManyValues => Refusal::too_many_values(),
            misfit => {
                let (name, why) = (shown_name(config, API_VERSION, SCALE.kind), misfit.of_body());
                let why = why.status.message;
                Refusal::unforeseen(format!("failed to convert new object ({name}) to proper version: {why}"))
            }
        }
    }
}

/// A scale in the canonical form of its kind. A value without `kind` and `apiVersion` counts as a Scale.
fn conformed(scale: &Value) -> std::result::Result<Value, Misfit> {
    let (kind, api_version) = (object::text_at(scale, "kind"), object::text_at(scale, "apiVersion"));
    if !matches!((kind.as_str(), api_version.as_str()), ("" | "Scale", "" | API_VERSION)) {
        return Err(Misfit::OtherKind { kind, api_version });
    }
    managed_fields::without_fields(scale.clone(), |scale| codec::normalize(scale_kind(), scale)).map_err(
        |error| match error {
            codec::Error::TooManyValues => Misfit::TooManyValues,
            error => Misfit::Form(error),
        },
    )
}

/// The canonical `autoscaling/v1` Scale of an object that has replicas.
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
    let mut status = json!({"replicas": object::int_at(object, "status.replicas").unwrap_or(0)});
    let selector = selector.unwrap_or_default().to_string();
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    // A Scale omits `spec.replicas` if it is zero, but never `status.replicas`.
    let replicas = object::int_at(object, "spec.replicas").filter(|replicas| *replicas != 0);
    let spec = replicas.map_or_else(|| json!({}), |replicas| json!({"replicas": replicas}));
    json!({
        "apiVersion": API_VERSION, "kind": SCALE.kind, "metadata": metadata, "spec": spec, "status": status,
    })
}
