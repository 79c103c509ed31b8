//! Users by their tokens.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::cache::{Cache, key};
use super::{ReviewError, User};

/// Tokens that are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).expect("the size must not be zero");
/// Reviews that may be under way: what strangers may cost the API server.
const AT_A_TIME: usize = 16;

/// Who knows tokens.
#[async_trait]
pub trait TokenReviewer: Send + Sync + 'static {
    /// Whose token it is; `None` where it is nobody's.
    ///
    /// # Errors
    /// Nobody could be asked.
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewError>;
}

/// One who remembers the users it was told of.
pub(super) struct CachedTokens {
    reviewer: Arc<dyn TokenReviewer>,
    ttl: Duration,
    users: Cache<User>,
    under_way: Semaphore,
}

impl CachedTokens {
    pub(super) fn new(reviewer: Arc<dyn TokenReviewer>, ttl: Duration) -> Self {
        Self { reviewer, ttl, users: Cache::new(REMEMBERED), under_way: Semaphore::new(AT_A_TIME) }
    }

    pub(super) async fn user(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let key = key([token]);
        if let Some(user) = self.users.get(&key) {
            return Ok(Some(user));
        }
        let _turn = self.under_way.acquire().await.expect("the semaphore must stay open");
        // Somebody with the same token may have had the turn before.
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
