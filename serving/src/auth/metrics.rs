//! Metrics of authentication, authorization and reviews, under upstream's names.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, exponential_buckets};
use tokio::time::Instant;

use super::{Decision, NoReview, Unauthenticated, User};

/// The code of a review that the API server did not answer.
const NO_ANSWER: &str = "<error>";
/// User names that `authenticated_user_requests` shows as they are (upstream: `compressUsername`).
const KNOWN_USERS: [&str; 5] =
    ["admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"];

/// The metric families of a server's authentication and authorization. Clones share them. They count whether they are
/// [registered](Metrics::register) or not.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(super) token_reviews: Reviews,
    pub(super) access_reviews: Reviews,
    users: IntCounterVec,
    authentications: Results,
    authorizations: Results,
}

/// The families of one kind of review: the number of requests and how long they took, by status code.
#[derive(Debug, Clone)]
pub(super) struct Reviews {
    requests: IntCounterVec,
    duration: HistogramVec,
}

/// The families of authentication or of authorization, by result.
#[derive(Debug, Clone)]
struct Results {
    attempts: IntCounterVec,
    duration: HistogramVec,
}

impl Metrics {
    /// Families without samples.
    pub fn new() -> Self {
        let users = "Counter of authenticated requests broken out by username.";
        Self {
            token_reviews: Reviews::new("apiserver_delegated_authn"),
            access_reviews: Reviews::new("apiserver_delegated_authz"),
            users: counter("authenticated_user_requests", users, "username"),
            authentications: Results {
                attempts: counter("authentication_attempts", "Counter of authenticated attempts.", "result"),
                duration: duration(
                    "authentication_duration_seconds",
                    "Authentication duration in seconds broken out by result.",
                ),
            },
            authorizations: Results {
                attempts: counter(
                    "authorization_attempts_total",
                    "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', \
                     'no-opinion' or 'error'.",
                    "result",
                ),
                duration: duration(
                    "authorization_duration_seconds",
                    "Authorization duration in seconds broken out by result.",
                ),
            },
        }
    }

    /// Registers the families with `registry`.
    ///
    /// # Errors
    /// If the registry already has a family of one of these names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        for reviews in [&self.token_reviews, &self.access_reviews] {
            registry.register(Box::new(reviews.requests.clone()))?;
            registry.register(Box::new(reviews.duration.clone()))?;
        }
        for results in [&self.authentications, &self.authorizations] {
            registry.register(Box::new(results.attempts.clone()))?;
            registry.register(Box::new(results.duration.clone()))?;
        }
        registry.register(Box::new(self.users.clone()))
    }

    /// Counts an authentication that took this long. As upstream, invalid credentials count as an error.
    pub(super) fn authenticated(&self, result: &Result<User, Unauthenticated>, took: Duration) {
        let label = match result {
            Ok(user) => {
                self.users.with_label_values(&[shown(&user.name)]).inc();
                "success"
            }
            Err(Unauthenticated::Unauthorized(_) | Unauthenticated::Busy) => "error",
        };
        self.authentications.count(label, took);
    }

    /// Counts an authorization that took this long. The API server's reviews don't tell a denial from the lack of a
    /// permission; its own authorizers never deny, so a refusal counts as no opinion.
    pub(super) fn authorized(&self, result: &Result<Decision, NoReview>, took: Duration) {
        let label = match result {
            Ok(decision) if decision.allowed => "allowed",
            Ok(_) => "no-opinion",
            Err(_) => "error",
        };
        self.authorizations.count(label, took);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Reviews {
    fn new(subsystem: &str) -> Self {
        let buckets = vec![0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];
        let options = HistogramOpts::new(
            format!("{subsystem}_request_duration_seconds"),
            "[ALPHA] Request latency in seconds. Broken down by status code.",
        );
        Self {
            requests: counter(
                &format!("{subsystem}_request_total"),
                "Number of HTTP requests partitioned by status code.",
                "code",
            ),
            duration: histogram(options.buckets(buckets), "code"),
        }
    }

    /// Begins to measure a request.
    pub(super) fn begin(&self) -> Attempt<'_> {
        Attempt { reviews: self, began: Instant::now(), code: None }
    }
}

/// A request under way. It is counted when it is dropped: with the status code of its answer, or as one without answer.
pub(super) struct Attempt<'a> {
    reviews: &'a Reviews,
    began: Instant,
    code: Option<u16>,
}

impl Attempt<'_> {
    /// Ends the request with this status code; `None` if the API server did not answer.
    pub(super) fn end(mut self, code: Option<u16>) {
        self.code = code;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let code = self.code.map_or_else(|| NO_ANSWER.to_owned(), |code| code.to_string());
        self.reviews.requests.with_label_values(&[&code]).inc();
        self.reviews.duration.with_label_values(&[&code]).observe(self.began.elapsed().as_secs_f64());
    }
}

impl Results {
    fn count(&self, result: &str, took: Duration) {
        self.attempts.with_label_values(&[result]).inc();
        self.duration.with_label_values(&[result]).observe(took.as_secs_f64());
    }
}

/// The name under which a user's requests are counted: one of a few, whatever names clients have.
fn shown(user: &str) -> &str {
    match user {
        known if KNOWN_USERS.contains(&known) => known,
        address if address.contains('@') => "email_id",
        _ => "other",
    }
}

fn counter(name: &str, help: &str, label: &str) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, format!("[ALPHA] {help}")), &[label])
        .expect("a constant metric description must be valid")
}

fn duration(name: &str, help: &str) -> HistogramVec {
    let buckets = exponential_buckets(0.001, 2.0, 15).expect("constant buckets must be valid");
    histogram(HistogramOpts::new(name, format!("[ALPHA] {help}")).buckets(buckets), "result")
}

fn histogram(options: HistogramOpts, label: &str) -> HistogramVec {
    HistogramVec::new(options, &[label]).expect("a constant metric description must be valid")
}

#[cfg(test)]
impl Metrics {
    /// The number of samples with these labels: `family`, `label`.
    pub(super) fn counted(&self, family: &str, label: &str) -> u64 {
        let family = match family {
            "token_reviews" => &self.token_reviews.requests,
            "access_reviews" => &self.access_reviews.requests,
            "users" => &self.users,
            "authentications" => &self.authentications.attempts,
            "authorizations" => &self.authorizations.attempts,
            other => panic!("no such family: {other}"),
        };
        family.with_label_values(&[label]).get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_upstreams() {
        let (registry, metrics) = (Registry::new(), Metrics::new());
        metrics.register(&registry).unwrap();
        metrics.token_reviews.begin().end(Some(201));
        metrics.access_reviews.begin().end(Some(403));
        metrics.authenticated(&Ok(User::anonymous()), Duration::ZERO);
        metrics.authorized(&Ok(Decision::allowed()), Duration::ZERO);
        let names: Vec<_> = registry.gather().iter().map(|family| family.name().to_owned()).collect();
        assert_eq!(
            names,
            [
                "apiserver_delegated_authn_request_duration_seconds",
                "apiserver_delegated_authn_request_total",
                "apiserver_delegated_authz_request_duration_seconds",
                "apiserver_delegated_authz_request_total",
                "authenticated_user_requests",
                "authentication_attempts",
                "authentication_duration_seconds",
                "authorization_attempts_total",
                "authorization_duration_seconds",
            ]
        );
    }

    #[test]
    fn each_result_has_its_label() {
        let metrics = Metrics::new();
        let unauthorized = || Err(Unauthenticated::Unauthorized(String::new()));
        for result in [Ok(User::anonymous()), unauthorized(), Err(Unauthenticated::Busy)] {
            metrics.authenticated(&result, Duration::ZERO);
        }
        for result in [Ok(Decision::allowed()), Ok(Decision::denied("")), Err(NoReview::Busy)] {
            metrics.authorized(&result, Duration::ZERO);
        }
        for (family, label, count) in [
            ("authentications", "success", 1),
            ("authentications", "error", 2),
            ("users", "other", 1),
            ("authorizations", "allowed", 1),
            ("authorizations", "no-opinion", 1),
            ("authorizations", "error", 1),
        ] {
            assert_eq!(metrics.counted(family, label), count, "{family} {label}");
        }
    }

    #[test]
    fn names_of_users_are_not_shown_unless_they_are_few() {
        for (user, expected) in [
            ("kubelet", "kubelet"),
            ("system:serviceaccount:kube-system:default", "system:serviceaccount:kube-system:default"),
            ("ann@example.org", "email_id"),
            ("system:serviceaccount:monitoring:prometheus-k8s", "other"),
            ("", "other"),
        ] {
            assert_eq!(shown(user), expected, "{user}");
        }
    }

    #[test]
    fn a_review_that_is_given_up_counts_as_one_without_answer() {
        let metrics = Metrics::new();
        drop(metrics.token_reviews.begin());
        assert_eq!(metrics.counted("token_reviews", NO_ANSWER), 1);
    }
}
