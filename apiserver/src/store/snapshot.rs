//! All objects at one moment, as a file that a new data folder can begin with.
//!
//! The file is text, a line of JSON for each part, so that it can be read with any tool:
//!
//! ```text
//! {"snapshot":1,"revision":1203,"objects":2}
//! {"table":"namespaces","namespace":"","name":"default","state":{"metadata":{…},…}}
//! {"table":"secrets","namespace":"default","name":"a","sealed":"AGFlczI1…"}
//! {"sha256":"9f86d0…"}
//! ```
//!
//! `state` is an object as the data folder has it: without `apiVersion` and `kind`. A Secret that is encrypted there is encrypted
//! here, too, and `sealed` has its base64. The last line has the digest of all bytes before it, so that a file that was cut off or
//! changed is not taken for a whole one.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use steersman_api::ObjectKey;

use super::journal::{self, Entry, OpenError};
use super::table::Table;
use super::{Object, Store, TableId};
use crate::codec;

/// The version of the form.
const FORMAT: u64 = 1;
/// Maximum length of a line in bytes: more than the largest object takes, in base64.
const LINE: u64 = 8 << 20;
/// How many objects are written to the new folder at once, and how many bytes they may have before they are.
const BATCH: (usize, usize) = (1024, 8 << 20);
/// How far ahead of the snapshot a server begins that is made from it. Clients may have seen versions later than the snapshot: none
/// of them may come again with another meaning, or their caches would stay wrong. etcd's documentation recommends this number.
const AHEAD: u64 = 1_000_000_000;
/// The last version that a snapshot may have: more than a server can come to.
const LAST: u64 = u64::MAX >> 2;

/// The first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    /// [`FORMAT`].
    snapshot: u64,
    /// The version of the last write that is in it.
    revision: u64,
    /// How many objects follow.
    objects: usize,
}

/// The line of an object.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    table: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    state: Option<&'a RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed: Option<String>,
}

/// The last line.
#[derive(Serialize, Deserialize)]
struct Foot {
    sha256: String,
}

impl Store {
    /// All objects, and the version of the last write.
    fn everything(&self) -> (u64, Vec<Arc<Object>>) {
        let state = self.shared.state.read();
        let mut tables: Vec<(&TableId, &Table)> = state.tables.by_id.iter().collect();
        tables.sort_unstable_by_key(|(id, _)| *id);
        (state.revision, tables.into_iter().flat_map(|(_, table)| table.now("")).collect())
    }

    /// The encrypted form of an object that is encrypted on the disk.
    fn sealed(&self, object: &Object) -> Option<Vec<u8>> {
        self.journal.get()?.seal(&object.resource.table, &object.key, object.json())
    }
}

/// A snapshot on its way to a client: an iterator of its lines.
pub(crate) struct Saved {
    store: Arc<Store>,
    head: Head,
    objects: std::vec::IntoIter<Arc<Object>>,
    /// Of all lines so far; `None` after the last one.
    digest: Option<Context>,
    begun: bool,
}

impl Saved {
    /// Of the present state.
    pub(crate) fn of(store: &Arc<Store>) -> Self {
        let (revision, objects) = store.everything();
        let head = Head { snapshot: FORMAT, revision, objects: objects.len() };
        let digest = Some(Context::new(&SHA256));
        Self { store: Arc::clone(store), head, objects: objects.into_iter(), digest, begun: false }
    }

    fn next_text(&mut self) -> Option<Vec<u8>> {
        if !std::mem::replace(&mut self.begun, true) {
            return Some(text(&self.head));
        }
        let object = self.objects.next()?;
        let sealed = self.store.sealed(&object).map(|sealed| STANDARD.encode(sealed));
        let state: Option<&RawValue> = match sealed {
            Some(_) => None,
            None => Some(serde_json::from_slice(object.json()).expect("what is stored must be JSON")),
        };
        let key = &object.key;
        let (table, namespace, name) =
            (object.resource.table.as_str(), key.namespace.as_str(), key.name.as_str());
        Some(text(&Line {
            table: table.into(),
            namespace: namespace.into(),
            name: name.into(),
            state,
            sealed,
        }))
    }
}

impl Iterator for Saved {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        match self.next_text() {
            Some(line) => {
                self.digest.as_mut()?.update(&line);
                Some(line.into())
            }
            None => Some(text(&Foot { sha256: hexadecimal(self.digest.take()?) }).into()),
        }
    }
}

fn text(part: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(part).expect("texts and numbers must serialize");
    text.push(b'\n');
    text
}

fn hexadecimal(digest: Context) -> String {
    let mut text = String::new();
    for byte in digest.finish().as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A file with all objects of a server at one moment: what the server answers to `GET /debug/snapshot`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedSnapshot {
    path: PathBuf,
    head: Head,
}

/// A snapshot can't be used. Each message is one line, for the administrator.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file can't be read.
    #[error("snapshot {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is no snapshot, or not a whole one.
    #[error("snapshot {}, line {line}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A later version of the program wrote it.
    #[error(
        "snapshot {}: it was written by a newer version (format {found}, this one knows {FORMAT})",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format it has.
        found: u64,
    },
    /// The folder to restore into is not empty.
    #[error("data folder {}: it holds {found}; restore into an empty folder, or one with nothing but pki", folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
        /// What it holds.
        found: String,
    },
    /// The folder can't be created or written.
    #[error(transparent)]
    Folder(#[from] OpenError),
}

impl SavedSnapshot {
    /// Reads the whole file, and sees to it that nothing of it is missing or changed.
    ///
    /// # Errors
    /// [`SnapshotError::Read`], [`SnapshotError::Damaged`], [`SnapshotError::Newer`].
    pub fn check(path: &Path) -> Result<Self, SnapshotError> {
        let head = Lines::open(path)?.for_each(|_| Ok(()))?;
        Ok(Self { path: path.to_owned(), head })
    }

    /// How many objects it has.
    pub fn objects(&self) -> usize {
        self.head.objects
    }

    /// The version of the last write that is in it.
    pub fn revision(&self) -> u64 {
        self.head.revision
    }

    /// Makes a data folder with these objects, for a server that has not run yet. The folder may be there already, empty or with
    /// nothing but the folder `pki` of keys and certificates, which then stay valid. It is complete when this returns, or has no
    /// objects.
    ///
    /// Versions go on far beyond those of the snapshot, so that clients of the server before see that theirs are outdated.
    ///
    /// # Errors
    /// See [`SnapshotError`].
    pub fn restore(&self, folder: &Path) -> Result<(), SnapshotError> {
        journal::begin_with(folder, |database| {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            let revision = self.head.revision + AHEAD;
            let head = Lines::open(&self.path)?.for_each(|entry| {
                bytes += entry.state.as_ref().map_or(0, Bytes::len);
                batch.push(entry);
                if batch.len() >= BATCH.0 || bytes >= BATCH.1 {
                    journal::fill(database, &std::mem::take(&mut batch), revision, folder)?;
                    bytes = 0;
                }
                Ok(())
            })?;
            if head != self.head {
                let why = "it has changed since it was checked".to_owned();
                return Err(SnapshotError::Damaged { path: self.path.clone(), line: 1, why });
            }
            Ok(journal::fill(database, &batch, revision, folder)?)
        })
    }
}

/// The lines of a file.
struct Lines<'a> {
    path: &'a Path,
    file: BufReader<File>,
    digest: Context,
    /// The number of the last line that was read.
    number: usize,
    line: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn open(path: &'a Path) -> Result<Self, SnapshotError> {
        let file =
            File::open(path).map_err(|source| SnapshotError::Read { path: path.to_owned(), source })?;
        let (file, digest) = (BufReader::new(file), Context::new(&SHA256));
        Ok(Self { path, file, digest, number: 0, line: Vec::new() })
    }

    fn damaged(&self, why: impl ToString) -> SnapshotError {
        SnapshotError::Damaged { path: self.path.to_owned(), line: self.number, why: why.to_string() }
    }

    /// Reads the next line. Its bytes do not count for the digest yet.
    fn advance(&mut self) -> Result<(), SnapshotError> {
        self.number += 1;
        self.line.clear();
        let read = self.file.by_ref().take(LINE).read_until(b'\n', &mut self.line);
        read.map_err(|source| SnapshotError::Read { path: self.path.to_owned(), source })?;
        match self.line.last() {
            Some(b'\n') => Ok(()),
            Some(_) if self.line.len() as u64 == LINE => Err(self.damaged("the line is too long")),
            _ => Err(self.damaged("the file ends too soon")),
        }
    }

    /// Hands over each object, and then compares the digest. Returns what the first line says.
    fn for_each(
        mut self,
        mut take: impl FnMut(Entry) -> Result<(), SnapshotError>,
    ) -> Result<Head, SnapshotError> {
        self.advance()?;
        let head: Head = serde_json::from_slice(&self.line).map_err(|error| self.damaged(words(&error)))?;
        if head.snapshot > FORMAT {
            return Err(SnapshotError::Newer { path: self.path.to_owned(), found: head.snapshot });
        }
        if head.snapshot == 0 || head.revision > LAST {
            return Err(self.damaged("it is no first line of a snapshot"));
        }
        self.digest.update(&self.line);
        let mut last = None;
        for _ in 0..head.objects {
            self.advance()?;
            let entry = entry(&self.line, head.revision).map_err(|why| self.damaged(why))?;
            let at = Some((entry.table.clone(), entry.key.clone()));
            if at <= last {
                return Err(self.damaged("the object is there twice, or in the wrong place"));
            }
            last = at;
            take(entry)?;
            self.digest.update(&self.line);
        }
        self.advance()?;
        let foot: Foot = serde_json::from_slice(&self.line).map_err(|error| self.damaged(words(&error)))?;
        if foot.sha256 != hexadecimal(self.digest.clone()) {
            return Err(self.damaged("the file has changed since it was written: its digest is another one"));
        }
        match self.file.fill_buf() {
            Ok([]) => Ok(head),
            Ok(_) => Err(self.damaged("something follows the last line")),
            Err(source) => Err(SnapshotError::Read { path: self.path.to_owned(), source }),
        }
    }
}

/// What serde says, without the place in the line.
fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split_once(" at line ").map_or(text.clone(), |(words, _)| words.to_owned())
}

/// What must hold of a state, whatever its kind.
#[derive(Deserialize)]
struct State {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    resource_version: String,
}

/// The object of a line, to be written. No object has a version after `revision`.
fn entry(line: &[u8], revision: u64) -> Result<Entry, String> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| words(&error))?;
    let state = match (line.state, line.sealed) {
        (Some(state), None) => {
            check_state(state, &line.namespace, &line.name, revision)?;
            Bytes::copy_from_slice(state.get().as_bytes())
        }
        (None, Some(sealed)) => STANDARD.decode(sealed).map_err(|error| error.to_string())?.into(),
        _ => return Err("an object has either a state or an encrypted one".to_owned()),
    };
    let key = ObjectKey::new(&*line.namespace, &*line.name);
    Ok(Entry { version: revision, table: (&*line.table).into(), key, state: Some(state), freed: 0 })
}

/// Sees to it that a server can start with a state.
fn check_state(state: &RawValue, namespace: &str, name: &str, revision: u64) -> Result<(), String> {
    codec::check(state.get().as_bytes()).map_err(|error| error.to_string())?;
    let State { metadata } = serde_json::from_str(state.get()).map_err(|error| words(&error))?;
    if (metadata.namespace.as_str(), metadata.name.as_str()) != (namespace, name) {
        return Err(format!("it is the state of {}/{}", metadata.namespace, metadata.name));
    }
    match metadata.resource_version.parse::<u64>() {
        Ok(version) if version <= revision => Ok(()),
        _ => Err(format!("it has the version {:?}, and the snapshot {revision}", metadata.resource_version)),
    }
}

#[cfg(test)]
mod tests;
