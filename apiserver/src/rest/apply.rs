//! Server-side apply: a patch that says all that its manager wants of an object.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Map, Value};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{AliasLimits, DuplicateKeyPolicy};

use super::answer::shape_of;
use super::answer::with_warnings;
use super::body::ResponseBody;
use super::checks::check_name;
use super::incoming::{FieldValidation, conform_by_default, field_validation, is_strict};
use super::negotiate::Answered;
use super::options::WriteOptions;
use super::request::{Request, Verb};
use super::server::ApiServer;
use super::track::Tracking;
use crate::codec;
use crate::managed_fields::{self, Error, shown_name};
use crate::object;
use crate::refusal::{Refusal, Result};
use crate::store::Object;
use crate::values;

/// The type of its body, which may as well be JSON.
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// How often it is tried again where objects come and go meanwhile.
const ATTEMPTS: usize = 6;

/// How many values aliases may stand for together: a small text must not become a large object.
const ALIAS_LIMIT: usize = 10_000;

/// A configuration that was read.
pub(super) struct Config {
    /// An object, empty if the body is.
    pub(super) value: Value,
    /// A key that is there twice, in upstream's words.
    duplicate: Option<String>,
}

impl Config {
    /// Reads YAML or JSON as upstream does: `yes` is true, `0644` is octal, and the last of equal keys counts.
    pub(super) fn read(body: &[u8]) -> Result<Self> {
        let bad = |why: &dyn std::fmt::Display| {
            Refusal::bad_request(format!("error decoding YAML: {}", first_line(&why.to_string())))
        };
        let unreadable = |error: serde_saphyr::Error| match error.without_snippet() {
            serde_saphyr::Error::Budget { breach: BudgetBreach::Nodes { .. }, .. } => {
                Refusal::too_many_values()
            }
            error => bad(error),
        };
        let text = std::str::from_utf8(body).map_err(|error| bad(&error))?;
        let strict = yaml(DuplicateKeyPolicy::Error);
        let (value, duplicate) = match serde_saphyr::from_str_with_options::<Value>(text, strict) {
            Ok(value) => (value, None),
            Err(error) => {
                let Some(twice) = duplicate_in(&error) else { return Err(unreadable(error)) };
                let lenient = yaml(DuplicateKeyPolicy::LastWins);
                let value = serde_saphyr::from_str_with_options(text, lenient).map_err(unreadable)?;
                (value, Some(twice))
            }
        };
        match value {
            Value::Null => Ok(Self { value: Value::Object(Map::new()), duplicate }),
            Value::Object(_) => Ok(Self { value, duplicate }),
            _ => Err(bad(&"the configuration is no object")),
        }
    }

    /// What the client is warned of; refused where it wants that.
    pub(super) fn warnings(&self, request: &Request) -> Result<Vec<String>> {
        match &self.duplicate {
            Some(twice) if is_strict(request) => Err(Refusal::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {twice}"
            ))),
            Some(_) if field_validation(request) == FieldValidation::Ignore => Ok(Vec::new()),
            duplicate => Ok(duplicate.iter().cloned().collect()),
        }
    }
}

/// How YAML is read.
fn yaml(duplicate_keys: DuplicateKeyPolicy) -> serde_saphyr::Options {
    let mut alias_limits = AliasLimits::default();
    alias_limits.max_total_replayed_events = ALIAS_LIMIT;
    // Names of members count as well.
    let budget = serde_saphyr::budget! { max_nodes: values::LIMIT };
    serde_saphyr::options! {
        budget: budget,
        legacy_octal_numbers: true,
        duplicate_keys: duplicate_keys,
        alias_limits: alias_limits,
    }
}

fn duplicate_in(error: &serde_saphyr::Error) -> Option<String> {
    match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key, location } => Some(format!(
            "line {}: key {:?} already set in map",
            location.line(),
            key.as_deref().unwrap_or_default()
        )),
        _ => None,
    }
}

/// The rest draws the place.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

impl ApiServer {
    /// Applies a configuration; an object that is not there is made.
    pub(super) fn apply(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let shape = shape_of(request, Answered::Object)?;
        let options = WriteOptions::of_apply(request)?;
        let config = Config::read(&request.body)?;
        let call = &request.call;
        let mut warnings = Vec::new();
        for _ in 0..ATTEMPTS {
            let written = self.modify(request, options.commit, Tracking::Done, |old| {
                let new = self.applied(request, old, &config.value, &options)?;
                warnings = config.warnings(request)?;
                check_name(&call.name, &new)?;
                Ok(new)
            });
            let (code, object) = match written {
                Ok(written) => (StatusCode::OK, written),
                Err(refusal) if refusal.status.code == 404 && call.subresource.is_empty() => {
                    warnings = config.warnings(request)?;
                    match self.apply_new(request, &config.value, &options) {
                        // Somebody else has made it in the meantime.
                        Err(refusal) if refusal.status.reason == "AlreadyExists" => continue,
                        made => (StatusCode::CREATED, made?),
                    }
                }
                Err(refusal) => return Err(refusal),
            };
            let answer = self.object_answer(code, &object.served_as(&call.resource), shape)?;
            return Ok(with_warnings(answer, &warnings));
        }
        Err(Refusal::modified(&call.resource, &call.name))
    }

    /// A new object from a configuration.
    fn apply_new(&self, request: &Request, config: &Value, options: &WriteOptions) -> Result<Arc<Object>> {
        let call = &request.call;
        let mut new = self.applied(request, call.resource.empty(), config, options)?;
        let uid = object::text_at(&new, "metadata.uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Refusal::conflict(&call.resource, &call.name, why));
        }
        check_name(&call.name, &new)?;
        self.check_also(request, Verb::Create)?;
        object::metadata(&mut new).remove("resourceVersion");
        self.add_named(Some(request), &call.resource, &call.namespace, new, options.commit)
    }

    /// What a configuration makes of a state, in the form of its kind and with its managers.
    fn applied(
        &self,
        request: &Request,
        old: &Value,
        config: &Value,
        options: &WriteOptions,
    ) -> Result<Value> {
        let call = &request.call;
        let resource = &call.resource;
        let applied = self.with_subject(resource, &call.subresource, |subject| {
            managed_fields::apply(subject, old, config, &options.manager, options.force)
        });
        let mut new = applied.map_err(refusal_of)?;
        let managed = managed_fields::take(&mut new);
        let mut new = conform_by_default(resource, new).map_err(|why| {
            if matches!(why, codec::Error::TooManyValues) {
                return Refusal::too_many_values();
            }
            let name = shown_name(config, &resource.api_version, &resource.kind);
            Refusal::unforeseen(format!("failed to convert new object ({name}) to proper version: {why}"))
        })?;
        managed_fields::put(&mut new, managed);
        Ok(new)
    }
}

/// What a client is told of an apply that can't be done.
pub(super) fn refusal_of(error: Error) -> Refusal {
    let message = error.to_string();
    match error {
        Error::Conflicts(conflicts) => {
            let causes = conflicts.iter().map(|conflict| (conflict.field(), conflict.message()));
            Refusal::apply_conflict(message, causes)
        }
        Error::BadRequest(_) => Refusal::bad_request(message),
        Error::Item(_) | Error::Untyped(_) => Refusal::unforeseen(message),
    }
}
