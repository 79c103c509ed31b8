//! The controllers of identities and of what they may do: service accounts and their tokens, certificates, roles. Each has a
//! folder with its policy, options, RBAC rules and metrics.
