//! A folder of records, each in a file named after its key's hash, as upstream keeps them.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::images::credentials::sha256;

/// A folder of records of one kind. All calls are blocking.
#[derive(Debug)]
pub(super) struct Files(PathBuf);

const PREFIX: &str = "sha256-";
const TEMPORARY: &str = ".tmp";

impl Files {
    /// That folder, made where missing, for its owner alone.
    pub(super) fn open(folder: PathBuf) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }

    /// The record of that key.
    pub(super) fn read<T: DeserializeOwned>(&self, key: &str) -> io::Result<Option<T>> {
        read(&self.path(key))
    }

    /// Writes the record of a key, whole or not at all.
    pub(super) fn write(&self, key: &str, record: &impl Serialize) -> io::Result<()> {
        let path = self.path(key);
        let mut temporary = path.clone().into_os_string();
        temporary.push(TEMPORARY);
        let temporary = PathBuf::from(temporary);
        let written =
            write_new(&temporary, &serde_json::to_vec(record)?).and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            // What is left of it is overwritten by the next try.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Removes the record of a key, if there is one.
    pub(super) fn remove(&self, key: &str) -> io::Result<()> {
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// All records. What can't be read is warned of and left out.
    pub(super) fn list<T: DeserializeOwned>(&self) -> io::Result<Vec<T>> {
        let paths = self.paths()?;
        Ok(paths
            .filter_map(|path| {
                read(&path)
                    .inspect_err(|error| {
                        tracing::warn!(path = %path.display(), %error, "A record of an image pull can't be read");
                    })
                    .ok()
                    .flatten()
            })
            .collect())
    }

    /// How many records there are.
    pub(super) fn count(&self) -> io::Result<usize> {
        self.paths().map(Iterator::count)
    }

    fn paths(&self) -> io::Result<impl Iterator<Item = PathBuf>> {
        let entries = fs::read_dir(&self.0)?.collect::<io::Result<Vec<_>>>()?;
        let is_record = |name: &OsStr| {
            let name = name.to_string_lossy();
            name.starts_with(PREFIX) && !name.ends_with(TEMPORARY)
        };
        let records = entries.into_iter().filter(move |entry| is_record(&entry.file_name()));
        Ok(records.map(|entry| entry.path()))
    }

    fn path(&self, key: &str) -> PathBuf {
        self.0.join(format!("{PREFIX}{}", sha256(key.as_bytes())))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}
