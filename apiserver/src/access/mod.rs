//! Who may do what: authentication by client certificate or token, authorization by RBAC, and of nodes by what their pods need.
//!
//! Identities that are known before the request gets here (from a certificate, or because a part of this program asks) come
//! along as an extension of the request. A server that is [open](Access::Open) authenticates no request.

mod attributes;
mod bootstrap;
mod certificates;
mod escalation;
mod identity;
mod impersonation;
mod node;
mod rules;
mod secret_tokens;
mod tokens;

use std::ops::Not;
use std::sync::Arc;

use http::{HeaderMap, header};
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use steersman_api::ObjectKey;

pub(crate) use attributes::{Attributes, Target};
pub(crate) use bootstrap::user_of_token;
pub(crate) use certificates::{InvalidCertificate, TOWARD_NODES, identity_of};
pub(crate) use escalation::{attempt, missing};
pub use identity::Identity;
pub(crate) use identity::{ANONYMOUS, MASTERS, user_of_account};
pub(crate) use impersonation::Impersonation;
pub(crate) use node::{LEASES as NODE_LEASES, Named, claims, is_any, mounts_token_for, node_of};
pub(crate) use secret_tokens::{GENERATED, SecretClaims, SecretToken};
pub use tokens::KeyError;
pub(crate) use tokens::{Bound, Claims, ISSUER, Reference, Signer};

use crate::object::{list_at, text_at};
use crate::refusal::{Refusal, Result};
use crate::store::{Object, Store};

/// Whom a server lets in.
#[derive(Clone)]
pub(crate) enum Access {
    /// Everybody may do everything: for tests.
    Open,
    /// Those whom rules allow it.
    Guarded(Arc<Guard>),
}

/// What a guarded server knows beside its objects.
pub(crate) struct Guard {
    /// The SHA-256 of the administrator's token: how long a comparison takes tells nothing of it.
    admin_token: Vec<u8>,
}

impl Guard {
    /// One who knows the administrator by that token.
    pub(crate) fn new(admin_token: &str) -> Self {
        Self { admin_token: hash(admin_token) }
    }
}

fn hash(token: &str) -> Vec<u8> {
    digest(&SHA256, token.as_bytes()).as_ref().to_vec()
}

/// What anybody may ask for, whatever the rules: the default of upstream's `--authorization-always-allow-paths`.
const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/readyz", "/livez"];

/// Whether anybody may ask for this path.
pub(crate) fn is_always_allowed(path: &str) -> bool {
    ALWAYS_ALLOWED.contains(&path)
}

/// Identifies the client: by what came with the connection, else by its token; without either it is anonymous. Calls `note`
/// with a token that a Secret keeps, whether or not it is still valid.
///
/// # Errors
/// The token is not valid.
pub(crate) fn authenticate(
    access: &Access,
    signer: &Signer,
    store: &Store,
    with_connection: Option<&Identity>,
    headers: &HeaderMap,
    now: i64,
    note: impl FnOnce(&SecretToken),
) -> Result<Identity> {
    if let Some(identity) = with_connection {
        return Ok(identity.clone());
    }
    let Access::Guarded(guard) = access else { return Ok(Identity::master("system:unsecured")) };
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(Identity::anonymous()) };
    // A token of other bytes than text is a wrong token, not an absent one.
    let value = String::from_utf8_lossy(value.as_bytes());
    let token = value
        .trim()
        .split_once(' ')
        .and_then(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()));
    // As upstream, a client with credentials of another scheme is anonymous.
    let Some(token) = token else { return Ok(Identity::anonymous()) };
    if hash(token) == guard.admin_token {
        return Ok(Identity::master("admin"));
    }
    if let Some(claims) = signer.verify_of_secret(token) {
        let found = SecretToken::find(store, token, &claims).map_err(|_| Refusal::unauthorized())?;
        note(&found);
        return found.identity.map_err(|_| Refusal::unauthorized());
    }
    if let Some(identity) = user_of_token(store, token, Timestamp::from_second(now).unwrap_or(Timestamp::MAX))
    {
        return Ok(identity);
    }
    let claims = signer.verify(token, &[ISSUER.to_owned()], now);
    claims.and_then(|claims| service_account(store, &claims, now)).ok_or_else(Refusal::unauthorized)
}

/// How long what was deleted, and is held by something, is taken for there, in seconds: clocks differ. From upstream.
const LEEWAY: i64 = 60;

/// Whose token it is, if all that it is bound to is still there at `now` (seconds since 1970).
pub(crate) fn service_account(store: &Store, claims: &Claims, now: i64) -> Option<Identity> {
    let Bound { namespace, pod, secret, serviceaccount, node } = &claims.bound;
    let is_there = |table: &str, namespace: &str, reference: &Reference| {
        let found = store.get(&table.into(), &ObjectKey::new(namespace, reference.name.as_str()));
        found.is_some_and(|found| {
            let deleted = found.deletion_timestamp().and_then(|at| at.parse::<Timestamp>().ok());
            found.uid() == reference.uid && deleted.is_some_and(|at| at.as_second() < now - LEEWAY).not()
        })
    };
    // The node of a pod is only told: the pod stands for it.
    let bound_node = node.as_ref().filter(|_| pod.is_none());
    let all = [("pods", namespace.as_str(), pod.as_ref()), ("secrets", namespace, secret.as_ref())];
    let mut all = all.into_iter().chain([("nodes", "", bound_node)]);
    if !is_there("serviceaccounts", namespace, serviceaccount)
        || !all.all(|(table, namespace, bound)| bound.is_none_or(|bound| is_there(table, namespace, bound)))
    {
        return None;
    }
    let mut identity = Identity::authenticated(claims.sub.clone(), identity::groups_of_accounts(namespace));
    identity.uid.clone_from(&serviceaccount.uid);
    let mut note = |name: &str, value: String| {
        identity.extra.insert(format!("authentication.kubernetes.io/{name}"), vec![value]);
    };
    note("credential-id", format!("JTI={}", claims.jti));
    for (what, reference) in [("pod", pod), ("node", node)] {
        if let Some(reference) = reference {
            note(&format!("{what}-name"), reference.name.clone());
            if !reference.uid.is_empty() {
                note(&format!("{what}-uid"), reference.uid.clone());
            }
        }
    }
    Some(identity)
}

/// Whether somebody may do something: masters everything, anybody see how the server is, nodes what they need, and all else as
/// roles and their bindings say.
pub(crate) fn is_allowed(store: &Store, who: &Identity, wanted: &Attributes) -> bool {
    if who.is_in(MASTERS) {
        return true;
    }
    if matches!(&wanted.target, Target::Path(path) if is_always_allowed(path)) {
        return true;
    }
    if node_of(who).is_some_and(|node| node::allows(store, node, wanted)) {
        return true;
    }
    let namespace = match &wanted.target {
        Target::Resource { namespace, .. } => namespace.as_str(),
        Target::Path(_) => "",
    };
    let clusterwide = bindings(store, "clusterrolebindings.rbac.authorization.k8s.io", "");
    let within = match namespace {
        "" => Vec::new(),
        namespace => bindings(store, "rolebindings.rbac.authorization.k8s.io", namespace),
    };
    clusterwide.iter().any(|binding| grants(store, binding, who, wanted, ""))
        || within.iter().any(|binding| grants(store, binding, who, wanted, namespace))
}

fn bindings(store: &Store, table: &str, namespace: &str) -> Vec<Arc<Object>> {
    store.snapshot(&table.into(), namespace, None).map(|snapshot| snapshot.objects).unwrap_or_default()
}

fn grants(store: &Store, binding: &Object, who: &Identity, wanted: &Attributes, namespace: &str) -> bool {
    binds(binding, who, namespace)
        && role_of(store, &binding.kept()["roleRef"], namespace)
            .is_some_and(|role| list_at(role.kept(), "rules").iter().any(|rule| rules::allows(rule, wanted)))
}

/// Whether a binding of that namespace (empty for one of the cluster) is about somebody.
fn binds(binding: &Object, who: &Identity, namespace: &str) -> bool {
    let mut subjects = list_at(binding.kept(), "subjects").iter();
    subjects.any(|subject| rules::is_subject(subject, who, namespace))
}

/// The rules of the role that a `roleRef` means in that namespace (empty for the cluster); `None` if there is no such role.
pub(crate) fn rules_of(store: &Store, role: &Value, namespace: &str) -> Option<Vec<Value>> {
    role_of(store, role, namespace).map(|role| list_at(role.kept(), "rules").to_vec())
}

/// The role itself. Roles and bindings are kept as they are read: every request asks for some.
fn role_of(store: &Store, role: &Value, namespace: &str) -> Option<Arc<Object>> {
    let (table, namespace) = match text_at(role, "kind").as_str() {
        "ClusterRole" => ("clusterroles.rbac.authorization.k8s.io", ""),
        "Role" if !namespace.is_empty() => ("roles.rbac.authorization.k8s.io", namespace),
        _ => return None,
    };
    store.get(&table.into(), &ObjectKey::new(namespace, text_at(role, "name")))
}

/// All rules that are for somebody, in a namespace.
pub(crate) fn rules_for(store: &Store, who: &Identity, namespace: &str) -> Vec<Value> {
    if who.is_in(MASTERS) {
        return vec![
            serde_json::json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
            serde_json::json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
        ];
    }
    let of = |table: &str, namespace: &str| -> Vec<Value> {
        let bindings = bindings(store, table, namespace).into_iter();
        let mine = bindings.filter(|binding| binds(binding, who, namespace));
        let rules = mine.filter_map(|binding| rules_of(store, &binding.kept()["roleRef"], namespace));
        rules.flatten().collect()
    };
    let mut rules = of("clusterrolebindings.rbac.authorization.k8s.io", "");
    if !namespace.is_empty() {
        rules.extend(of("rolebindings.rbac.authorization.k8s.io", namespace));
    }
    rules
}
