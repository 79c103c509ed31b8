//! What users do with kubectl.
//!
//! They run where `KUBEBUILDER_ASSETS` names the folder with kubectl, or kubectl is on the PATH; elsewhere they say that
//! they were skipped.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod apply;
mod describe;
mod kubectl;
mod objects;
mod served;
mod waits;
