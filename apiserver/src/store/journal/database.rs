//! The content of a journal's database.

use std::path::Path;

use bytes::Bytes;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use steersman_api::ObjectKey;

use super::{EncryptionKeys, Entry, OpenError};
use crate::store::TableId;

/// The version of the database's content. Increment it with each incompatible change.
pub(super) const FORMAT: u64 = 1;
/// Objects by table, namespace and name, as JSON without kind and API version; Secrets may be encrypted.
const OBJECTS: TableDefinition<'_, (&str, &str, &str), &[u8]> = TableDefinition::new("objects");
/// Numbers about the whole.
pub(super) const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("facts");
pub(super) const FACT_FORMAT: &str = "format";
const FACT_REVISION: &str = "revision";

/// What a data folder held.
pub(crate) struct Loaded {
    /// The version of the last write; zero in a new folder.
    pub(crate) revision: u64,
    /// All objects, in the order of tables and keys.
    pub(crate) objects: Vec<(TableId, ObjectKey, Bytes)>,
}

/// Commits writes in one transaction. `revision` is the version of the last one.
pub(super) fn commit(
    database: &Database,
    batch: &[Entry],
    revision: u64,
    keys: &EncryptionKeys,
) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    // Costs a little at each commit, and saves the repair at the start after a crash.
    transaction.set_quick_repair(true);
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for Entry { table, key, state, .. } in batch {
            let at = (table.as_str(), key.namespace.as_str(), key.name.as_str());
            match state {
                Some(state) => match keys.seal(table, key, state) {
                    Some(sealed) => _ = objects.insert(at, sealed.as_slice())?,
                    None => _ = objects.insert(at, state.as_ref())?,
                },
                None => _ = objects.remove(at)?,
            }
        }
        transaction.open_table(FACTS)?.insert(FACT_REVISION, revision)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Makes the tables of a new file.
pub(super) fn prepare(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        transaction.open_table(OBJECTS)?;
        let mut facts = transaction.open_table(FACTS)?;
        if facts.get(FACT_FORMAT)?.is_none() {
            facts.insert(FACT_FORMAT, FORMAT)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Refuses a file that a newer version of the program wrote.
pub(super) fn check_format(database: &impl ReadableDatabase, folder: &Path) -> Result<(), OpenError> {
    let read = |error| OpenError::Read { folder: folder.to_owned(), source: Box::new(error) };
    match format_of(database).map_err(read)? {
        found if found > FORMAT => Err(OpenError::Newer { folder: folder.to_owned(), found }),
        _ => Ok(()),
    }
}

fn format_of(database: &impl ReadableDatabase) -> Result<u64, redb::Error> {
    let facts = database.begin_read()?.open_table(FACTS)?;
    Ok(facts.get(FACT_FORMAT)?.map_or(0, |format| format.value()))
}

/// The format of the database and, where it is known, its content.
pub(super) fn load(database: &Database) -> Result<(u64, Loaded), redb::Error> {
    let transaction = database.begin_read()?;
    let facts = transaction.open_table(FACTS)?;
    let fact = |name| Ok::<_, redb::Error>(facts.get(name)?.map_or(0, |value| value.value()));
    let (format, revision) = (fact(FACT_FORMAT)?, fact(FACT_REVISION)?);
    let mut objects = Vec::new();
    if format <= FORMAT {
        let mut last = TableId::new();
        for found in transaction.open_table(OBJECTS)?.iter()? {
            let (at, state) = found?;
            let (table, namespace, name) = at.value();
            if last != table {
                last = table.into();
            }
            let key = ObjectKey::new(namespace, name);
            objects.push((last.clone(), key, Bytes::copy_from_slice(state.value())));
        }
    }
    Ok((format, Loaded { revision, objects }))
}
