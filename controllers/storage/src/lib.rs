#![doc = include_str!("../README.md")]

pub mod attach_detach;
pub mod ephemeral_volume;
pub mod expander;
pub mod protection;
pub mod selinux_warning;

pub mod binder;
mod claiming_pod;
