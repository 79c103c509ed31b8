//! Who manages what after a write.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use steersman_api::GroupVersion;

use super::options::WriteOptions;
use super::request::{Call, Request};
use super::server::ApiServer;
use crate::managed_fields::{self, Subject, View, Views};
use crate::meta;
use crate::object;
use crate::registry::{Resource, Resources};

/// The longest name of a manager, in bytes. From upstream.
pub(super) const MANAGER_LIMIT: usize = 128;

/// Who manages what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracking<'a> {
    /// This manager gets what it changes.
    Manager(&'a str),
    /// The state that is to be written says so already.
    Done,
    /// Nothing changes hands.
    Off,
}

/// The states of a resource as its other versions show them.
pub(super) struct OtherVersions<'a> {
    resources: Arc<Resources>,
    resource: &'a Resource,
}

impl Views for OtherVersions<'_> {
    fn view<'v>(&'v self, version: &str, state: &Value) -> Option<View<'v>> {
        let find = |api_version: &str| {
            let (group, version) = GroupVersion::split(api_version);
            let found = self.resources.get(group, version, &self.resource.plural)?;
            (found.table == self.resource.table).then_some(found)
        };
        let shown = find(object::str_at(state, "apiVersion")?)?;
        let wanted = find(version)?;
        // Between the two groups of events upstream knows no way here.
        if wanted.group != shown.group {
            return None;
        }
        let value = wanted.convert_from(shown, state);
        Some(View { ty: wanted.field_type(), value: Cow::Owned(value) })
    }
}

impl ApiServer {
    /// Calls `with` with what is written, as far as it matters who manages what.
    pub(super) fn with_subject<T>(
        &self,
        resource: &Resource,
        subresource: &str,
        with: impl FnOnce(&Subject<'_>) -> T,
    ) -> T {
        let others = OtherVersions { resources: self.resources(), resource };
        with(&Subject {
            api_version: &resource.api_version,
            kind: &resource.kind,
            subresource,
            ty: resource.field_type(),
            empty: resource.empty(),
            reset: resource.reset(subresource),
            now: meta::stamp(self.clock().now()),
            others: &others,
        })
    }

    /// Notes that all of a new object is its creator's.
    pub(super) fn track_new(&self, resource: &Resource, object: &mut Value, manager: &str) {
        meta::drop_system_fields(object);
        self.with_subject(resource, "", |subject| {
            managed_fields::update(subject, subject.empty, object, manager);
        });
    }

    /// Notes what a write changes. `old` is as the resource of the call shows it, and so is `new`.
    pub(super) fn track(&self, call: &Call, old: &Value, new: &mut Value, manager: &str) {
        self.with_subject(&call.resource, &call.subresource, |subject| {
            managed_fields::update(subject, old, new, manager);
        });
    }
}

/// The manager that a write is by: as its options say, else the first part of the client's name.
pub(super) fn manager_of(request: &Request, options: &WriteOptions) -> String {
    if !options.manager.is_empty() {
        return options.manager.clone();
    }
    let agent = request.user_agent().split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for letter in agent.chars().filter(|letter| is_printable(*letter)) {
        if manager.len() + letter.len_utf8() > MANAGER_LIMIT {
            break;
        }
        manager.push(letter);
    }
    manager
}

/// Whether a letter leaves ink, or is a plain space.
pub(super) fn is_printable(letter: char) -> bool {
    letter == ' ' || !(letter.is_control() || letter.is_whitespace())
}
