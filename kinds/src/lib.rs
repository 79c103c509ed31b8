//! The fields that controllers cache of each built-in kind, in groups: one file for each kind.
//!
//! A controller declares with `keep!` which groups of fields it reads; its informer caches these and no others.

pub mod annotation;
pub mod bootstrap_token;
pub mod certificate_signing_request;
pub mod claim_volumes;
pub mod cluster_role;
pub mod condition;
pub mod config_map;
pub mod containers;
pub mod content_digest;
pub mod controller_revision;
pub mod cron_job;
pub mod csi_driver;
pub mod daemon_set;
pub mod deletion_cost;
pub mod deployment;
pub mod device_class;
pub mod endpoint_slice;
pub mod endpoints;
pub mod ephemeral_volumes;
pub mod index_failures;
pub mod ip;
pub mod ip_address;
pub mod job;
pub mod namespace;
pub mod node;
pub mod node_volumes;
pub mod object_ttl;
pub mod persistent_volume;
pub mod persistent_volume_claim;
pub mod pod;
pub mod pod_cidrs;
pub mod pod_claims;
pub mod pod_disruption_budget;
pub mod pod_failure;
pub mod pod_resources;
pub mod pod_secrets;
pub mod pod_template;
pub mod pod_volumes;
pub mod ports;
pub mod replica_set;
pub mod replication_controller;
pub mod resource_claim;
pub mod resource_list;
pub mod resource_quota;
pub mod scheduling;
pub mod secret;
pub mod selected_annotations;
pub mod selector;
pub mod service;
pub mod service_account;
pub mod service_cidr;
pub mod shared;
pub mod stateful_set;
pub mod storage_class;
pub mod topology_mode;
pub mod volume_attachment;
pub mod volume_attributes_class;
pub mod volume_source;

#[cfg(test)]
mod tests;
