//! What stands in the files, and stood in those that can't be read now.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::super::annotations::full_name;
use super::super::manifest::{self, Fnv128a, MAX_LENGTH, Origin};
use super::super::update::SourcePod;

/// Reads a folder of manifests, or one manifest, again and again.
pub(super) struct Manifests {
    path: PathBuf,
    node_name: String,
    /// Files that were there the last time.
    files: BTreeMap<PathBuf, File>,
}

/// One manifest.
#[derive(Default)]
struct File {
    /// Of the bytes that were last looked at; `None` while there were none.
    digest: Option<String>,
    /// Of its last good state.
    pods: Vec<Arc<Pod>>,
    /// Why it could not be read, as it was reported.
    failure: Option<String>,
}

impl Manifests {
    pub(super) fn new(path: PathBuf, node_name: &str) -> Self {
        // A slash at the end would change the names of the files, and with them the uids.
        let path = path.components().collect();
        Self { path, node_name: node_name.to_owned(), files: BTreeMap::new() }
    }

    /// The pods of all files.
    ///
    /// # Errors
    /// Nothing can be said, since the path itself can't be read.
    pub(super) fn read(&mut self) -> io::Result<Vec<SourcePod>> {
        let paths = self.paths()?;
        self.files.retain(|path, _| paths.contains(path));
        for path in paths {
            let file = self.files.entry(path.clone()).or_default();
            let failure = match file.read(&path, &self.node_name) {
                Ok(()) => None,
                // It went while the folder was read.
                Err(Error::Open(error)) if error.kind() == io::ErrorKind::NotFound => {
                    self.files.remove(&path);
                    continue;
                }
                Err(error) => Some(error.to_string()),
            };
            if failure.is_some() && failure != file.failure {
                let error = failure.as_deref().unwrap_or_default();
                tracing::error!(path = %path.display(), error, "Could not process manifest file");
            }
            file.failure = failure;
        }
        Ok(self.pods())
    }

    /// The manifests there are, in the order of their names.
    fn paths(&self) -> io::Result<Vec<PathBuf>> {
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        if metadata.is_file() {
            return Ok(vec![self.path.clone()]);
        }
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
            // Links count as what they lead to; a link to nowhere is reported when it is opened.
            let folder = fs::metadata(&path).is_ok_and(|metadata| metadata.is_dir());
            if !hidden && !folder {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }

    /// Two files that give a pod of the same name: the later one counts.
    fn pods(&self) -> Vec<SourcePod> {
        let mut pods: BTreeMap<String, (&Path, &Arc<Pod>)> = BTreeMap::new();
        for (path, file) in &self.files {
            for pod in &file.pods {
                let name = full_name(pod);
                if let Some((other, _)) = pods.insert(name.clone(), (path, pod)) {
                    let (path, other) = (path.display(), other.display());
                    tracing::warn!(pod = name, %path, %other, "Two manifests name the same pod");
                }
            }
        }
        pods.into_values().map(|(_, pod)| SourcePod::Own(Arc::clone(pod))).collect()
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("opening it: {0}")]
    Open(#[source] io::Error),
    #[error("it is neither a file nor a folder")]
    Kind,
    #[error("it is longer than {MAX_LENGTH} bytes")]
    Length,
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
}

impl File {
    /// Reads the file if it changed. An empty one says nothing yet: somebody is about to write it.
    fn read(&mut self, path: &Path, node_name: &str) -> Result<(), Error> {
        // Opening a pipe would wait for who writes to it.
        if !fs::metadata(path).map_err(Error::Open)?.is_file() {
            return Err(Error::Kind);
        }
        let mut data = Vec::new();
        let file = fs::File::open(path).map_err(Error::Open)?;
        file.take(MAX_LENGTH as u64 + 1).read_to_end(&mut data).map_err(Error::Open)?;
        if data.len() > MAX_LENGTH {
            return Err(Error::Length);
        }
        let digest = Fnv128a::new().update(&data).hex();
        if data.is_empty() || (self.failure.is_none() && self.digest.as_ref() == Some(&digest)) {
            return Ok(());
        }
        let name = path.to_string_lossy();
        let pods = manifest::decode(&data, Origin::File(&name), node_name)?;
        self.pods = pods.into_iter().map(Arc::new).collect();
        self.digest = Some(digest);
        Ok(())
    }
}
