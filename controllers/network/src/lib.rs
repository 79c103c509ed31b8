#![doc = include_str!("../README.md")]
//!
//! Shared by the controllers:
//! - [`membership`]: services and the pods that they select;
//! - [`slices`]: EndpointSlices as their two controllers read and write them.

pub mod endpoint_slice;
pub mod endpoint_slice_mirroring;
pub mod endpoints;
pub mod membership;
mod metadata;
pub mod service_cidr;
pub mod slices;
