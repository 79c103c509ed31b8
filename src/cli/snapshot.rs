//! The flags of `steersman standalone snapshot`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::pflag::Refusal;
use super::standalone::data_dir;
use super::values::absolute;

/// What to do instead of running a cluster.
#[derive(Subcommand, Debug)]
pub(crate) enum Action {
    /// Save all objects of a running server to a file, or restore them into a new data folder
    #[command(subcommand, arg_required_else_help = true)]
    Snapshot(Verb),
}

/// What to do with a snapshot, as given.
#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// Save all objects of the API server of a running `steersman standalone`
    Save(SaveFlags),
    /// Make a data folder with all objects of a file, for `steersman standalone` to start with
    Restore(RestoreFlags),
}

/// The flags of `save`.
#[derive(Args, Debug)]
pub(crate) struct SaveFlags {
    /// File to write; an older one is replaced once the new one is complete
    #[arg(value_name = "file")]
    file: PathBuf,
    /// Kubeconfig of an administrator; by default the one in the data folder
    #[arg(long, value_name = "file", conflicts_with = "data_dir")]
    kubeconfig: Option<PathBuf>,
    /// Data folder of the server, for its kubeconfig; by default the default data folder
    #[arg(long, value_name = "folder")]
    data_dir: Option<PathBuf>,
}

/// The flags of `restore`.
#[derive(Args, Debug)]
pub(crate) struct RestoreFlags {
    /// File that `save` wrote
    #[arg(value_name = "file")]
    file: PathBuf,
    /// Folder to make; it may be there already, empty or with nothing but the folder pki of the server before; by default the
    /// default data folder
    #[arg(long, value_name = "folder")]
    data_dir: Option<PathBuf>,
}

/// What to do with a snapshot, checked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Snapshot {
    /// Save all objects of the server of that kubeconfig to the file.
    Save { kubeconfig: PathBuf, file: PathBuf },
    /// Make the data folder from the file.
    Restore { file: PathBuf, data_dir: PathBuf },
}

impl Verb {
    /// Checks the flags.
    ///
    /// # Errors
    /// No folder is given, and there is no default.
    pub(crate) fn check(self) -> Result<Snapshot, Refusal> {
        Ok(match self {
            Self::Save(SaveFlags { file, kubeconfig, data_dir: folder }) => {
                let kubeconfig = match kubeconfig.filter(|path| !path.as_os_str().is_empty()) {
                    Some(path) => absolute("--kubeconfig", path)?,
                    None => data_dir(folder)?.join("kubeconfig"),
                };
                Snapshot::Save { kubeconfig, file: absolute("file", file)? }
            }
            Self::Restore(RestoreFlags { file, data_dir: folder }) => {
                Snapshot::Restore { file: absolute("file", file)?, data_dir: data_dir(folder)? }
            }
        })
    }
}
