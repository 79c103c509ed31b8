//! Questions put by POST: who a token is, what somebody may do. They are answered, and not kept.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::answer::shape_of;
use super::answer::value_answer;
use super::body::ResponseBody;
use super::incoming::object_of;
use super::negotiate::Answered;
use super::request::{Call, Request, Verb};
use super::server::ApiServer;
use crate::access::{self, Attributes, ISSUER, Identity, SecretToken};
use crate::field::FieldError;
use crate::object::{self, list_at, text_at};
use crate::refusal::{Refusal, Result};

/// Which question a resource asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Review {
    Token,
    SelfSubject,
    SubjectAccess,
    LocalSubjectAccess,
    SelfSubjectAccess,
    SelfSubjectRules,
}

impl Review {
    /// The question that a call asks, if it asks one.
    pub(super) fn of(call: &Call) -> Option<Self> {
        if call.verb != Verb::Create || !call.subresource.is_empty() {
            return None;
        }
        match (call.resource.group.as_str(), call.resource.plural.as_str()) {
            ("authentication.k8s.io", "tokenreviews") => Some(Self::Token),
            ("authentication.k8s.io", "selfsubjectreviews") => Some(Self::SelfSubject),
            ("authorization.k8s.io", "subjectaccessreviews") => Some(Self::SubjectAccess),
            ("authorization.k8s.io", "localsubjectaccessreviews") => Some(Self::LocalSubjectAccess),
            ("authorization.k8s.io", "selfsubjectaccessreviews") => Some(Self::SelfSubjectAccess),
            ("authorization.k8s.io", "selfsubjectrulesreviews") => Some(Self::SelfSubjectRules),
            _ => None,
        }
    }
}

impl ApiServer {
    /// Answers a question.
    pub(super) fn review(&self, review: Review, request: &Request) -> Result<Response<ResponseBody>> {
        let shape = shape_of(request, Answered::Other)?;
        let mut object = object_of(request)?.object;
        let spec = object.get("spec").cloned().unwrap_or_default();
        let status = match review {
            Review::Token => self.token_status(&spec),
            Review::SelfSubject => json!({"userInfo": user_info(&request.who)}),
            Review::SelfSubjectRules => self.rules_status(&request.who, &spec)?,
            Review::SelfSubjectAccess => self.access_status(request, &request.who, &spec)?,
            Review::SubjectAccess => self.access_status(request, &subject_of(request, &spec)?, &spec)?,
            Review::LocalSubjectAccess => {
                if text_at(&spec, "resourceAttributes.namespace") != request.call.namespace {
                    let why = "must match metadata.namespace";
                    let error = FieldError::invalid("spec.resourceAttributes.namespace", "", why);
                    return Err(Refusal::invalid(&request.call.resource, "", &[error]));
                }
                self.access_status(request, &subject_of(request, &spec)?, &spec)?
            }
        };
        object::members(&mut object).insert("status".to_owned(), status);
        value_answer(StatusCode::CREATED, &object, shape)
    }

    fn token_status(&self, spec: &Value) -> Value {
        let asked: Vec<String> =
            list_at(spec, "audiences").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let audiences = if asked.is_empty() { vec![ISSUER.to_owned()] } else { asked };
        match self.reviewed(&text_at(spec, "token"), &audiences) {
            Ok((who, meant)) => {
                let good: Vec<_> =
                    audiences.into_iter().filter(|audience| meant.contains(audience)).collect();
                json!({"authenticated": true, "user": user_info(&who), "audiences": good})
            }
            Err(why) => json!({"user": {}, "error": format!("[invalid bearer token, {why}]")}),
        }
    }

    /// Whose token it is, and for which audiences it is meant, if that is one of `audiences`.
    fn reviewed(
        &self,
        token: &str,
        audiences: &[String],
    ) -> std::result::Result<(Identity, Vec<String>), String> {
        if let Some(claims) = self.signer().verify_of_secret(token) {
            // Tokens that Secrets keep name no audience: they are meant for the API server.
            if !audiences.iter().any(|audience| audience == ISSUER) {
                let why =
                    format!("token audiences [{ISSUER:?}] is invalid for the target audiences {audiences:?}");
                return Err(why);
            }
            let found = SecretToken::find(self.store(), token, &claims)?;
            self.note_use(&found);
            return found.identity.map(|who| (who, vec![ISSUER.to_owned()]));
        }
        let now = self.clock().now();
        // A bootstrap token is for the API server alone.
        if let Some(who) = access::user_of_token(self.store(), token, now)
            && audiences.iter().any(|audience| audience == ISSUER)
        {
            return Ok((who, vec![ISSUER.to_owned()]));
        }
        let now = now.as_second();
        let claims = self.signer().verify(token, audiences, now);
        let found = claims
            .and_then(|claims| Some((access::service_account(self.store(), &claims, now)?, claims.aud)));
        found.ok_or_else(|| "token lookup failed".to_owned())
    }

    fn access_status(&self, request: &Request, who: &Identity, spec: &Value) -> Result<Value> {
        let Some(wanted) = Attributes::of_review(spec) else {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let error = FieldError::invalid("spec.resourceAttributes", "", why);
            return Err(Refusal::invalid(&request.call.resource, "", &[error]));
        };
        let allowed = access::is_allowed(self.store(), who, &wanted);
        Ok(json!({"allowed": allowed}))
    }

    fn rules_status(&self, who: &Identity, spec: &Value) -> Result<Value> {
        let namespace = text_at(spec, "namespace");
        if namespace.is_empty() {
            return Err(Refusal::bad_request("no namespace on request"));
        }
        let rules = access::rules_for(self.store(), who, &namespace);
        let (paths, resources): (Vec<Value>, Vec<Value>) =
            rules.into_iter().partition(|rule| !list_at(rule, "nonResourceURLs").is_empty());
        let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
        if access::node_of(who).is_some() {
            status["incomplete"] = true.into();
            status["evaluationError"] = "node authorizer does not support user rule resolution".into();
        }
        Ok(status)
    }
}

/// The one that an access review asks about.
fn subject_of(request: &Request, spec: &Value) -> Result<Identity> {
    let user = text_at(spec, "user");
    let groups: Vec<String> =
        list_at(spec, "groups").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if user.is_empty() && groups.is_empty() {
        let error = FieldError::invalid("spec.user", "", "at least one of user or group must be specified");
        return Err(Refusal::invalid(&request.call.resource, "", &[error]));
    }
    // As given: the request has all that is known of the subject.
    Ok(Identity { user, groups, uid: text_at(spec, "uid"), ..Identity::default() })
}

fn user_info(who: &Identity) -> Value {
    let mut info = json!({"username": who.user, "groups": who.groups});
    if !who.uid.is_empty() {
        info["uid"] = who.uid.as_str().into();
    }
    if !who.extra.is_empty() {
        info["extra"] = json!(who.extra);
    }
    info
}
