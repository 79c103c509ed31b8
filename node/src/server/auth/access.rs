//! What users may.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::cache::{Cache, Key, key};
use super::turns::{NoReview, Turns};
use super::{Attributes, ReviewError, User};

/// Maximum number of decisions that are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).expect("the size must not be zero");

/// Who decides what users may.
#[async_trait]
pub trait AccessReviewer: Send + Sync + 'static {
    /// Whether `user` may do that.
    ///
    /// # Errors
    /// Nobody could be asked.
    async fn review(&self, user: &User, attributes: &Attributes) -> Result<bool, ReviewError>;
}

/// Asks a reviewer what users may do and remembers its decisions.
pub(super) struct CachedAccess {
    reviewer: Arc<dyn AccessReviewer>,
    allowed_ttl: Duration,
    denied_ttl: Duration,
    decisions: Cache<bool>,
    turns: Turns,
}

impl CachedAccess {
    pub(super) fn new(
        reviewer: Arc<dyn AccessReviewer>,
        allowed_ttl: Duration,
        denied_ttl: Duration,
    ) -> Self {
        Self { reviewer, allowed_ttl, denied_ttl, decisions: Cache::new(REMEMBERED), turns: Turns::new() }
    }

    /// Whether `user` may do that.
    pub(super) async fn allows(&self, user: &User, attributes: &Attributes) -> Result<bool, NoReview> {
        let key = about(user, attributes);
        if let Some(allowed) = self.decisions.get(&key) {
            return Ok(allowed);
        }
        let _turn = self.turns.take().await?;
        if let Some(allowed) = self.decisions.get(&key) {
            return Ok(allowed);
        }
        let allowed = self.reviewer.review(user, attributes).await?;
        self.decisions.put(key, allowed, if allowed { self.allowed_ttl } else { self.denied_ttl });
        Ok(allowed)
    }
}

/// All that a decision depends on. Counts keep lists apart.
fn about(user: &User, attributes: &Attributes) -> Key {
    let counted = |texts: &[String]| texts.len().to_string();
    let mut texts = vec![
        attributes.verb.to_owned(),
        attributes.subresource.to_owned(),
        attributes.node.clone(),
        user.name.clone(),
        user.uid.clone(),
        counted(&user.groups),
    ];
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
    use super::*;

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
        let attributes = |verb, subresource| Attributes { verb, subresource, node: "n".to_owned() };
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
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }
}
