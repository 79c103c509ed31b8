//! Variables from files of a volume (`fileKeyRef`).
//!
//! Whoever writes to the volume decides what is there: what is opened is a regular file in it, wherever its links lead, and no
//! more of it is read than a file of variables has.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, FileKeySelector};
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

use crate::volumes::MountedVolume;

/// How long a file may be, in bytes. Upstream reads on; containers can't have so much in their environment.
const LONGEST_FILE: u64 = 1 << 20;
/// How long a line may be, in bytes, as for upstream's reader.
const LONGEST_LINE: usize = 64 * 1024 - 1;

/// The files that a container's variables refer to, by volume and path, each as it could be read.
#[derive(Debug, Default)]
pub struct EnvFiles(BTreeMap<(String, String), Result<EnvFile, String>>);

#[derive(Debug)]
struct EnvFile {
    /// Where it is on the node.
    path: PathBuf,
    read: io::Result<Vec<u8>>,
}

/// Whether a container has variables from files.
pub(super) fn refers_to_files(container: &Container) -> bool {
    selectors(container).next().is_some()
}

fn selectors(container: &Container) -> impl Iterator<Item = &FileKeySelector> {
    let sources = container.env.iter().flatten().filter_map(super::env::source);
    sources.filter_map(|source| source.file_key_ref.as_ref())
}

impl EnvFiles {
    /// Reads the files that `container` refers to in the pod's volumes that are there. Blocking.
    pub fn read(container: &Container, volumes: &BTreeMap<String, MountedVolume>) -> Self {
        let mut files = BTreeMap::new();
        for of in selectors(container) {
            files.entry((of.volume_name.clone(), of.path.clone())).or_insert_with(|| {
                let volume = volumes.get(&of.volume_name).ok_or_else(|| {
                    format!("cannot find the volume {:?} referenced by FileKeyRef", of.volume_name)
                })?;
                let read = contents(&volume.path, &of.path);
                Ok(EnvFile { path: volume.path.join(of.path.trim_start_matches('/')), read })
            });
        }
        Self(files)
    }

    /// The value of a key; `None` where it is optional and not there.
    ///
    /// # Errors
    /// There is no such volume, file or key, or the file can't be understood; in words for the container's waiting state.
    pub(super) fn value(&self, of: &FileKeySelector) -> Result<Option<String>, String> {
        let EnvFile { path, read } = match self.0.get(&(of.volume_name.clone(), of.path.clone())) {
            Some(found) => found.as_ref().map_err(Clone::clone)?,
            None => return Err(format!("{:?} was not asked for", of.path)),
        };
        let found = match read {
            Ok(text) => value(text, &of.key),
            Err(error) => Err(error.to_string()),
        };
        let found = found.map_err(|error| {
            tracing::error!(path = %path.display(), error, "Failed to parse env file");
            "couldn't parse env file".to_owned()
        })?;
        match found {
            Some(value) if !value.is_empty() => Ok(Some(value)),
            _ if of.optional == Some(true) => Ok(None),
            _ => Err(format!("environment variable key {:?} not found in file {path:?}", of.key)),
        }
    }
}

/// What is in a file of the volume. Links lead where they would if the volume were all there is.
fn contents(volume: &Path, path: &str) -> io::Result<Vec<u8>> {
    let root = open(volume, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let file = File::from(in_root(&root, path)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut text = Vec::new();
    file.take(LONGEST_FILE + 1).read_to_end(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|length| length > LONGEST_FILE) {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too long"));
    }
    Ok(text)
}

fn in_root(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    // A pipe is not waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..8 {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            // Something was renamed meanwhile, so that the kernel can't be sure.
            Err(Errno::AGAIN) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// The lines of a file, by their numbers.
struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Lines<'a> {
    /// The next line, without its end; `None` after the last one.
    fn next(&mut self) -> Result<Option<&'a [u8]>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let (line, rest) = end.map_or((self.rest, &[][..]), |end| (&self.rest[..end], &self.rest[end + 1..]));
        if line.len() > LONGEST_LINE {
            return Err(format!("line {} is too long", self.number));
        }
        self.rest = rest;
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

/// The value of `key` in a file of lines `NAME='value'`, which may go on over several lines, with comments. Nothing is
/// escaped or expanded. What follows the key is not looked at.
fn value(text: &[u8], key: &str) -> Result<Option<String>, String> {
    let mut lines = Lines { rest: text, number: 0 };
    while let Some(line) = lines.next()? {
        let line = without_blanks(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let number = lines.number;
        let fault = |why: &str| Err(format!("invalid environment variable format at line {number}: {why}"));
        let Some(equals) = position(line, b'=') else { return fault("missing '='") };
        let (name, written) = (&line[..equals], &line[equals + 1..]);
        if without_blanks(name).is_empty() {
            return fault("empty variable name");
        }
        if name.ends_with(b" ") || name.ends_with(b"\t") {
            return fault("whitespace before '=' is not allowed");
        }
        // To a shell that is a variable without a value, and something else after it.
        let value = if written.starts_with(b" ") || written.starts_with(b"\t") {
            Vec::new()
        } else {
            let Some(quoted) = written.strip_prefix(b"'") else {
                return fault("value must be enclosed in single quotes");
            };
            quoted_value(quoted, &mut lines)?
        };
        if name == key.as_bytes() {
            return Ok(Some(String::from_utf8_lossy(&value).into_owned()));
        }
    }
    Ok(None)
}

/// What stands before the next quote, which may be on a later line.
fn quoted_value<'a>(mut rest: &'a [u8], lines: &mut Lines<'a>) -> Result<Vec<u8>, String> {
    let (began, mut value) = (lines.number, Vec::new());
    loop {
        if let Some(quote) = position(rest, b'\'') {
            value.extend_from_slice(&rest[..quote]);
            let after = without_blanks(&rest[quote + 1..]);
            if after.is_empty() || after.starts_with(b"#") {
                return Ok(value);
            }
            let line = lines.number;
            return Err(format!(
                "invalid environment variable format at line {line}: unexpected content after closing quote"
            ));
        }
        value.extend_from_slice(rest);
        value.push(b'\n');
        rest = lines.next()?.ok_or_else(|| {
            format!("invalid environment variable format starting at line {began}: unclosed single quote")
        })?;
    }
}

fn position(text: &[u8], byte: u8) -> Option<usize> {
    text.iter().position(|one| *one == byte)
}

fn without_blanks(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
    &text[begin..]
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;
    use crate::regular_file::make_pipe;

    #[test]
    fn files_have_names_and_quoted_values() {
        let long = "x".repeat(LONGEST_LINE + 1);
        let at = |line: usize, why: &str| {
            Err(format!("invalid environment variable format at line {line}: {why}"))
        };
        for (text, expected) in [
            ("", Ok(None)),
            ("KEY='value'", Ok(Some("value"))),
            (" \t\n# KEY='no'\n\tOTHER='a'\n  KEY='b' # c\nKEY='d'\n", Ok(Some("b"))),
            ("KEY=''", Ok(Some(""))),
            ("KEY= 'a'\n", Ok(Some(""))),
            ("KEY='a=$B \\\"# \t'\r\n", Ok(Some("a=$B \\\"# \t"))),
            ("OTHER='KEY=\nKEY='\nKEY='one\n two\r\n\n#three'\n", Ok(Some("one\n two\n\n#three"))),
            ("A='b'\nKEY\n", at(2, "missing '='")),
            ("='a'", at(1, "empty variable name")),
            (" ='a'", at(1, "empty variable name")),
            ("KEY ='a'", at(1, "whitespace before '=' is not allowed")),
            ("KEY=a", at(1, "value must be enclosed in single quotes")),
            ("KEY=", at(1, "value must be enclosed in single quotes")),
            ("KEY=\"a\"", at(1, "value must be enclosed in single quotes")),
            ("A='\n'b", at(2, "unexpected content after closing quote")),
            ("KEY='a''b'", at(1, "unexpected content after closing quote")),
            (
                "\nKEY='a\n",
                Err("invalid environment variable format starting at line 2: unclosed single quote".into()),
            ),
            // Nobody looks further than the key.
            ("KEY='a'\nwrong", Ok(Some("a"))),
            (long.as_str(), Err("line 1 is too long".into())),
        ] {
            let expected = expected.map(|value| value.map(str::to_owned));
            assert_eq!(value(text.as_bytes(), "KEY"), expected, "{text:.80?}");
        }
    }

    #[test]
    fn a_file_is_read_in_its_volume_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("volume");
        std::fs::create_dir_all(volume.join("sub")).unwrap();
        std::fs::write(volume.join("sub/env"), "A='1'\n").unwrap();
        std::fs::write(folder.path().join("outside"), "A='2'\n").unwrap();
        std::fs::write(volume.join("long"), vec![b'#'; (1 << 20) + 1]).unwrap();
        make_pipe(&volume.join("pipe"));
        for (link, target) in [
            ("near", "sub/env".into()),
            ("rooted", "/sub/env".into()),
            ("out", "../outside".into()),
            ("absolute", folder.path().join("outside")),
            ("magic", PathBuf::from("/proc/self/root/etc/hostname")),
        ] {
            symlink(target, volume.join(link)).unwrap();
        }
        let container = |path: &str, volume: &str, key: &str, optional: bool| -> Container {
            let of = json!({ "volumeName": volume, "path": path, "key": key, "optional": optional });
            let env = json!([{ "name": "X", "valueFrom": { "fileKeyRef": of } }]);
            serde_json::from_value(json!({ "name": "c", "env": env })).unwrap()
        };
        let mounted = MountedVolume { path: volume.clone(), read_only: false, relabel: true };
        let volumes = BTreeMap::from([("data".to_owned(), mounted)]);
        let get = |path: &str, volume: &str, key: &str, optional: bool| {
            let container = container(path, volume, key, optional);
            assert!(refers_to_files(&container));
            EnvFiles::read(&container, &volumes).value(selectors(&container).next().unwrap())
        };
        for path in ["sub/env", "near", "rooted", "sub/../near", "../sub/env", "/near"] {
            assert_eq!(get(path, "data", "A", false), Ok(Some("1".into())), "{path}");
        }
        for path in ["out", "absolute", "magic", "pipe", "long", "sub", "none", "../outside"] {
            for optional in [false, true] {
                assert_eq!(get(path, "data", "A", optional), Err("couldn't parse env file".into()), "{path}");
            }
        }
        assert_eq!(get("near", "data", "B", true), Ok(None));
        let missing = format!("environment variable key \"B\" not found in file {:?}", volume.join("near"));
        assert_eq!(get("near", "data", "B", false), Err(missing));
        let missing = "cannot find the volume \"other\" referenced by FileKeyRef";
        assert_eq!(get("near", "other", "A", true), Err(missing.into()));
    }
}
