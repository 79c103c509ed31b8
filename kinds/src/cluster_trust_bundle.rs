//! The cached fields of ClusterTrustBundles, in groups.

use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, kind, projection};

use super::content_digest::ContentDigest;

projection! {
    /// The certificates that the bundle vouches for.
    pub struct TrustBundle {
        /// The signer that the bundle belongs to.
        pub signer: Interned = 1 "signerName",
        /// The certificates in PEM.
        pub bundle: BundleDigest = 2 "trustBundle",
    }
}

/// The digest of a bundle's certificates. `None` if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BundleDigest(pub Option<ContentDigest>);

impl FieldValue for BundleDigest {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.0 = Some(ContentDigest::of(field.text()?.as_bytes()));
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bundle = ArcStr::from_json(deserializer)?;
        Ok(Self(Some(ContentDigest::of(bundle.as_bytes()))))
    }
}

kind! {
    /// Certificates that a signer vouches for.
    pub struct ClusterTrustBundle("certificates.k8s.io", "v1beta1", "clustertrustbundles") {
        bundle: TrustBundle = 2 "spec",
    }
}
