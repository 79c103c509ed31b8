//! What a client says of the table that it wants.

use crate::field::FieldError;
use crate::refusal::{Refusal, Result};

/// A table that a client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableShape {
    /// In which version of `meta.k8s.io`.
    pub(crate) version: MetaVersion,
    /// What comes with each row.
    pub(crate) include: Include,
}

/// A version of `meta.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    /// `v1`
    V1,
    /// `v1beta1`, which looks the same.
    V1Beta1,
}

/// What of its object comes with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Include {
    /// Nothing.
    None,
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl MetaVersion {
    /// As tables and what is in them carry it.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

impl Include {
    /// From the parameter `includeObject`.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self> {
        match text {
            None | Some("Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => {
                let why = "must be 'Metadata', 'Object', 'None', or empty";
                let error = FieldError::invalid("includeObject", other, why);
                Err(Refusal::bad_request(format!("Unable to convert to Table as requested: {error}")))
            }
        }
    }
}
