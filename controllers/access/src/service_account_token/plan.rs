//! What a token's Secret lacks, and what becomes of it when it or its service account is gone.

use steersman_api::{ResourceVersion, Uid};
use steersman_controller::plan::Plan;
use steersman_kinds::content_digest::ContentDigest;
use steersman_kinds::secret::TokenContents;

/// A Secret and its service account, as far as the sync knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    /// The cache no longer has the Secret.
    Gone {
        /// Whether the cache has the account.
        has_account: bool,
    },
    /// The cache has the Secret.
    Cached {
        /// The version of the cached state.
        version: ResourceVersion,
        /// The parts that the cached state lacks.
        missing: Missing,
        /// The account.
        account: Account,
    },
    /// All is as it should be, or an event will come that says more.
    Settled,
}

/// The service account of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Account {
    /// The cache does not have it, or has another one of that name. The API server may have it.
    Unknown,
    /// The API server does not have it.
    Gone,
    /// There is an account, of this uid.
    Found(Uid),
}

/// The parts of a token that a Secret lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// The certificate authority, or another one.
    pub ca: bool,
    /// The namespace.
    pub namespace: bool,
    /// The token itself.
    pub token: bool,
}

/// An action of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the service account from the API server.
    ReadAccount,
    /// Delete the Secret.
    Delete,
    /// Read the Secret from the API server and, if it is still in this version, write what it lacks, for the account of this
    /// uid.
    Fill(ResourceVersion, Uid),
    /// Remove the reference to the Secret from the service account.
    Unlink,
}

impl Missing {
    /// The parts that these contents lack. `ca` is the authority that they should have, if any.
    pub(super) fn of(contents: TokenContents, ca: Option<ContentDigest>) -> Self {
        Self {
            ca: ca.is_some() && contents.ca != ca,
            namespace: !contents.has_namespace,
            token: !contents.has_token,
        }
    }

    /// Whether no part is missing.
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// Fills the Secret of an account that exists, deletes one whose account is gone, and removes the reference to one that is
/// gone itself.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    match observed {
        Observed::Gone { has_account: true } => Plan::step(Step::Unlink),
        Observed::Gone { has_account: false } | Observed::Settled => Plan::done(),
        Observed::Cached { account: Account::Unknown, .. } => Plan::step(Step::ReadAccount),
        Observed::Cached { account: Account::Gone, .. } => Plan::step(Step::Delete),
        Observed::Cached { missing, .. } if missing.is_none() => Plan::done(),
        Observed::Cached { account: Account::Found(uid), version, .. } => {
            Plan::step(Step::Fill(*version, uid.clone()))
        }
    }
}
