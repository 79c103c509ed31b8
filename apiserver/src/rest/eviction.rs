//! Evictions: deletes that disruption budgets may refuse (`pods/eviction`).

use std::sync::Arc;

use http::Response;
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::ObjectKey;

use super::answer::done;
use super::answer::shape_of;
use super::body::ResponseBody;
use super::delete::check_preconditions;
use super::incoming::{body_of, other_kind};
use super::negotiate::Answered;
use super::options::{Commit, DeleteOptions};
use super::request::Request;
use super::server::ApiServer;
use crate::meta;
use crate::object::{self, at, int_at, list_at, text_at};
use crate::refusal::{Refusal, Result};
use crate::registry::Resource;
use crate::select::selector_of;
use crate::store::{self, Object};

/// How often it is tried again where other writes get ahead; from upstream.
const ATTEMPTS: usize = 20;
/// More pods that are about to go are not noted in a budget; from upstream.
const MOST_DISRUPTED: usize = 2000;
/// When a client should come back whose budget is being worked on, in seconds; from upstream.
const SOON: i32 = 10;

/// What a budget says to the eviction of a pod of its own.
#[derive(Debug)]
enum Verdict {
    /// The pod is no loss as it is; it must still be so when it goes.
    NoLoss,
    /// It costs one disruption: the budget's status afterwards.
    Costs(Value),
}

impl ApiServer {
    /// Deletes a pod, if its budget can bear it.
    pub(super) fn evict(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let call = &request.call;
        let eviction = body_of(request, "Eviction")?;
        check_body(request, &eviction)?;
        let pod = self.existing(&call.resource, &call.namespace, &call.name)?;
        self.admission(&call.resource, &call.namespace, Some(&request.who)).admit_eviction(&pod)?;
        let options = eviction.get("deleteOptions").filter(|options| options.is_object());
        let mut options = options.map(DeleteOptions::from_value).transpose()?.unwrap_or_default();
        if Commit::parse(&request.query)? == Commit::DryRun {
            options.commit = Commit::DryRun;
        }
        let pod = match self.evict_unguarded(request, &options)? {
            None => return Ok(done(shape_of(request, Answered::Object)?)),
            Some(pod) => pod,
        };
        let mut budget_name = None;
        let mut pinned = options.clone();
        if let Some(budget) = self.only_budget(&pod)? {
            budget_name = Some(budget.key.name.to_string());
            if !self.spend(budget, &pod, options.commit)? {
                // It may have become healthy meanwhile.
                pinned.version = Some(pod.version.to_string());
            }
        }
        match self.condemn(&call.resource, &pod.key, &pinned) {
            Err(refusal)
                if is_conflict(&refusal) && options.version.is_none() && pinned.version.is_some() =>
            {
                Err(Refusal::budget_is_behind(&budget_name.unwrap_or_default(), SOON))
            }
            Err(refusal) => Err(refusal),
            Ok(()) => Ok(done(shape_of(request, Answered::Object)?)),
        }
    }

    /// Deletes a pod that no budget counts. Another one comes back.
    fn evict_unguarded(&self, request: &Request, options: &DeleteOptions) -> Result<Option<Arc<Object>>> {
        let call = &request.call;
        for attempt in 1.. {
            let pod = self.existing(&call.resource, &call.namespace, &call.name)?;
            let phase = pod.field("status.phase");
            let going = pod.deletion_timestamp().is_some();
            if !going && !matches!(&*phase, "Succeeded" | "Failed" | "Pending") {
                return Ok(Some(pod));
            }
            let mut pinned = options.clone();
            // One that is to start yet must not have started when it goes.
            if !going && phase == "Pending" && options.version.is_none() {
                pinned.version = Some(pod.version.to_string());
            }
            match self.condemn(&call.resource, &pod.key, &pinned) {
                Err(refusal) if is_conflict(&refusal) && options.version.is_none() && attempt < ATTEMPTS => {}
                Err(refusal) => return Err(refusal),
                Ok(()) => return Ok(None),
            }
        }
        unreachable!("the loop must end in one of its arms")
    }

    /// The budget that counts a pod, if there is one.
    fn only_budget(&self, pod: &Object) -> Result<Option<Arc<Object>>> {
        let table = "poddisruptionbudgets.policy".into();
        let budgets = self.store().snapshot(&table, &pod.key.namespace, None);
        let mut budgets = budgets.map_err(Refusal::internal)?.objects.into_iter().filter(|budget| {
            let selector = selector_of(at(&budget.parsed(), "spec.selector"));
            selector.is_some_and(|selector| selector.matches_with(|key| pod.label(key)))
        });
        match (budgets.next(), budgets.next()) {
            (_, Some(_)) => Err(Refusal::unforeseen(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            )),
            (only, None) => Ok(only),
        }
    }

    /// Has a budget pay for an eviction. `false`: it costs nothing as long as the pod stays as it is.
    fn spend(&self, mut budget: Arc<Object>, pod: &Object, commit: Commit) -> Result<bool> {
        for _ in 0..ATTEMPTS {
            let found = budget.parsed();
            let status = match judge(&pod.parsed(), &found, self.clock().now())? {
                Verdict::NoLoss => return Ok(false),
                Verdict::Costs(status) => status,
            };
            if commit == Commit::DryRun {
                return Ok(true);
            }
            let mut new = found.as_ref().clone();
            new["status"] = status;
            match self.store().replace(&budget, self.shown(&budget.resource, new)?) {
                Ok(written) => {
                    self.noticed(Some(&budget), &written);
                    return Ok(true);
                }
                Err(store::Error::NoSpace) => return Err(Refusal::no_space()),
                Err(_) => {}
            }
            let ObjectKey { namespace, name } = &budget.key;
            budget = self.existing(&budget.resource, namespace, name)?;
        }
        let why = format!("couldn't update PodDisruptionBudget {:?} due to conflicts", budget.key.name);
        Err(Refusal::took_too_long(why, SOON))
    }

    /// Notes on a pod why it goes, and deletes it.
    fn condemn(&self, resource: &Arc<Resource>, key: &ObjectKey, options: &DeleteOptions) -> Result<()> {
        let mut options = options.clone();
        if options.commit == Commit::Write {
            let written = self.note_eviction(resource, key, &options)?;
            // It was we who made another version of it.
            if options.version.is_some() {
                options.version = Some(written.version.to_string());
            }
        }
        self.remove(resource, &key.namespace, &key.name, &options).map(drop)
    }

    fn note_eviction(
        &self,
        resource: &Arc<Resource>,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<Arc<Object>> {
        loop {
            let pod = self.existing(resource, &key.namespace, &key.name)?;
            check_preconditions(resource, &pod, options)?;
            let seen = pod.parsed();
            let mut new = seen.as_ref().clone();
            note_disruption(&mut new, self.clock().now());
            let new = self.shown(resource, new)?;
            if meta::is_same(&new, &seen) {
                return Ok(pod);
            }
            match self.store().replace(&pod, new) {
                Ok(written) => {
                    self.noticed(Some(&pod), &written);
                    return Ok(written);
                }
                Err(store::Error::NoSpace) => return Err(Refusal::no_space()),
                // Overtaken by another write: look again.
                Err(_) => {}
            }
        }
    }
}

fn is_conflict(refusal: &Refusal) -> bool {
    refusal.status.reason == "Conflict"
}

/// The body is an eviction of the pod in the path.
fn check_body(request: &Request, eviction: &Value) -> Result<()> {
    let (api_version, kind) = (text_at(eviction, "apiVersion"), text_at(eviction, "kind"));
    let known = matches!(api_version.as_str(), "" | "policy/v1" | "policy/v1beta1");
    if !known || !matches!(kind.as_str(), "" | "Eviction") {
        return Err(other_kind(&kind, &api_version, "Eviction"));
    }
    let call = &request.call;
    if text_at(eviction, "metadata.name") != call.name {
        return Err(Refusal::bad_request("name in URL does not match name in Eviction object"));
    }
    let namespace = text_at(eviction, "metadata.namespace");
    if !namespace.is_empty() && namespace != call.namespace {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Refusal::bad_request(why));
    }
    Ok(())
}

/// What a budget says to the eviction of one of its pods.
///
/// # Errors
/// It can't bear it.
fn judge(pod: &Value, budget: &Value, now: Timestamp) -> Result<Verdict> {
    let name = text_at(budget, "metadata.name");
    let number = |path: &str| int_at(budget, path).unwrap_or(0);
    let (healthy, desired) = (number("status.currentHealthy"), number("status.desiredHealthy"));
    if !is_ready(pod) {
        let always = text_at(budget, "spec.unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if always || (healthy >= desired && desired > 0) {
            return Ok(Verdict::NoLoss);
        }
    }
    if number("status.observedGeneration") < number("metadata.generation") {
        return Err(Refusal::budget_is_behind(&name, SOON));
    }
    let allowed = number("status.disruptionsAllowed");
    if allowed < 0 {
        return Err(Refusal::budget_is_broken(&name, "pdb disruptions allowed is negative"));
    }
    let disrupted = at(budget, "status.disruptedPods").and_then(Value::as_object);
    if disrupted.is_some_and(|disrupted| disrupted.len() > MOST_DISRUPTED) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Refusal::budget_is_broken(&name, why));
    }
    if allowed == 0 {
        return Err(Refusal::over_budget(why_not(&name, budget, healthy, desired), None));
    }
    let mut status = budget["status"].clone();
    let members = object::members(&mut status);
    members.insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
    object::members_at(&mut status, "disruptedPods")
        .insert(text_at(pod, "metadata.name"), meta::stamp(now).into());
    if allowed == 1 {
        note_exhausted(&mut status, now);
    }
    Ok(Verdict::Costs(status))
}

/// Why a budget allows no disruption.
fn why_not(name: &str, budget: &Value, healthy: i64, desired: i64) -> String {
    let conditions = list_at(budget, "status.conditions").iter();
    let mut denied = conditions
        .filter(|condition| text_at(condition, "type") == "DisruptionAllowed")
        .filter(|condition| text_at(condition, "status") == "False")
        .map(|condition| (text_at(condition, "reason"), text_at(condition, "message")))
        .filter(|(_, message)| !message.is_empty());
    let currently = format!("The disruption budget {name} does not allow evicting pods currently");
    match denied.next() {
        // What it counts is not to be trusted then.
        Some((reason, message)) if reason == "SyncFailed" => {
            format!("{currently} because it failed sync: {message}")
        }
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => format!("{currently} ({reason}): {message}"),
        None => currently,
    }
}

/// Whether a pod counts as healthy.
fn is_ready(pod: &Value) -> bool {
    let mut conditions = list_at(pod, "status.conditions").iter();
    conditions.any(|of| text_at(of, "type") == "Ready" && text_at(of, "status") == "True")
}

/// Sets the condition `DisruptionAllowed` in a budget's status to `False`.
fn note_exhausted(status: &mut Value, now: Timestamp) {
    let condition = json!({
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": status["observedGeneration"],
        "lastTransitionTime": meta::stamp(now),
    });
    object::set_condition(object::members(status), condition);
}

/// Sets the pod's condition `DisruptionTarget` to `True`.
fn note_disruption(pod: &mut Value, now: Timestamp) {
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": null,
        "lastTransitionTime": meta::stamp(now),
    });
    object::set_condition(object::members_at(pod, "status"), condition);
}

#[cfg(test)]
mod tests {
    use steersman_testing::pod;

    use super::*;

    fn budget(allowed: i64, healthy: i64, desired: i64) -> Value {
        json!({
            "metadata": {"name": "b", "generation": 2},
            "spec": {},
            "status": {
                "observedGeneration": 2, "disruptionsAllowed": allowed,
                "currentHealthy": healthy, "desiredHealthy": desired,
            },
        })
    }

    fn with_condition(mut budget: Value, reason: &str, message: &str) -> Value {
        let condition =
            json!({"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message});
        budget["status"]["conditions"] = json!([condition]);
        budget
    }

    /// In short: what is left, or the code and the cause.
    fn verdict(pod: &Value, budget: &Value) -> String {
        match judge(pod, budget, Timestamp::UNIX_EPOCH) {
            Ok(Verdict::NoLoss) => "no loss".to_owned(),
            Ok(Verdict::Costs(status)) => format!("{} left", status["disruptionsAllowed"]),
            Err(refusal) => {
                let causes = refusal.status.details.map(|details| details.causes).unwrap_or_default();
                let cause = causes.first().map_or(refusal.status.message, |cause| cause.message.clone());
                format!("{}: {cause}", refusal.status.code)
            }
        }
    }

    #[test]
    fn a_budget_bears_what_it_allows() {
        let behind = {
            let mut budget = budget(1, 2, 1);
            budget["metadata"]["generation"] = 3.into();
            budget
        };
        let currently = "429: The disruption budget b does not allow evicting pods currently";
        for (budget, said) in [
            (budget(3, 5, 1), "2 left".to_owned()),
            (budget(1, 2, 1), "0 left".to_owned()),
            (
                budget(0, 1, 1),
                "429: The disruption budget b needs 1 healthy pods and has 1 currently".to_owned(),
            ),
            (behind, "429: The disruption budget b is still being processed by the server.".to_owned()),
            (budget(0, 3, 1), currently.to_owned()),
            (
                with_condition(budget(0, 3, 1), "InsufficientPods", "hm"),
                format!("{currently} (InsufficientPods): hm"),
            ),
            (
                with_condition(budget(0, 0, 0), "SyncFailed", "no controller"),
                format!("{currently} because it failed sync: no controller"),
            ),
            (
                budget(-1, 1, 1),
                "403: poddisruptionbudget.policy \"b\" is forbidden: pdb disruptions allowed is negative"
                    .to_owned(),
            ),
        ] {
            assert_eq!(verdict(&pod("p").ready().build(), &budget), said, "{budget}");
        }
    }

    #[test]
    fn a_pod_that_is_not_ready_is_no_loss_where_the_others_are_enough() {
        let always = {
            let mut budget = budget(0, 0, 1);
            budget["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow".into();
            budget
        };
        let needs = |desired: i64| {
            format!("429: The disruption budget b needs {desired} healthy pods and has 0 currently")
        };
        for (budget, said) in [
            (always, "no loss".to_owned()),
            (budget(0, 1, 1), "no loss".to_owned()),
            (budget(0, 0, 1), needs(1)),
            (budget(0, 0, 0), needs(0)),
            (budget(2, 0, 1), "1 left".to_owned()),
        ] {
            assert_eq!(verdict(&pod("p").unready().build(), &budget), said, "{budget}");
        }
    }

    #[test]
    fn the_last_disruption_is_noted_as_such() {
        let Ok(Verdict::Costs(status)) =
            judge(&pod("p").ready().build(), &budget(1, 2, 1), Timestamp::UNIX_EPOCH)
        else {
            panic!("it must be allowed")
        };
        let epoch = "1970-01-01T00:00:00Z";
        assert_eq!(status["disruptedPods"], json!({"p": epoch}));
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "observedGeneration": 2, "lastTransitionTime": epoch,
        });
        assert_eq!(status["conditions"], json!([condition]));
    }
}
