//! The controllers of volumes and of the claims to them. Each has a folder with its policy, options, RBAC rules and
//! metrics.

pub mod attach_detach;
pub mod ephemeral_volume;
pub mod expander;
pub mod protection;
pub mod selinux_warning;

pub mod binder;
mod claiming_pod;
