//! Reviews of tokens.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::cache::{Cache, key};
use super::turns::{NoReview, Turns};
use super::{ReviewError, User};
use crate::origin::Origin;

/// Maximum number of tokens that are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).expect("the size must not be zero");

/// Knows the users of tokens.
#[async_trait]
pub trait TokenReviewer: Send + Sync + 'static {
    /// The user that the token belongs to; `None` if it is invalid.
    ///
    /// # Errors
    /// If there was no review.
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewError>;
}

/// Asks a reviewer about tokens and remembers the users it names.
pub(super) struct CachedTokens {
    reviewer: Arc<dyn TokenReviewer>,
    ttl: Duration,
    users: Cache<User>,
    turns: Turns<Origin>,
}

impl CachedTokens {
    pub(super) fn new(reviewer: Arc<dyn TokenReviewer>, ttl: Duration) -> Self {
        Self { reviewer, ttl, users: Cache::new(REMEMBERED), turns: Turns::new() }
    }

    /// The user that the token belongs to; `None` if it is invalid. `origin` is where the request comes from.
    pub(super) async fn user(&self, token: &str, origin: Origin) -> Result<Option<User>, NoReview> {
        let key = key([token]);
        if let Some(user) = self.users.get(&key) {
            return Ok(Some(user));
        }
        let _turn = self.turns.take(origin).await?;
        // Another request with the same token may have had its turn before.
        if let Some(user) = self.users.get(&key) {
            return Ok(Some(user));
        }
        let user = self.reviewer.review(token).await?;
        if let Some(user) = &user {
            self.users.put(key, user.clone(), self.ttl);
        }
        Ok(user)
    }
}
