//! Opening files where a container may have put something else.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

/// Opens a regular file. What else is there is an error: nobody waits for the other end of a pipe, or for a device. Blocks
/// for no longer than the disk does.
///
/// # Errors
/// The file system's, and that it is no regular file.
pub(crate) fn open_regular(path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
    // Without these, opening alone may wait for ever, or make a terminal ours.
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, mode)?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}

/// Puts a pipe there that nobody writes to.
#[cfg(test)]
pub(crate) fn make_pipe(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o644), 0)
        .expect("a pipe must be made");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_file_is_opened_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        make_pipe(&at("pipe"));
        let opens = |name: &str, flags| open_regular(&at(name), flags, Mode::empty()).is_ok();
        for (name, expected) in [("file", true), ("link", true), ("pipe", false), (".", false), ("no", false)]
        {
            assert_eq!(opens(name, OFlags::RDONLY), expected, "{name}");
        }
        assert!(!opens("link", OFlags::RDONLY | OFlags::NOFOLLOW));
        assert!(!opens("pipe", OFlags::RDWR));
    }
}
