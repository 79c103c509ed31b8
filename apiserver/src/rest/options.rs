//! The parameters of lists, watches and writes.

use std::num::{IntErrorKind, ParseIntError};
use std::time::Duration;

use serde_json::Value;
use steersman_api::schema;
use steersman_api::selector::{FieldTerm, InvalidSelector};
use steersman_api::{FieldSelector, LabelSelector};

use super::request::{Query, Request, Verb};
use super::track::{MANAGER_LIMIT, is_printable};
use crate::codec;
use crate::field::FieldError;
use crate::names;
use crate::refusal::{Refusal, Result};
use crate::select::Selection;

/// `metav1.ListOptions`.
pub(crate) struct ListOptions {
    /// Which objects.
    pub(crate) selection: Selection,
    /// At which version; `None` if not said.
    pub(crate) version: Option<u64>,
    /// How the version is meant.
    pub(crate) version_match: Option<VersionMatch>,
    /// At most so many objects; zero for all.
    pub(crate) limit: usize,
    /// Where an earlier list left off.
    pub(crate) continue_from: Option<String>,
    /// For how long a watch goes on.
    pub(crate) timeout: Option<Duration>,
    /// A watch may tell its version now and then.
    pub(crate) bookmarks: bool,
    /// A watch begins with what is there, or not; `None` if not said.
    pub(crate) initial_events: Option<bool>,
}

/// How a list's version is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// Precisely that one.
    Exact,
    /// That one or a newer one.
    NotOlderThan,
}

impl ListOptions {
    /// From a request for a list or a watch.
    pub(crate) fn parse(request: &Request) -> Result<Self> {
        let Request { call, query, .. } = request;
        let labels: LabelSelector = parse_or(query, "labelSelector", parse_labels)?;
        let mut fields: FieldSelector = parse_or(query, "fieldSelector", |text| {
            text.parse::<FieldSelector>().map_err(|error| error.to_string())
        })?;
        if !call.name.is_empty() {
            fields = only(&call.name, fields)?;
        }
        let version = match query.get("resourceVersion") {
            None => None,
            Some(text) if call.verb == Verb::Watch => Some(parse_version_asked(text)?),
            Some(text) => Some(parse_version(text)?),
        };
        let version_match = query.get("resourceVersionMatch");
        check_match(request, version, version_match)?;
        Ok(Self {
            selection: Selection::new(&call.resource, &call.namespace, labels, fields)?,
            version,
            version_match: version_match.map(|text| match text {
                "Exact" => VersionMatch::Exact,
                _ => VersionMatch::NotOlderThan,
            }),
            limit: number(query, "limit")?.unwrap_or(0),
            continue_from: query.get("continue").map(str::to_owned),
            timeout: number(query, "timeoutSeconds")?.map(|seconds| Duration::from_secs(seconds as u64)),
            bookmarks: query.is_set("allowWatchBookmarks"),
            initial_events: query.switch("sendInitialEvents"),
        })
    }
}

/// A version must be a number.
pub(crate) fn parse_version(text: &str) -> Result<u64> {
    version_in(text).ok_or_else(|| {
        let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        let error = FieldError::invalid("resourceVersion", text, why);
        Refusal::bad_request(format!("invalid resource version: {error}"))
    })
}

/// Digits, and nothing before them.
fn version_in(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// A version that a get or a watch asks for: upstream answers it with another code.
pub(crate) fn parse_version_asked(text: &str) -> Result<u64> {
    version_in(text).ok_or_else(|| {
        let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        Refusal::no_version_asked(&FieldError::invalid("resourceVersion", text, why))
    })
}

/// Why a text is no number.
fn not_parsed(text: &str, error: &ParseIntError) -> String {
    let why = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.ParseInt: parsing {text:?}: {why}")
}

/// A label selector whose keys and values may be ones.
fn parse_labels(text: &str) -> std::result::Result<LabelSelector, String> {
    let selector: LabelSelector = text.parse().map_err(|error: InvalidSelector| error.to_string())?;
    for (key, values) in selector.terms() {
        let bad = |field: &str, value: &str, whys: Vec<String>| {
            let error = FieldError::invalid(field, value, whys.join("; "));
            Err(format!("unable to parse requirement: {error}"))
        };
        let whys = names::qualified_name(key);
        if !whys.is_empty() {
            return bad("<nil>", key, whys);
        }
        for (at, value) in values.iter().enumerate() {
            let whys = names::label_value(value);
            if !whys.is_empty() {
                return bad(&format!("values[{at}][{key}]"), value, whys);
            }
        }
    }
    Ok(selector)
}

fn parse_or<T: Default>(
    query: &Query,
    name: &str,
    parse: impl FnOnce(&str) -> std::result::Result<T, String>,
) -> Result<T> {
    query.get(name).map_or_else(|| Ok(T::default()), |text| parse(text).map_err(Refusal::bad_request))
}

fn number(query: &Query, name: &str) -> Result<Option<usize>> {
    let Some(text) = query.get(name) else { return Ok(None) };
    match text.parse::<i64>() {
        Ok(number) => Ok(usize::try_from(number).ok()),
        Err(error) => Err(Refusal::bad_request(not_parsed(text, &error))),
    }
}

/// A watch under an object's own path sees that object only. A selector beside the path must say so, too, and all of it counts: who
/// may do this may depend on it.
fn only(name: &str, fields: FieldSelector) -> Result<FieldSelector> {
    if fields.terms().is_empty() {
        return Ok(FieldSelector::name(name));
    }
    let names_it = |term: &FieldTerm| term.equal && term.field == "metadata.name" && term.value == name;
    if !fields.terms().iter().any(names_it) {
        return Err(Refusal::bad_request("fieldSelector metadata.name doesn't match requested name"));
    }
    Ok(fields)
}

/// Which combinations make sense, as upstream's `ValidateListOptions`.
fn check_match(request: &Request, version: Option<u64>, version_match: Option<&str>) -> Result<()> {
    let query = &request.query;
    let watching = request.call.verb == super::Verb::Watch;
    let initial_events = query.switch("sendInitialEvents").is_some();
    let field = "resourceVersionMatch";
    let mut errors = Vec::new();
    if watching && query.get("continue").is_some() {
        let why = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(FieldError::forbidden(field, why));
    }
    if watching && initial_events && version_match != Some("NotOlderThan") {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(field, why));
    }
    if let Some(text) = version_match {
        if watching && !initial_events {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if !watching && version.is_none() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if !watching && query.get("continue").is_some() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        let supported: &[&str] = if watching { &["NotOlderThan"] } else { &["Exact", "NotOlderThan", ""] };
        if !supported.contains(&text) {
            errors.push(FieldError::not_supported(field, text, supported));
        }
        if !watching && text == "Exact" && version == Some(0) {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(field, why));
        }
    }
    if !watching && initial_events {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Refusal::invalid_kind("meta.k8s.io", "ListOptions", "", &errors))
}

/// Whether a write is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Commit {
    /// It is.
    #[default]
    Write,
    /// The client only wants to know what would come of it.
    DryRun,
}

impl Commit {
    /// From the parameters.
    pub(crate) fn parse(query: &Query) -> Result<Self> {
        Self::parse_as("CreateOptions", query)
    }

    fn parse_as(kind: &str, query: &Query) -> Result<Self> {
        let mut commit = Self::Write;
        for value in query.all("dryRun").filter(|value| !value.is_empty()) {
            if value != "All" {
                let error = FieldError::not_supported("dryRun", vec![value], &["All"]);
                return Err(Refusal::invalid_kind("meta.k8s.io", kind, "", &[error]));
            }
            commit = Self::DryRun;
        }
        Ok(commit)
    }
}

/// `metav1.CreateOptions`, `UpdateOptions` or `PatchOptions`.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOptions {
    /// Whether the write is meant.
    pub(crate) commit: Commit,
    /// Who manages what is written, by the client's word; empty if it does not say.
    pub(crate) manager: String,
    /// An apply takes fields from their managers.
    pub(crate) force: bool,
}

impl WriteOptions {
    /// Of a create.
    pub(crate) fn of_create(request: &Request) -> Result<Self> {
        Self::parse(request, "CreateOptions", Vec::new())
    }

    /// Of an update.
    pub(crate) fn of_update(request: &Request) -> Result<Self> {
        Self::parse(request, "UpdateOptions", Vec::new())
    }

    /// Of a patch that is no apply.
    pub(crate) fn of_patch(request: &Request) -> Result<Self> {
        let force = request.query.switch("force");
        let why = "may not be specified for non-apply patch";
        let errors = force.map(|_| FieldError::forbidden("force", why)).into_iter().collect();
        Self::parse(request, "PatchOptions", errors)
    }

    /// Of an apply, which must say who applies.
    pub(crate) fn of_apply(request: &Request) -> Result<Self> {
        let missing = request.query.get("fieldManager").is_none();
        let error = || FieldError::required("fieldManager", "is required for apply patch");
        Self::parse(request, "PatchOptions", missing.then(error).into_iter().collect())
    }

    fn parse(request: &Request, kind: &str, mut errors: Vec<FieldError>) -> Result<Self> {
        let query = &request.query;
        let manager = query.get("fieldManager").unwrap_or_default();
        if manager.len() > MANAGER_LIMIT {
            errors.push(FieldError::too_long("fieldManager", MANAGER_LIMIT));
        }
        for (at, letter) in manager.char_indices().filter(|(_, letter)| !is_printable(*letter)) {
            let why = format!("invalid character U+{:04X} (at position {at})", u32::from(letter));
            errors.push(FieldError::invalid("fieldManager", manager, why));
        }
        let asked: Vec<&str> = query.all("dryRun").filter(|value| !value.is_empty()).collect();
        if asked.iter().any(|value| *value != "All") {
            errors.push(FieldError::not_supported("dryRun", asked.clone(), &["All"]));
        }
        let validation = query.get("fieldValidation").unwrap_or_default();
        let supported = ["", "Ignore", "Strict", "Warn"];
        if !supported.contains(&validation) {
            errors.push(FieldError::not_supported("fieldValidation", validation, &supported));
        }
        if !errors.is_empty() {
            return Err(Refusal::invalid_kind("meta.k8s.io", kind, "", &errors));
        }
        Ok(Self {
            commit: if asked.is_empty() { Commit::Write } else { Commit::DryRun },
            manager: manager.to_owned(),
            force: query.is_set("force"),
        })
    }
}

/// `metav1.DeleteOptions`, from the body or from the parameters.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    /// In seconds.
    pub(crate) grace: Option<i64>,
    /// The uid that the object must have.
    pub(crate) uid: Option<String>,
    /// The version that the object must have.
    pub(crate) version: Option<String>,
    /// What becomes of dependents.
    pub(crate) propagation: Option<Propagation>,
    /// Whether the delete is meant.
    pub(crate) commit: Commit,
}

/// What becomes of dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They lose their owner.
    Orphan,
    /// They go after their owner.
    Background,
    /// They go before their owner.
    Foreground,
}

impl DeleteOptions {
    /// A body, if there is one, takes the place of the parameters.
    pub(crate) fn parse(request: &Request) -> Result<Self> {
        if request.body.is_empty() {
            return Self::from_query(&request.query);
        }
        let format = super::negotiate::body_format(&request.headers)?;
        let unreadable = |why: &dyn std::fmt::Display| {
            Refusal::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
        };
        let options = codec::decode(format, &request.body, "DeleteOptions").map_err(|error| match error {
            codec::Error::TooManyValues => Refusal::too_many_values(),
            error @ codec::Error::OtherKind { .. } => Refusal::bad_request(error.to_string()),
            error => unreadable(&error),
        })?;
        if !options.is_object() && !options.is_null() {
            return Err(unreadable(&"the options are no JSON object"));
        }
        let options = Self::from_value(&Self::typed(options)?)?;
        match Commit::parse_as("DeleteOptions", &request.query)? {
            Commit::DryRun => Ok(Self { commit: Commit::DryRun, ..options }),
            Commit::Write => Ok(options),
        }
    }

    /// Options that say what they are, and whose members are of the types that they should be.
    fn typed(options: Value) -> Result<Value> {
        let said = |name: &str| crate::object::text_at(&options, name);
        if !matches!(said("kind").as_str(), "" | "DeleteOptions") {
            let why =
                format!("no kind {:?} is registered for version {:?}", said("kind"), said("apiVersion"));
            return Err(Refusal::bad_request(why));
        }
        let kind = schema::table().kind("meta.k8s.io", "v1", "DeleteOptions");
        let normal = kind.map(|kind| codec::normalize(kind, &options));
        normal.unwrap_or(Ok(options)).map_err(|error| Refusal::bad_request(error.to_string()))
    }

    /// From a `metav1.DeleteOptions`.
    pub(super) fn from_value(options: &Value) -> Result<Self> {
        let text = |path| crate::object::str_at(options, path).map(str::to_owned);
        let dry_run = crate::object::list_at(options, "dryRun");
        if dry_run.iter().any(|value| value != "All") {
            let error = FieldError::not_supported("dryRun", dry_run.to_vec(), &["All"]);
            return Err(Refusal::invalid_kind("meta.k8s.io", "DeleteOptions", "", &[error]));
        }
        let orphans = crate::object::at(options, "orphanDependents").is_some_and(|value| !value.is_null());
        let propagation = match text("propagationPolicy") {
            Some(policy) if orphans => {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                let error = FieldError::invalid("propagationPolicy", policy, why);
                return Err(Refusal::invalid_kind("meta.k8s.io", "DeleteOptions", "", &[error]));
            }
            Some(policy) => Some(propagation(&policy)?),
            None => orphan(crate::object::at(options, "orphanDependents").and_then(Value::as_bool)),
        };
        Ok(Self {
            grace: crate::object::int_at(options, "gracePeriodSeconds"),
            uid: text("preconditions.uid"),
            version: text("preconditions.resourceVersion"),
            propagation,
            commit: if dry_run.is_empty() { Commit::Write } else { Commit::DryRun },
        })
    }

    fn from_query(query: &Query) -> Result<Self> {
        let propagation = match query.get("propagationPolicy") {
            Some(policy) => Some(propagation(policy)?),
            None => orphan(query.switch("orphanDependents")),
        };
        let grace = match query.get("gracePeriodSeconds") {
            Some(text) => Some(text.parse().map_err(|error| Refusal::bad_request(not_parsed(text, &error)))?),
            None => None,
        };
        let commit = Commit::parse_as("DeleteOptions", query)?;
        Ok(Self { grace, uid: None, version: None, propagation, commit })
    }
}

fn orphan(orphan: Option<bool>) -> Option<Propagation> {
    orphan.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background })
}

fn propagation(policy: &str) -> Result<Propagation> {
    match policy {
        "Orphan" => Ok(Propagation::Orphan),
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        other => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            let error = FieldError::not_supported("propagationPolicy", other, &supported);
            Err(Refusal::invalid_kind("meta.k8s.io", "DeleteOptions", "", &[error]))
        }
    }
}
