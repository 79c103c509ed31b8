//! Time zones by their names.

use jiff::tz::{TimeZone, TimeZoneDatabase};

/// The time zones of the IANA database, which is part of the program, and that of this process.
///
/// Upstream prefers the files of the system to its own copy. Here all replicas have the same zones, whatever image they run in.
#[derive(Clone, Debug)]
pub(crate) struct Zones {
    database: TimeZoneDatabase,
    local: TimeZone,
}

/// There is no such time zone. The message is that of Go's `time.LoadLocation`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnknownZone {
    /// The database has no zone of this name.
    #[error("unknown time zone {0}")]
    Unknown(String),
    /// The name could be that of a file outside of the database.
    #[error("time: invalid location name")]
    InvalidName,
}

impl Zones {
    /// The zones, with that of the system (`TZ`, else `/etc/localtime`) as the local one; UTC if it has none.
    pub(crate) fn of_system() -> Self {
        Self::with_local(TimeZone::try_system().unwrap_or(TimeZone::UTC))
    }

    /// The zones, with this one as the local one.
    pub(crate) fn with_local(local: TimeZone) -> Self {
        Self { database: TimeZoneDatabase::bundled(), local }
    }

    /// The zone of this process. Schedules that name no zone are read in it.
    pub(crate) fn local(&self) -> &TimeZone {
        &self.local
    }

    /// The zone of this name, as Go's `time.LoadLocation`.
    ///
    /// # Errors
    /// There is none. Names are case-sensitive, as those of files.
    pub(crate) fn load(&self, name: &str) -> Result<TimeZone, UnknownZone> {
        match name {
            "" | "UTC" => return Ok(TimeZone::UTC),
            "Local" => return Ok(self.local.clone()),
            _ if name.contains("..") || name.starts_with(['/', '\\']) => {
                return Err(UnknownZone::InvalidName);
            }
            _ => {}
        }
        let found = self.database.get(name).ok().filter(|zone| zone.iana_name() == Some(name));
        found.ok_or_else(|| UnknownZone::Unknown(name.to_owned()))
    }
}
