//! Create, update and patch.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::Value;
use steersman_api::{ObjectKey, Uid};

use super::answer::{shape_of, with_warnings};
use super::apply::APPLY;
use super::body::ResponseBody;
use super::checks::{check_name, check_preconditions, check_type, check_weight};
use super::incoming::{Incoming, conform, is_strict, object_of, patch_type};
use super::negotiate::{Answered, media_type};
use super::options::{Commit, WriteOptions};
use super::request::{Request, Verb};
use super::server::ApiServer;
use super::track::{Tracking, manager_of};
use crate::access::Identity;
use crate::admission::Admission;
use crate::codec::{self, Format};
use crate::depth;
use crate::field::FieldError;
use crate::managed_fields;
use crate::meta;
use crate::names;
use crate::object;
use crate::patch::Patch;
use crate::refusal::{Refusal, Result};
use crate::registry::Resource;
use crate::store::{self, Object};

/// How often a write is tried again that another write got ahead of. Upstream's number for patches.
const ATTEMPTS: usize = 6;
/// How often another name is generated when one is taken. From upstream.
const NAMES: usize = 8;

impl ApiServer {
    /// A new object, or something done to one through a subresource.
    pub(super) fn create(&self, request: &Request) -> Result<Response<ResponseBody>> {
        if !request.call.subresource.is_empty() {
            return self.create_through_subresource(request);
        }
        let shape = shape_of(request, Answered::Object)?;
        let options = WriteOptions::of_create(request)?;
        let Incoming { mut object, warnings } = object_of(request)?;
        self.track_new(&request.call.resource, &mut object, &manager_of(request, &options));
        let object = self.add(request, object, options.commit)?;
        let answer =
            self.object_answer(StatusCode::CREATED, &object.served_as(&request.call.resource), shape)?;
        Ok(with_warnings(answer, &warnings))
    }

    /// Adds an object in the form of its kind.
    fn add(&self, request: &Request, object: Value, commit: Commit) -> Result<Arc<Object>> {
        let call = &request.call;
        let resource = &call.resource;
        let base = object::text_at(&object, "metadata.generateName");
        let generated = object::text_at(&object, "metadata.name").is_empty() && !base.is_empty();
        for attempt in 1.. {
            let mut object = object.clone();
            if generated {
                object::metadata(&mut object).insert("name".to_owned(), names::generate(&base).into());
            }
            match self.add_named(Some(request), resource, &call.namespace, object, commit) {
                Err(refusal) if generated && refusal.status.reason == "AlreadyExists" => {
                    if attempt == NAMES {
                        let name = refusal.status.details.map(|details| details.name).unwrap_or_default();
                        return Err(Refusal::generated_name_taken(resource, &name));
                    }
                }
                added => return added,
            }
        }
        unreachable!("the loop must end in one of its arms")
    }

    /// Adds an object that has a name, with the managers that it says; without a request it is the server itself that does.
    pub(super) fn add_named(
        &self,
        request: Option<&Request>,
        resource: &Arc<Resource>,
        namespace: &str,
        mut object: Value,
        commit: Commit,
    ) -> Result<Arc<Object>> {
        let managed = managed_fields::take(&mut object);
        meta::place(resource, namespace, &mut object)?;
        let name = object::text_at(&object, "metadata.name");
        if resource.namespaced() {
            self.check_namespace(resource, namespace, &name)?;
        }
        if let Some(request) = request {
            self.check_grant(request, &object, None)?;
        }
        if !object::text_at(&object, "metadata.resourceVersion").is_empty() {
            return Err(Refusal::version_on_create());
        }
        let context = self.context(resource, "");
        let members = object::members(&mut object);
        // Kinds whose status is written apart begin without one.
        if resource.has_status() && !resource.traits.status_on_create {
            members.remove("status");
        }
        meta::drop_system_fields(&mut object);
        let metadata = object::metadata(&mut object);
        metadata.insert("uid".to_owned(), Uid::random().to_string().into());
        metadata.insert("creationTimestamp".to_owned(), meta::stamp(context.now).into());
        if resource.traits.generation {
            metadata.insert("generation".to_owned(), 1.into());
        }
        let who = request.map(|request| &request.who);
        let admission = self.admission(resource, namespace, who);
        admission.admit_new(&mut object)?;
        // One at a time: what this object gets for itself, no other may get meanwhile.
        let _turn = self.turn().lock();
        // The namespace may have ended since it was checked above. From here on it can't: that takes a turn as well.
        if resource.namespaced() {
            self.check_namespace(resource, namespace, &name)?;
        }
        resource.strategy.prepare_for_create(&context, &mut object)?;
        admission.admit_prepared(&mut object)?;
        let errors = if name.is_empty() {
            vec![FieldError::required("metadata.name", "name or generateName is required")]
        } else {
            let mut errors = meta::validate(resource, &object);
            errors.extend(resource.strategy.validate(&context, &object));
            errors
        };
        if !errors.is_empty() {
            return Err(Refusal::invalid(resource, &name, &errors));
        }
        let charges = admission.admit_valid(&object)?;
        let mut object = self.shown(resource, object)?;
        let key = ObjectKey::new(namespace, name.as_str());
        if commit == Commit::DryRun {
            if self.store().get(&resource.table, &key).is_some() {
                return Err(Refusal::already_exists(resource, &name));
            }
            managed_fields::put(&mut object, managed);
            return Ok(Arc::new(Object::unstored(Arc::clone(resource), key, object)));
        }
        let stored = self.stored_as(resource);
        let mut object = stored.convert_from(resource, &object);
        managed_fields::put(&mut object, managed);
        check_weight(&object)?;
        let added = self.store_new(resource, &stored, key, object)?;
        let added = added.map_err(|error| {
            if error == store::Error::NoSpace {
                return Refusal::no_space();
            }
            let refusal = Refusal::already_exists(resource, &name);
            let there = self.existing(resource, namespace, &name);
            let deleting = there.is_ok_and(|there| there.deletion_timestamp().is_some());
            if deleting { refusal.while_deleting() } else { refusal }
        })?;
        charges.settle(self.store());
        self.noticed(None, &added);
        Ok(added)
    }

    pub(super) fn admission<'a>(
        &'a self,
        resource: &'a Resource,
        namespace: &'a str,
        who: Option<&'a Identity>,
    ) -> Admission<'a> {
        let (store, settings, now) = (self.store(), self.settings(), self.clock().now());
        // Where everybody may do everything, nodes may as well.
        let restricts_nodes = !self.is_open();
        Admission { store, settings, resource, namespace, who, restricts_nodes, now }
    }

    /// The resource in whose form objects of this one are kept.
    pub(super) fn stored_as(&self, resource: &Arc<Resource>) -> Arc<Resource> {
        self.resources().storage(resource)
    }

    /// In the canonical form again, after defaults were filled in. Refuses an object that is too deep for clients to read.
    pub(super) fn shown(&self, resource: &Resource, object: Value) -> Result<Value> {
        if depth::of(&object) > depth::LIMIT {
            return Err(Refusal::bad_request(depth::message()));
        }
        match resource.schema {
            Some(kind) => codec::normalize(kind, &object).map_err(|error| match error {
                codec::Error::TooManyValues => Refusal::too_many_values(),
                error => Refusal::internal(error),
            }),
            None => Ok(object),
        }
    }

    /// Does to an object what a POST to its subresource asks for.
    fn create_through_subresource(&self, request: &Request) -> Result<Response<ResponseBody>> {
        match (request.call.resource.plural.as_str(), request.call.subresource.as_str()) {
            ("pods", "binding") => self.bind(request),
            ("pods", "eviction") => self.evict(request),
            ("serviceaccounts", "token") => self.issue_token(request),
            _ => Err(Refusal::not_implemented(&request.call)),
        }
    }

    /// Refuses to make an object in a namespace that does not exist, or is being deleted.
    fn check_namespace(&self, resource: &Resource, namespace: &str, name: &str) -> Result<()> {
        let resources = self.resources();
        let Some(namespaces) = resources.get("", "v1", "namespaces") else { return Ok(()) };
        let found = self.existing(namespaces, "", namespace)?;
        if found.deletion_timestamp().is_some() {
            return Err(Refusal::namespace_terminating(resource, name, namespace));
        }
        Ok(())
    }

    /// Another state in place of an object's.
    pub(super) fn update(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let call = &request.call;
        if call.subresource == "scale" {
            return self.update_scale(request);
        }
        let shape = shape_of(request, Answered::Object)?;
        let options = WriteOptions::of_update(request)?;
        let Incoming { mut object, warnings } = object_of(request)?;
        check_name(&call.name, &object)?;
        let manager = manager_of(request, &options);
        let creates = call.resource.traits.create_on_update && call.subresource.is_empty();
        if creates && self.existing(&call.resource, &call.namespace, &call.name).is_err() {
            self.check_also(request, Verb::Create)?;
            self.track_new(&call.resource, &mut object, &manager);
            let (resource, namespace) = (&call.resource, &call.namespace);
            let object = self.add_named(Some(request), resource, namespace, object, options.commit)?;
            let answer = self.object_answer(StatusCode::CREATED, &object.served_as(&call.resource), shape)?;
            return Ok(with_warnings(answer, &warnings));
        }
        let tracking = Tracking::Manager(&manager);
        let written = self.modify(request, options.commit, tracking, |_| Ok(object.clone()))?;
        let answer = self.object_answer(StatusCode::OK, &written.served_as(&call.resource), shape)?;
        Ok(with_warnings(answer, &warnings))
    }

    /// A change to an object's state.
    pub(super) fn patch(&self, request: &Request) -> Result<Response<ResponseBody>> {
        if request.call.subresource == "scale" {
            return self.patch_scale(request);
        }
        if media_type(&request.headers) == APPLY {
            return self.apply(request);
        }
        let shape = shape_of(request, Answered::Object)?;
        let patch_type = patch_type(request)?;
        let options = WriteOptions::of_patch(request)?;
        let patch = Patch::parse(patch_type, &request.body)?;
        let mut warnings = Vec::new();
        let manager = manager_of(request, &options);
        let written = self.modify(request, options.commit, Tracking::Manager(&manager), |old| {
            let mut patched = patch.apply(request.call.resource.schema, old)?;
            // Nothing of it needs to be read unless the patch is about it.
            if patched["metadata"].get("managedFields") == old["metadata"].get("managedFields") {
                managed_fields::take(&mut patched);
            }
            check_type(&request.call.resource, &patched)?;
            let incoming = match conform(request, patched.clone(), Format::Json) {
                Err(refusal) if refusal.status.code == 400 && !is_strict(request) => {
                    return Err(Refusal::patch_misfits(&patched, &refusal.status.message));
                }
                incoming => incoming?,
            };
            check_name(&request.call.name, &incoming.object)?;
            warnings = incoming.warnings;
            Ok(incoming.object)
        })?;
        let answer = self.object_answer(StatusCode::OK, &written.served_as(&request.call.resource), shape)?;
        Ok(with_warnings(answer, &warnings))
    }

    /// Writes what `change` makes of the present state, and tries again where another write came first.
    pub(super) fn modify(
        &self,
        request: &Request,
        commit: Commit,
        tracking: Tracking<'_>,
        mut change: impl FnMut(&Value) -> Result<Value>,
    ) -> Result<Arc<Object>> {
        let call = &request.call;
        let resource = &call.resource;
        for _ in 0..ATTEMPTS {
            let seen = self.existing(resource, &call.namespace, &call.name)?;
            let stored = seen.parsed();
            let shown = if Arc::ptr_eq(&seen.resource, resource) {
                Arc::clone(&stored)
            } else {
                seen.served_as(resource).parsed()
            };
            let new = change(&shown)?;
            let old = Old { seen: &seen, stored: &stored, shown: &shown };
            match self.replace(request, old, new, commit, tracking) {
                Err(Write::Overtaken) => {}
                Err(Write::Refused(refusal)) => return Err(refusal),
                Ok(written) => return Ok(written),
            }
        }
        Err(Refusal::modified(resource, &call.name))
    }

    /// One attempt at a write.
    fn replace(
        &self,
        request: &Request,
        old: Old<'_>,
        mut new: Value,
        commit: Commit,
        tracking: Tracking<'_>,
    ) -> std::result::Result<Arc<Object>, Write> {
        let Old { seen, stored, shown: old } = old;
        let call = &request.call;
        let resource = &call.resource;
        self.check_grant(request, &new, Some(old))?;
        check_preconditions(request, seen, &new)?;
        meta::place(resource, &call.namespace, &mut new)?;
        let managed = match tracking {
            Tracking::Manager(manager) => {
                self.track(call, old, &mut new, manager);
                managed_fields::take(&mut new)
            }
            Tracking::Done => managed_fields::take(&mut new),
            Tracking::Off => {
                managed_fields::take(&mut new);
                old["metadata"].get("managedFields").cloned()
            }
        };
        let subresource = call.subresource.as_str();
        let context = self.context(resource, subresource);
        let mut errors = meta::validate_system_fields(&new, old);
        meta::keep_system_fields(&mut new, old);
        let _turn = self.turn().lock();
        match subresource {
            "" => {
                if resource.has_status() {
                    object::carry_over(&mut new, old, "status");
                }
                resource.strategy.prepare_for_update(&context, &mut new, old)?;
                meta::count_generation(resource, &mut new, old);
            }
            _ => resource.strategy.prepare_through(&context, &mut new, old),
        }
        errors.extend(meta::validate_update(&new, old));
        errors.extend(meta::validate(resource, &new));
        errors.extend(match subresource {
            "" => resource.strategy.validate_update(&context, &new, old),
            _ => resource.strategy.validate_through(&context, &new, old),
        });
        if !errors.is_empty() {
            return Err(Refusal::invalid(resource, &call.name, &errors).into());
        }
        managed_fields::take(&mut new);
        let who = Some(&request.who).filter(|_| !self.is_open());
        let admission = self.admission(resource, &call.namespace, who);
        let charges = admission.admit_change(subresource, &new, old)?;
        let mut new = self.shown(resource, new)?;
        let done = meta::is_finished(resource, &new);
        if commit == Commit::DryRun {
            managed_fields::put(&mut new, managed);
            object::metadata(&mut new).insert("resourceVersion".to_owned(), seen.version.to_string().into());
            return Ok(Arc::new(Object::unstored(Arc::clone(resource), seen.key.clone(), new)));
        }
        let mut new = seen.resource.convert_from(resource, &new);
        // What this write may not touch stays as it is kept: another form may not be able to tell all of it.
        if !Arc::ptr_eq(&seen.resource, resource) {
            match subresource {
                "" if resource.has_status() => object::carry_over(&mut new, stored, "status"),
                "status" => object::carry_over(&mut new, stored, "spec"),
                _ => {}
            }
        }
        // Nothing changes but times: nothing is written, and watches hear nothing.
        let same_managers =
            managed_fields::same_but_times(managed.as_ref(), stored["metadata"].get("managedFields"));
        if !done && same_managers && meta::is_same(&new, stored) {
            return Ok(Arc::clone(seen));
        }
        managed_fields::put(&mut new, managed);
        if !done {
            check_weight(&new)?;
            let written = self.store().replace(seen, new)?;
            charges.settle(self.store());
            self.noticed(Some(seen), &written);
            return Ok(written);
        }
        // The last finalizer of an object that was to go: it goes. Watches see its last stored state, as upstream.
        let removed = self.store().remove(seen)?;
        self.vanished(&removed);
        object::metadata(&mut new).insert("resourceVersion".to_owned(), seen.version.to_string().into());
        Ok(Arc::new(Object::unstored(Arc::clone(&seen.resource), seen.key.clone(), new)))
    }
}

/// What a write is to replace.
#[derive(Clone, Copy)]
struct Old<'a> {
    seen: &'a Arc<Object>,
    /// What is in it.
    stored: &'a Value,
    /// The same, as the resource of the call shows it.
    shown: &'a Value,
}

/// Why one attempt at a write failed.
enum Write {
    /// Another write came first: try again.
    Overtaken,
    /// For good.
    Refused(Refusal),
}

impl From<Refusal> for Write {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<store::Error> for Write {
    fn from(error: store::Error) -> Self {
        if error == store::Error::NoSpace { Self::Refused(Refusal::no_space()) } else { Self::Overtaken }
    }
}

#[cfg(test)]
mod tests;
