//! Snapshots of the API server's objects: saved by a request, restored into a folder that no server uses yet.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::Status;
use kube::{Client, Config};
use steersman_apiserver::{SavedSnapshot, SnapshotError};

use crate::cli::Snapshot;

/// Where the server has it.
const PATH: &str = "/debug/snapshot";
/// Maximum size in bytes of a refusal that is shown.
const REFUSAL: usize = 64 << 10;

/// Why a snapshot could not be saved or restored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The kubeconfig can't be used.
    #[error("kubeconfig {}: {source}", path.display())]
    Kubeconfig {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<KubeconfigError>,
    },
    /// The server does not answer.
    #[error("asking the API server for a snapshot: {}", innermost(.0))]
    Ask(#[source] Box<kube::Error>),
    /// The server answered something else.
    #[error("the API server refused: {0}")]
    Refused(String),
    /// The answer broke off.
    #[error("reading the snapshot from the API server: {}", innermost(.0))]
    Answer(#[source] Box<kube::Error>),
    /// The file can't be written.
    #[error("writing {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The snapshot can't be used.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// Does it, and returns what to tell the user.
///
/// # Errors
/// See [`Error`].
pub(crate) async fn run(snapshot: Snapshot) -> Result<String, Error> {
    match snapshot {
        Snapshot::Save { kubeconfig, file } => {
            let saved = save(&kubeconfig, &file).await?;
            let (objects, revision) = (saved.objects(), saved.revision());
            Ok(format!("Saved {objects} objects at version {revision} to {}\n", file.display()))
        }
        Snapshot::Restore { file, data_dir } => {
            let saved = SavedSnapshot::check(&file)?;
            saved.restore(&data_dir)?;
            let (objects, folder) = (saved.objects(), data_dir.display());
            Ok(format!(
                "Restored {objects} objects into {folder}; steersman standalone --data-dir={folder} starts with them\n"
            ))
        }
    }
}

/// Saves what the server has to a file, which is complete or not written.
async fn save(kubeconfig: &Path, file: &Path) -> Result<SavedSnapshot, Error> {
    let wrong = |source| Error::Kubeconfig { path: kubeconfig.to_owned(), source: Box::new(source) };
    let read = Kubeconfig::read_from(kubeconfig).map_err(wrong)?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(wrong)?;
    let client = Client::try_from(config).map_err(|error| Error::Ask(Box::new(error)))?;
    let part = beside(file);
    let failed = |source| Error::Write { path: part.clone(), source };
    // Secrets may be in it: it must be a file of our own.
    let _ = fs::remove_file(&part);
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part);
    let mut written = opened.map_err(failed)?;
    let saved = async {
        receive(&client, &mut written, &part).await?;
        written.sync_all().map_err(failed)?;
        let saved = SavedSnapshot::check(&part)?;
        fs::rename(&part, file).map_err(|source| Error::Write { path: file.to_owned(), source })?;
        Ok(saved)
    };
    let saved = saved.await;
    match &saved {
        // A name is durable once the folder that has it is synced.
        Ok(_) => _ = file.parent().map(|folder| File::open(folder).and_then(|folder| folder.sync_all())),
        Err(_) => _ = fs::remove_file(&part),
    }
    saved
}

/// Writes the server's answer to a file.
async fn receive(client: &Client, written: &mut File, path: &Path) -> Result<(), Error> {
    let request = Request::get(PATH).body(Body::empty()).expect("the path must be one");
    let answer = client.send(request).await.map_err(|error| Error::Ask(Box::new(error)))?;
    let status = answer.status();
    let mut body = answer.into_body();
    if status != StatusCode::OK {
        let text =
            Limited::new(body, REFUSAL).collect().await.map(|text| text.to_bytes()).unwrap_or_default();
        let told = serde_json::from_slice::<Status>(&text).map(|status| status.message);
        return Err(Error::Refused(told.unwrap_or_else(|_| status.to_string())));
    }
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Error::Answer(Box::new(error)))?;
        if let Some(data) = frame.data_ref() {
            written.write_all(data).map_err(|source| Error::Write { path: path.to_owned(), source })?;
        }
    }
    Ok(())
}

/// What the innermost cause of an error says: the outer ones only tell that there is one.
fn innermost(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// The name of a file until it is complete.
fn beside(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.{}.part", std::process::id()))
}
