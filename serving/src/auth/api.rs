//! Reviews by the API server.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes as ApiResourceAttributes, SubjectAccessReview,
    SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use super::metrics::Reviews;
use super::{
    AccessReviewer, Attributes, Decision, Metrics, ResourceAttributes, ReviewError, TokenReviewer, User,
};

/// Upstream: `DefaultAuthWebhookRetryBackoff`.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGER_BY: f64 = 1.5;
const JITTER: f64 = 0.2;
/// How long a review may take in all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the API server by TokenReviews and SubjectAccessReviews. The client must be allowed to create these, as the
/// ClusterRoles `system:auth-delegator` and `system:node` allow it.
#[derive(Clone)]
pub struct ApiReviewer {
    client: Client,
    metrics: Metrics,
}

impl ApiReviewer {
    /// A reviewer that asks with this client, and counts its requests in `metrics`.
    pub fn new(client: Client, metrics: &Metrics) -> Self {
        Self { client, metrics: metrics.clone() }
    }

    /// Creates a review, which changes nothing and so may be tried again.
    async fn create<K>(&self, review: &K, counted: &Reviews) -> Result<K, ReviewError>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let reviews: Api<K> = Api::all(self.client.clone());
        let once = async || {
            let attempt = counted.begin();
            let result = reviews.create(&PostParams::default(), review).await;
            attempt.end(code(&result));
            result
        };
        let tries = async {
            let mut pause = FIRST_PAUSE;
            for _ in 1..TRIES {
                match once().await {
                    Err(error) if may_pass(&error) => {
                        tracing::debug!(kind = %K::kind(&()), %error, "Review is tried again");
                        sleep(pause.mul_f64(1.0 + JITTER * rand::random::<f64>())).await;
                        pause = pause.mul_f64(LONGER_BY);
                    }
                    result => return result,
                }
            }
            once().await
        };
        match timeout(PATIENCE, tries).await {
            Ok(result) => result.map_err(|error| ReviewError(told(&error))),
            Err(_) => Err(ReviewError(format!("no {} in {PATIENCE:?}", K::kind(&())))),
        }
    }
}

/// The status code of the API server's answer. `None` if there was none.
fn code<K>(result: &Result<K, kube::Error>) -> Option<u16> {
    match result {
        Ok(_) => Some(http::StatusCode::CREATED.as_u16()),
        Err(kube::Error::Api(status)) => Some(status.code),
        Err(_) => None,
    }
}

/// Whether the same review may succeed a little later.
fn may_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 500 | 502 | 503 | 504),
        kube::Error::Service(_) | kube::Error::HyperError(_) => true,
        _ => false,
    }
}

/// An error in the words of the API server, if it sent some.
pub(super) fn told(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Service(error) => error.to_string(),
        other => other.to_string(),
    }
}

#[async_trait]
impl TokenReviewer for ApiReviewer {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), audiences: None },
            ..TokenReview::default()
        };
        Ok(reviewed(self.create(&review, &self.metrics.token_reviews).await?))
    }
}

/// The user that a review found.
fn reviewed(review: TokenReview) -> Option<User> {
    let status = review.status?;
    if status.authenticated != Some(true) {
        return None;
    }
    let user = status.user?;
    Some(User {
        name: user.username.unwrap_or_default(),
        uid: user.uid.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default().into_iter().collect(),
    })
}

#[async_trait]
impl AccessReviewer for ApiReviewer {
    async fn review(&self, user: &User, attributes: &Attributes) -> Result<Decision, ReviewError> {
        let review = self.create(&access_review(user, attributes), &self.metrics.access_reviews).await?;
        decided(review.status.unwrap_or_default())
    }
}

fn decided(status: SubjectAccessReviewStatus) -> Result<Decision, ReviewError> {
    match (status.allowed, status.denied == Some(true)) {
        (true, true) => {
            let message = "webhook subject access review returned both allow and deny response";
            Err(ReviewError(message.to_owned()))
        }
        (true, false) => Ok(Decision::allowed()),
        (false, _) => Ok(Decision::denied(&status.reason.unwrap_or_default())),
    }
}

fn access_review(user: &User, attributes: &Attributes) -> SubjectAccessReview {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (mut resource_attributes, mut non_resource_attributes) = (None, None);
    match attributes {
        Attributes::Resource(ResourceAttributes { verb, resource, subresource, name }) => {
            resource_attributes = Some(ApiResourceAttributes {
                verb: text(verb),
                version: text("v1"),
                resource: text(resource),
                subresource: text(subresource),
                name: text(name),
                ..ApiResourceAttributes::default()
            });
        }
        Attributes::NonResource { verb, path } => {
            non_resource_attributes = Some(NonResourceAttributes { path: text(path), verb: text(verb) });
        }
    }
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: text(&user.name),
            uid: text(&user.uid),
            groups: (!user.groups.is_empty()).then(|| user.groups.clone()),
            extra: (!user.extra.is_empty()).then(|| user.extra.iter().cloned().collect()),
            resource_attributes,
            non_resource_attributes,
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_its_users_where_the_review_says_so() {
        let review =
            |status| serde_json::from_value(json!({ "spec": { "token": "t" }, "status": status })).unwrap();
        let known = json!({ "username": "u", "uid": "1", "groups": ["g"], "extra": { "k": ["v"] } });
        let user = User {
            name: "u".into(),
            uid: "1".into(),
            groups: vec!["g".into()],
            extra: vec![("k".into(), vec!["v".into()])],
        };
        assert_eq!(reviewed(review(json!({ "authenticated": true, "user": known }))), Some(user));
        assert_eq!(reviewed(review(json!({ "authenticated": false, "user": known }))), None);
        assert_eq!(reviewed(review(json!({ "user": known }))), None);
        assert_eq!(reviewed(review(json!({ "authenticated": true }))), None);
        assert_eq!(reviewed(TokenReview::default()), None);
    }

    #[test]
    fn an_access_review_is_about_a_resource_or_a_path() {
        let user = User { name: "u".into(), groups: vec!["g".into()], ..User::default() };
        let spec = |attributes| serde_json::to_value(access_review(&user, &attributes).spec).unwrap();
        let (verb, resource, subresource) = ("create", "nodes", "proxy");
        let node = ResourceAttributes { verb, resource, subresource, name: "n".into() };
        assert_eq!(
            spec(Attributes::Resource(node)),
            json!({
                "user": "u",
                "groups": ["g"],
                "resourceAttributes": {
                    "verb": "create", "version": "v1", "resource": "nodes", "subresource": "proxy", "name": "n",
                },
            })
        );
        assert_eq!(
            spec(Attributes::of_path(&http::Method::GET, "/metrics")),
            json!({
                "user": "u",
                "groups": ["g"],
                "nonResourceAttributes": { "verb": "get", "path": "/metrics" },
            })
        );
    }

    #[test]
    fn a_review_that_allows_and_denies_decides_nothing() {
        let status = |status| decided(serde_json::from_value(status).unwrap());
        assert_eq!(status(json!({ "allowed": true })), Ok(Decision::allowed()));
        assert_eq!(status(json!({ "allowed": false, "reason": "why" })), Ok(Decision::denied("why")));
        assert_eq!(status(json!({ "allowed": false, "denied": true })), Ok(Decision::denied("")));
        status(json!({ "allowed": true, "denied": true })).unwrap_err();
    }
}
