//! Why a data folder can't be used.

use std::io;
use std::path::PathBuf;

use steersman_api::ObjectKey;

use super::database::FORMAT;
use crate::store::TableId;

/// The reason why the server can't use its data folder. Each message is one line, for the administrator.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder can't be made, or its mode not be set.
    #[error("data folder {}: {source}", folder.display())]
    Folder {
        /// Which folder.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is there, open to other users, and holds other things.
    #[error("data folder {}: it holds other things and is open to other users: name a folder of its own", .0.display())]
    Foreign(PathBuf),
    /// Another process has it.
    #[error("data folder {}: another server is using it", .0.display())]
    InUse(PathBuf),
    /// A later version of the program wrote it.
    #[error(
        "data folder {}: it was written by a newer version (format {found}, this one knows {FORMAT})",
        folder.display()
    )]
    Newer {
        /// Which folder.
        folder: PathBuf,
        /// The format it has.
        found: u64,
    },
    /// It can't be read: it is no store, or broken.
    #[error("data folder {}: {source}", folder.display())]
    Read {
        /// Which folder.
        folder: PathBuf,
        /// What the database says.
        source: Box<redb::Error>,
    },
    /// Its Secrets are to be encrypted with another key, and the disk is full.
    #[error("data folder {}: the disk has no space to write its Secrets anew with the first encryption key", .0.display())]
    NoSpaceForSecrets(PathBuf),
    /// An object in it can't be read.
    #[error("data folder {}: {table} {key} is not readable: {why}", folder.display())]
    Object {
        /// Which folder.
        folder: PathBuf,
        /// Of which table.
        table: TableId,
        /// Which object.
        key: ObjectKey,
        /// What is wrong with it.
        why: String,
    },
}
