//! Names of containers across runtimes.

use std::fmt;
use std::str::FromStr;

use arcstr::ArcStr;

/// A container's id together with the runtime that gave it, written `containerd://4f1c...` in a pod's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerId {
    /// The runtime's name as its version call tells it, for instance `containerd`. Shared by all containers.
    pub runtime: ArcStr,
    /// What the runtime itself calls the container.
    pub id: String,
}

/// A text that is no container id: it must be `runtime://id`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid container ID: {0:?}")]
pub struct InvalidContainerId(pub String);

impl ContainerId {
    /// The container `id` of `runtime`.
    pub fn new(runtime: impl Into<ArcStr>, id: impl Into<String>) -> Self {
        Self { runtime: runtime.into(), id: id.into() }
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.runtime, self.id)
    }
}

impl FromStr for ContainerId {
    type Err = InvalidContainerId;

    /// Quotes around the text are ignored, as upstream ignores them.
    fn from_str(text: &str) -> Result<Self, InvalidContainerId> {
        let invalid = || InvalidContainerId(text.to_owned());
        let (runtime, id) = text.trim_matches('"').split_once("://").ok_or_else(invalid)?;
        if id.contains("://") {
            return Err(invalid());
        }
        Ok(Self::new(runtime, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_what_it_writes() {
        let id = ContainerId::new("containerd", "4f1c");
        assert_eq!(id.to_string(), "containerd://4f1c");
        assert_eq!("containerd://4f1c".parse(), Ok(id.clone()));
        assert_eq!("\"containerd://4f1c\"".parse(), Ok(id));
    }

    #[test]
    fn texts_without_exactly_one_separator_are_refused() {
        for text in ["", "4f1c", "containerd:/4f1c", "a://b://c"] {
            assert_eq!(text.parse::<ContainerId>(), Err(InvalidContainerId(text.to_owned())));
        }
    }
}
