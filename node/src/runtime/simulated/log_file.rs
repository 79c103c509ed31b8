//! A container's log, in the CRI's format.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use jiff::Timestamp;

/// Appends to a file until it is reopened, as runtimes do: a file that was moved away gets the lines before that.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Creates the file where there is none; its folder must be there.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let file = Self::append(&path)?;
        Ok(Self { path, file })
    }

    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.file = Self::append(&self.path)?;
        Ok(())
    }

    /// Writes each line of `text` as one that stdout gave at `at`.
    pub(super) fn write(&mut self, at: Timestamp, text: &str) -> io::Result<()> {
        let mut lines = String::new();
        for line in text.lines() {
            lines.push_str(&format!("{at:.9} stdout F {line}\n"));
        }
        self.file.write_all(lines.as_bytes())
    }

    fn append(path: &PathBuf) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).open(path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lines_are_in_the_cris_format_and_follow_the_path_once_reopened() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("0.log"), folder.path().join("0.log.old"));
        let at: Timestamp = "2024-05-06T07:08:09.010Z".parse().unwrap();
        let mut log = LogFile::open(path.clone()).unwrap();
        log.write(at, "one\ntwo").unwrap();
        fs::rename(&path, &old).unwrap();
        log.write(at, "three").unwrap();
        log.reopen().unwrap();
        log.write(at, "four").unwrap();
        assert_eq!(
            fs::read_to_string(old).unwrap(),
            "2024-05-06T07:08:09.010000000Z stdout F one\n\
             2024-05-06T07:08:09.010000000Z stdout F two\n\
             2024-05-06T07:08:09.010000000Z stdout F three\n"
        );
        assert_eq!(fs::read_to_string(path).unwrap(), "2024-05-06T07:08:09.010000000Z stdout F four\n");
    }
}
