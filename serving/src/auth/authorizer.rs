//! Decides what users may do.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::access::{AccessReviewer, CachedAccess, Decision};
use super::{Attributes, Metrics, NoReview, PathRules, User};

/// How the server decides what users may do (`authorization.mode`).
#[derive(Default)]
pub enum Authorization {
    /// No user may do anything, except by [exceptions](Authorizer::with_exceptions).
    #[default]
    Nobody,
    /// All users may do everything.
    AlwaysAllow,
    /// A reviewer decides.
    Webhook {
        /// The reviewer.
        reviewer: Arc<dyn AccessReviewer>,
        /// How long a permission is remembered (`authorization.webhook.cacheAuthorizedTTL`).
        allowed_ttl: Duration,
        /// How long a refusal is remembered (`authorization.webhook.cacheUnauthorizedTTL`).
        denied_ttl: Duration,
    },
}

/// Decides what users may do.
pub struct Authorizer {
    /// Members of these groups may do everything.
    groups: Vec<String>,
    /// All users may request these paths.
    paths: PathRules,
    access: Access,
    metrics: Metrics,
}

enum Access {
    Nobody,
    Everybody,
    Reviewed(Box<CachedAccess>),
}

impl Authorizer {
    /// An authorizer without exceptions, which remembers nothing yet.
    pub fn new(authorization: Authorization) -> Self {
        let access = match authorization {
            Authorization::Nobody => Access::Nobody,
            Authorization::AlwaysAllow => Access::Everybody,
            Authorization::Webhook { reviewer, allowed_ttl, denied_ttl } => {
                Access::Reviewed(Box::new(CachedAccess::new(reviewer, allowed_ttl, denied_ttl)))
            }
        };
        Self { groups: Vec::new(), paths: PathRules::default(), access, metrics: Metrics::new() }
    }

    /// Lets members of these groups do everything, and all users request these paths, without a review.
    #[must_use]
    pub fn with_exceptions(mut self, groups: Vec<String>, paths: PathRules) -> Self {
        (self.groups, self.paths) = (groups, paths);
        self
    }

    /// Counts authorizations in `metrics`.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Whether `user` may do this.
    ///
    /// # Errors
    /// If there was no review. The client should try again later.
    pub async fn authorize(&self, user: &User, attributes: &Attributes) -> Result<Decision, NoReview> {
        let began = Instant::now();
        let result = self.decide(user, attributes).await;
        self.metrics.authorized(&result, began.elapsed());
        result
    }

    async fn decide(&self, user: &User, attributes: &Attributes) -> Result<Decision, NoReview> {
        if user.groups.iter().any(|group| self.groups.contains(group)) || self.paths.allow(attributes) {
            return Ok(Decision::allowed());
        }
        match &self.access {
            Access::Everybody => Ok(Decision::allowed()),
            Access::Nobody => Ok(Decision::denied("")),
            Access::Reviewed(access) => access.decide(user, attributes).await,
        }
    }

    /// Whether an authorized request of `user` makes its connection a known one. Any client may be anonymous, so what
    /// that user may do gives no claim to a place, unless all users may do everything.
    pub fn makes_known(&self, user: &User) -> bool {
        !user.is_anonymous() || matches!(self.access, Access::Everybody)
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[tokio::test]
    async fn exceptions_need_no_reviewer() {
        let rules = PathRules::parse(["/healthz"]).unwrap();
        let authorizer =
            Authorizer::new(Authorization::Nobody).with_exceptions(vec!["system:masters".to_owned()], rules);
        let master = User { groups: vec!["system:masters".to_owned()], ..User::default() };
        for (user, path, allowed) in [
            (&User::anonymous(), "/healthz", true),
            (&User::anonymous(), "/metrics", false),
            (&master, "/metrics", true),
        ] {
            let decision = authorizer.authorize(user, &Attributes::of_path(&Method::GET, path)).await;
            assert_eq!(decision.unwrap().allowed, allowed, "{user:?} {path}");
        }
    }
}
