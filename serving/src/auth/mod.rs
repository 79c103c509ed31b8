//! Who a request comes from, and what that user may do.
//!
//! An [`Authenticator`] finds the user of a request, an [`Authorizer`] decides whether the user may do what the request asks
//! for. Both may ask the API server, by way of a [`TokenReviewer`] and an [`AccessReviewer`], and remember its answers for a
//! while. [`ApiReviewer`] is both.

mod access;
mod api;
mod attributes;
mod authenticator;
mod authorities;
mod authorizer;
mod cache;
mod client_ca;
mod client_certificates;
mod cluster;
mod metrics;
mod paths;
mod request_headers;
mod subject;
mod token;
mod turns;
mod user;

pub use access::{AccessReviewer, Decision};
pub use api::ApiReviewer;
pub use attributes::{Attributes, ResourceAttributes};
pub use authenticator::{AuthenticationConfig, Authenticator, Tokens, Unauthenticated};
pub use authorizer::{Authorization, Authorizer};
pub use client_ca::ClientCa;
pub use client_certificates::ClientCertificates;
pub use cluster::{ClusterSettings, LookupError};
pub use metrics::Metrics;
pub use paths::{PathError, PathRules};
pub use request_headers::{HeaderNames, RequestHeaders};
pub use token::TokenReviewer;
pub use turns::NoReview;
pub use user::{ANONYMOUS, User};

/// A review that came to no result. The request that needed it fails; the next one tries again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReviewError(pub String);
