//! Delete and deletecollection.

use std::sync::Arc;

use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use steersman_api::ObjectKey;

use super::answer::with_warnings;
use super::answer::{shape_of, success};
use super::body::ResponseBody;
use super::negotiate::Answered;
use super::options::{Commit, DeleteOptions, ListOptions, Propagation};
use super::request::Request;
use super::server::ApiServer;
use crate::access::Identity;
use crate::meta;
use crate::object::{self, finalizers};
use crate::refusal::{Refusal, Result};
use crate::registry::{Collection, Resource};
use crate::store::{self, Object};

/// The finalizer that holds an owner until its dependents are gone.
const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that holds an owner until its dependents no longer name it.
const ORPHAN: &str = "orphan";

/// The table of namespaces.
const NAMESPACES: &str = "namespaces";

/// What those are told who delete a job and do not say what shall become of its pods.
const JOBS_ORPHAN: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
    remove them or set propagationPolicy=Orphan to suppress this warning";

/// What became of an object that was to be deleted.
pub(super) enum Deleted {
    /// It is gone; its last state.
    Gone(Arc<Object>),
    /// Something holds it; its present state.
    Held(Arc<Object>),
}

/// What a delete does to a state.
enum Step {
    /// It goes at once.
    Remove,
    /// It becomes this; if the flag is set and nothing else holds it, it then goes at once.
    Mark(Value, Then),
    /// It is going already, and nothing is to be added.
    Nothing,
}

#[derive(PartialEq, Eq)]
enum Then {
    Wait,
    Remove,
}

impl ApiServer {
    /// One object shall go.
    pub(super) fn delete(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let call = &request.call;
        let resource = &call.resource;
        let shape = shape_of(request, Answered::Object)?;
        let options = DeleteOptions::parse(request)?;
        let answer =
            match self.remove_for(Some(&request.who), resource, &call.namespace, &call.name, &options)? {
                Deleted::Gone(last) if !resource.traits.returns_deleted => {
                    success(resource, &call.name, last.uid(), shape)
                }
                Deleted::Gone(object) | Deleted::Held(object) => {
                    self.object_answer(StatusCode::OK, &object.served_as(resource), shape)?
                }
            };
        let surprising = resource.table == "jobs.batch" && options.propagation.is_none();
        let warning = surprising.then(|| JOBS_ORPHAN.to_owned());
        Ok(with_warnings(answer, warning.as_slice()))
    }

    /// Many objects shall go. The answer lists them as they were when they were found.
    pub(super) async fn delete_collection(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let call = &request.call;
        let options = DeleteOptions::parse(request)?;
        let list = ListOptions::parse(request)?;
        let page = self.page(&call.resource, &list).await?;
        for object in &page.objects {
            let ObjectKey { namespace, name } = &object.key;
            match self.remove_for(Some(&request.who), &call.resource, namespace, name, &options) {
                Err(refusal) if refusal.status.code == 404 => {}
                Err(refusal) => return Err(refusal),
                Ok(_) => {}
            }
        }
        self.list_answer(request, page).await
    }

    /// Deletes as the kind and the options want it: the server itself does it.
    pub(super) fn remove(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted> {
        self.remove_for(None, resource, namespace, name, options)
    }

    /// As [`remove`](Self::remove), for somebody.
    fn remove_for(
        &self,
        who: Option<&Identity>,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted> {
        loop {
            let seen = self.existing(resource, namespace, name)?;
            self.admission(resource, namespace, who).admit_delete(&seen)?;
            check_preconditions(resource, &seen, options)?;
            self.may_delete(resource, name)?;
            // Creates check their namespace in their turn: each is either stored before the mark, or sees it.
            let _turn = (resource.table == NAMESPACES).then(|| self.turn().lock());
            let done = match next_step(&seen, options, self.clock().now()) {
                _ if options.commit == Commit::DryRun => return Ok(Deleted::Gone(seen)),
                Step::Nothing => return Ok(Deleted::Held(seen)),
                Step::Remove => self.store().remove(&seen),
                Step::Mark(new, Then::Wait) => match self.store().replace(&seen, new) {
                    Ok(marked) => {
                        self.noticed(Some(&seen), &marked);
                        return Ok(Deleted::Held(marked));
                    }
                    Err(stale) => Err(stale),
                },
                // Two writes, as upstream: watches see the mark, then the end.
                Step::Mark(new, Then::Remove) => {
                    self.store().replace(&seen, new).and_then(|marked| self.store().remove(&marked))
                }
            };
            match done {
                Ok(last) => {
                    self.vanished(&last);
                    return Ok(Deleted::Gone(last));
                }
                Err(store::Error::NoSpace) => return Err(Refusal::no_space()),
                // Overtaken by another write: look again.
                Err(_) => {}
            }
        }
    }
}

/// The uid and the version that the options name must be the object's.
pub(super) fn check_preconditions(resource: &Resource, seen: &Object, options: &DeleteOptions) -> Result<()> {
    let version = seen.version.to_string();
    let mismatch = [
        ("UID", &options.uid, seen.uid(), "The object might have been deleted and then recreated"),
        ("ResourceVersion", &options.version, &version, "The object might have been modified"),
    ];
    for (what, wanted, found, guess) in mismatch {
        if let Some(wanted) = wanted
            && wanted != found
        {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). {guess}"
            );
            return Err(Refusal::conflict_of_kind(resource, &seen.key.name, why));
        }
    }
    Ok(())
}

/// What to do to an object, as upstream's `BeforeDelete` and the store behind it.
fn next_step(seen: &Object, options: &DeleteOptions, now: Timestamp) -> Step {
    let resource = &seen.resource;
    let old = seen.parsed();
    let mut new = old.as_ref().clone();
    let asked = options.grace.map(|grace| if grace < 0 { 1 } else { grace });
    let grace = resource.strategy.grace(&old, asked);
    let deleting = object::at(&old, "metadata.deletionTimestamp").is_some();
    let pending = object::int_at(&old, "metadata.deletionGracePeriodSeconds").unwrap_or(0);
    let graceful = match grace {
        None => None,
        // The grace may only be shortened.
        Some(_) if deleting && pending > 0 => match asked {
            Some(asked) if asked < pending => Some(shorten(&mut new, asked, pending, now)),
            _ => return Step::Nothing,
        },
        Some(_) if deleting => None,
        Some(grace) => {
            mark(&mut new, now, grace);
            Some(grace)
        }
    };
    set_finalizers(&mut new, options, resource.traits.collection);
    let held = finalizers(&new).next().is_some() || resource.strategy.holds(&new);
    match graceful {
        Some(grace) if grace > 0 || held => Step::Mark(new, Then::Wait),
        Some(_) => Step::Mark(new, Then::Remove),
        None if !held => Step::Remove,
        None => {
            if !deleting {
                mark(&mut new, now, 0);
                resource.strategy.marked(&mut new);
            } else {
                object::metadata(&mut new).insert("deletionGracePeriodSeconds".to_owned(), 0.into());
                resource.strategy.marked(&mut new);
            }
            if meta::is_same(&new, &old) { Step::Nothing } else { Step::Mark(new, Then::Wait) }
        }
    }
}

/// Marks the object as going, `grace` seconds from now. What is wanted has changed, so the generation counts it.
fn mark(object: &mut Value, now: Timestamp, grace: i64) {
    let due = now.saturating_add(SignedDuration::from_secs(grace)).unwrap_or(Timestamp::MAX);
    let metadata = object::metadata(object);
    metadata.insert("deletionTimestamp".to_owned(), meta::stamp(due).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|count| *count > 0) {
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
}

/// Brings the end forward, but not into the past. Returns the grace that is left to it.
fn shorten(object: &mut Value, asked: i64, pending: i64, now: Timestamp) -> i64 {
    let due = object::text_at(object, "metadata.deletionTimestamp").parse().unwrap_or(now);
    let sooner = due.saturating_sub(SignedDuration::from_secs(pending - asked)).unwrap_or(now);
    // Too late for the grace that was asked for; somebody else still does the final delete, so it stays graceful.
    let (due, grace) = if sooner < now { (now, asked.min(1)) } else { (sooner, asked) };
    let metadata = object::metadata(object);
    metadata.insert("deletionTimestamp".to_owned(), meta::stamp(due).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    grace
}

/// Adds or removes what the garbage collector goes by.
fn set_finalizers(object: &mut Value, options: &DeleteOptions, collection: Collection) {
    let has = |name: &str| finalizers(object).any(|finalizer| finalizer == name);
    let default = match collection {
        _ if has(ORPHAN) => Some(ORPHAN),
        _ if has(FOREGROUND) => Some(FOREGROUND),
        Collection::Orphan => Some(ORPHAN),
        Collection::Delete | Collection::Unsupported => None,
    };
    let wanted = match options.propagation {
        _ if collection == Collection::Unsupported => None,
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Background) => None,
        None => default,
    };
    let mut list: Vec<Value> = finalizers(object)
        .filter(|finalizer| *finalizer != ORPHAN && *finalizer != FOREGROUND)
        .map(Value::from)
        .collect();
    list.extend(wanted.map(Value::from));
    let metadata = object::metadata(object);
    if list.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), list.into());
    }
}
