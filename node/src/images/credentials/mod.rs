//! Credentials for registries: from the pull secrets of pods, and from the node's own file.

mod docker_config;
mod glob;
mod keyring;
mod node_file;

pub use docker_config::{Error as DockerConfigError, Login};
pub(super) use keyring::sha256;
pub use keyring::{Credential, Error, Keyring, SecretCoordinates};
pub use node_file::NodeFile;
