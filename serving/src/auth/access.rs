//! Reviews of what users may do.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::cache::{Cache, Key, key};
use super::turns::{NoReview, Turns};
use super::{Attributes, ReviewError, User};

/// Maximum number of decisions that are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).expect("the size must not be zero");
/// Maximum length of a reason, in bytes: it stays in memory as long as its decision.
const LONGEST_REASON: usize = 1024;

/// Whether a user may do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the user may do it.
    pub allowed: bool,
    /// Why not, for the user. Often empty.
    pub reason: Arc<str>,
}

impl Decision {
    /// A permission.
    pub fn allowed() -> Self {
        Self { allowed: true, reason: Arc::default() }
    }

    /// A refusal. A long reason is cut.
    pub fn denied(reason: &str) -> Self {
        let mut end = reason.len().min(LONGEST_REASON);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        Self { allowed: false, reason: reason[..end].into() }
    }
}

/// Decides what users may do.
#[async_trait]
pub trait AccessReviewer: Send + Sync + 'static {
    /// Whether `user` may do this.
    ///
    /// # Errors
    /// If there is no decision.
    async fn review(&self, user: &User, attributes: &Attributes) -> Result<Decision, ReviewError>;
}

/// Asks a reviewer what users may do and remembers its decisions.
pub(super) struct CachedAccess {
    reviewer: Arc<dyn AccessReviewer>,
    allowed_ttl: Duration,
    denied_ttl: Duration,
    decisions: Cache<Decision>,
    /// A client is a user, by name.
    turns: Turns<String>,
}

impl CachedAccess {
    pub(super) fn new(
        reviewer: Arc<dyn AccessReviewer>,
        allowed_ttl: Duration,
        denied_ttl: Duration,
    ) -> Self {
        Self { reviewer, allowed_ttl, denied_ttl, decisions: Cache::new(REMEMBERED), turns: Turns::new() }
    }

    /// Whether `user` may do this.
    pub(super) async fn decide(&self, user: &User, attributes: &Attributes) -> Result<Decision, NoReview> {
        let key = about(user, attributes);
        if let Some(decision) = self.decisions.get(&key) {
            return Ok(decision);
        }
        let _turn = self.turns.take(user.name.clone()).await?;
        if let Some(decision) = self.decisions.get(&key) {
            return Ok(decision);
        }
        let decision = self.reviewer.review(user, attributes).await?;
        let ttl = if decision.allowed { self.allowed_ttl } else { self.denied_ttl };
        self.decisions.put(key, decision.clone(), ttl);
        Ok(decision)
    }
}

/// All that a decision depends on. Counts keep lists apart.
fn about(user: &User, attributes: &Attributes) -> Key {
    let counted = |texts: &[String]| texts.len().to_string();
    let mut texts: Vec<String> = attributes.parts().into_iter().map(str::to_owned).collect();
    texts.extend([user.name.clone(), user.uid.clone(), counted(&user.groups)]);
    texts.extend(user.groups.iter().cloned());
    for (name, values) in &user.extra {
        texts.push(name.clone());
        texts.push(counted(values));
        texts.extend(values.iter().cloned());
    }
    key(texts.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::auth::ResourceAttributes;

    #[test]
    fn decisions_are_of_one_user_and_one_thing() {
        let user = |name: &str, groups: &[&str]| User {
            name: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..User::default()
        };
        let extra = |name: &str, value: &str| User {
            extra: vec![(name.to_owned(), vec![value.to_owned()])],
            ..user("a", &[])
        };
        let attributes = |verb, subresource| {
            let name = "n".to_owned();
            Attributes::Resource(ResourceAttributes { verb, resource: "nodes", subresource, name })
        };
        let path = |method, path| Attributes::of_path(&method, path);
        let get = attributes("get", "proxy");
        let all = [
            about(&user("a", &[]), &get),
            about(&user("b", &[]), &get),
            about(&user("a", &["b"]), &get),
            about(&user("a", &["b", "c"]), &get),
            about(&extra("b", "c"), &get),
            about(&extra("b", "d"), &get),
            about(&user("a", &[]), &attributes("create", "proxy")),
            about(&user("a", &[]), &attributes("get", "pods")),
            about(&user("a", &[]), &path(Method::GET, "/metrics")),
            about(&user("a", &[]), &path(Method::PUT, "/metrics")),
            about(&user("a", &[]), &path(Method::GET, "/configz")),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }

    #[test]
    fn a_long_reason_is_cut() {
        assert_eq!(Decision::denied(&"ü".repeat(1000)).reason.len(), LONGEST_REASON);
        assert_eq!(&*Decision::denied("no").reason, "no");
    }
}
