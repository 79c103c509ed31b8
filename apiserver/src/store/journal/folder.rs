//! A server's data folder: made where it is missing, closed to other users, and locked.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use redb::Database;

use super::database::prepare;
use super::{FILE, OpenError};

/// The name of the database's file until it is complete: the database can't tell a file whose creation was interrupted from
/// a foreign one.
pub(super) const UNFINISHED: &str = "store.redb.new";
/// Locked by the process that uses the folder.
const LOCK: &str = "lock";

/// Makes a folder where it is missing, and closes it to other users.
///
/// An existing folder is closed only if it is a store's, or empty: other users may need anything else. With
/// `is_ours`, it is closed whatever it holds: the caller has looked.
pub(super) fn close(folder: &Path, is_ours: bool) -> Result<(), OpenError> {
    let failed = |source| OpenError::Folder { folder: folder.to_owned(), source };
    let was_there = folder.try_exists().map_err(failed)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let open = fs::metadata(folder).map_err(failed)?.permissions().mode() & 0o077 != 0;
    if !open {
        return Ok(());
    }
    let is_store = [FILE, UNFINISHED].iter().any(|file| folder.join(file).exists());
    let is_foreign =
        was_there && !is_store && !is_ours && fs::read_dir(folder).map_err(failed)?.next().is_some();
    if is_foreign {
        return Err(OpenError::Foreign(folder.to_owned()));
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(failed)
}

/// Locks a folder, for as long as the file is open.
pub(super) fn lock(folder: &Path) -> Result<File, OpenError> {
    let failed = |source| OpenError::Folder { folder: folder.to_owned(), source };
    let lock =
        File::options().create(true).truncate(false).write(true).open(folder.join(LOCK)).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// The keys and certificates of a server.
const KEYS: &str = "pki";

/// What a folder holds beside the keys and certificates of a server, if anything.
pub(super) fn other_than_keys(folder: &Path) -> Result<Option<String>, OpenError> {
    let failed = |source| OpenError::Folder { folder: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if ![LOCK, KEYS, UNFINISHED].contains(&name.as_str()) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Makes the database's file in a locked folder, with what `fill` writes. It has its name once it is complete, whatever happens
/// before.
pub(super) fn make<E: From<OpenError>>(
    folder: &Path,
    fill: impl FnOnce(&Database) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |source| OpenError::Folder { folder: folder.to_owned(), source };
    let unfinished = folder.join(UNFINISHED);
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error).into()),
        _ => {}
    }
    let read = |source| OpenError::Read { folder: folder.to_owned(), source: Box::new(source) };
    let database = Database::create(&unfinished).map_err(redb::Error::from).map_err(read)?;
    prepare(&database).map_err(read)?;
    fill(&database)?;
    drop(database);
    fs::rename(&unfinished, folder.join(FILE)).map_err(failed)?;
    // A name is durable once the folder that has it is synced.
    let sync = |folder: &Path| File::open(folder)?.sync_all();
    sync(folder).map_err(failed)?;
    // A new folder was made above; the parent of an existing one may be unreadable, and knows it already.
    let _ = folder.canonicalize().map(|folder| folder.parent().map(sync));
    Ok(())
}
