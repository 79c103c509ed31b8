//! The controllers of resource claims and of the devices that are allocated to them. Each has a folder with its policy,
//! options, RBAC rules and metrics.
