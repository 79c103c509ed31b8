//! Tokens for service accounts (`serviceaccounts/token`).

use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::answer::shape_of;
use super::answer::value_answer;
use super::body::ResponseBody;
use super::incoming::body_of;
use super::negotiate::Answered;
use super::request::{Call, Request};
use super::server::ApiServer;
use crate::access::{Bound, Claims, ISSUER, Reference, user_of_account};
use crate::field::FieldError;
use crate::meta;
use crate::object::{int_at, list_at, text_at};
use crate::refusal::{Refusal, Result};
use steersman_api::{GroupVersion, ObjectKey, Uid};

/// How long a token is valid if the request does not say, in seconds. Upstream's default.
const SECONDS: i64 = 3600;
/// No token is good for less.
const MIN_SECONDS: i64 = 600;
/// No token is good for more.
const MAX_SECONDS: i64 = 1 << 32;

impl ApiServer {
    /// Signs a token for the service account that the path names.
    pub(super) fn issue_token(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let shape = shape_of(request, Answered::Other)?;
        let call = &request.call;
        let account = self.existing(&call.resource, &call.namespace, &call.name)?;
        let mut asked = body_of(request, "TokenRequest")?;
        let fits = |value: &Value| value.is_object() || value.is_null();
        if !asked.is_object() || !fits(&asked["spec"]) {
            return Err(Refusal::bad_request("the body is no TokenRequest: an object with a spec is wanted"));
        }
        check_meant(&asked, call, account.uid())?;
        self.admission(&call.resource, &call.namespace, Some(&request.who))
            .admit_token(&call.name, &asked)?;
        let seconds = int_at(&asked, "spec.expirationSeconds").unwrap_or(SECONDS);
        let limits = [
            (seconds < MIN_SECONDS, "may not specify a duration less than 10 minutes"),
            (seconds > MAX_SECONDS, "may not specify a duration larger than 2^32 seconds"),
        ];
        if let Some((_, why)) = limits.into_iter().find(|(beyond, _)| *beyond) {
            let error = FieldError::invalid("spec.expirationSeconds", seconds, why);
            return Err(Refusal::invalid_kind("authentication.k8s.io", "TokenRequest", "", &[error]));
        }
        let mut audiences: Vec<String> =
            list_at(&asked, "spec.audiences").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        if audiences.is_empty() {
            audiences.push(ISSUER.to_owned());
        }
        let namespace = call.namespace.clone();
        let of = Reference { name: call.name.clone(), uid: account.uid().to_owned() };
        let mut bound = Bound { namespace: namespace.clone(), serviceaccount: of, ..Bound::default() };
        self.bind_token(&asked["spec"]["boundObjectRef"], &mut bound)?;
        let now = self.clock().now();
        let expires = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        let token = self.signer().sign(&Claims {
            aud: audiences.clone(),
            exp: expires.as_second(),
            iat: now.as_second(),
            iss: ISSUER.to_owned(),
            jti: Uid::random().to_string(),
            bound,
            nbf: now.as_second(),
            sub: user_of_account(&namespace, &call.name),
        });
        asked["apiVersion"] = "authentication.k8s.io/v1".into();
        asked["kind"] = "TokenRequest".into();
        asked["metadata"] = json!({
            "name": call.name,
            "namespace": namespace,
            "uid": account.uid(),
            "creationTimestamp": meta::stamp(now),
        });
        asked["spec"]["audiences"] = json!(audiences);
        asked["spec"]["expirationSeconds"] = seconds.into();
        asked["status"] = json!({"token": token, "expirationTimestamp": meta::stamp(expires)});
        value_answer(StatusCode::CREATED, &asked, shape)
    }

    /// Binds a token to an object that must be there, under the uid that is asked for.
    fn bind_token(&self, to: &Value, bound: &mut Bound) -> Result<()> {
        if !to.is_object() {
            return Ok(());
        }
        let (kind, name, wanted) = (text_at(to, "kind"), text_at(to, "name"), text_at(to, "uid"));
        let api_version = text_at(to, "apiVersion");
        let (group, version) = GroupVersion::split(&api_version);
        let (plural, namespace, slot) = match (group, kind.as_str()) {
            ("", "Pod") => ("pods", bound.namespace.as_str(), &mut bound.pod),
            ("", "Secret") => ("secrets", bound.namespace.as_str(), &mut bound.secret),
            ("", "Node") => ("nodes", "", &mut bound.node),
            _ => {
                let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(Refusal::bad_request(why));
            }
        };
        let resources = self.resources();
        let resource =
            resources.get("", "v1", plural).expect("the schema table must have what tokens are bound to");
        let object = self.existing(resource, namespace, &name)?;
        let account = &bound.serviceaccount.name;
        if kind == "Pod" && object.field("spec.serviceAccountName") != account.as_str() {
            let why = format!(
                "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
            );
            return Err(Refusal::bad_request(why));
        }
        if !wanted.is_empty() && wanted != object.uid() {
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            );
            return Err(Refusal::conflict_of_kind(resource, &name, why));
        }
        *slot = Some(Reference { name, uid: object.uid().to_owned() });
        let node = if kind == "Pod" { object.field("spec.nodeName").into_owned() } else { String::new() };
        if !node.is_empty() {
            let found = self.store().get(&"nodes".into(), &ObjectKey::new("", node.as_str()));
            let uid = found.map(|found| found.uid().to_owned()).unwrap_or_default();
            bound.node = Some(Reference { name: node, uid });
        }
        Ok(())
    }
}

/// A request for a token may say of which account it is to be.
fn check_meant(asked: &Value, call: &Call, uid: &str) -> Result<()> {
    let (group, kind) = ("authentication.k8s.io", "TokenRequest");
    let namespace = text_at(asked, "metadata.namespace");
    if !namespace.is_empty() && namespace != call.namespace {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Refusal::bad_request(why));
    }
    let name = text_at(asked, "metadata.name");
    if !name.is_empty() && name != call.name {
        let why = "must match the service account name if specified";
        let error = FieldError::invalid("metadata.name", name, why);
        return Err(Refusal::invalid_kind(group, kind, &call.name, &[error]));
    }
    let said = text_at(asked, "metadata.uid");
    if !said.is_empty() && said != uid {
        let why = format!(
            "the UID in the token request ({said}) does not match the UID of the service account ({uid})"
        );
        return Err(Refusal::conflict_of(group, kind, &call.name, why));
    }
    Ok(())
}
