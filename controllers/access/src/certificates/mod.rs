//! The controllers of CertificateSigningRequests: approve requests of kubelets, sign approved requests, delete old ones.
//!
//! ```text
//! request ─> approving: SubjectAccessReview ─> condition Approved ─> signing: certificate, or condition Failed ─> cleaner
//! ```
//!
//! The cache holds neither requests nor certificates. The controllers that approve and sign read an object from the API server
//! when its conditions say that they have work to do, decide on that state, and write it back with its version. So they
//! never act on an old state, and two managers never issue two certificates for one request.

pub mod approving;
pub mod cleaner;
pub mod pod_request_cleaner;
pub mod signing;

mod der;
mod live;
mod rules;

mod request;
#[cfg(test)]
mod testing;
