//! Groups that systemd keeps as slices.
//!
//! Who makes a slice's folder behind systemd's back loses its limits as soon as a runtime asks systemd for a container's
//! scope in it: systemd then takes the slice for its own, with the properties that it knows of, which are none; and it goes on
//! listing the slice when all in it are gone. So systemd is told: the slice is started as a transient unit, what it knows of
//! limits is set as properties, and it is stopped when it is to go. Files are written as well, since systemd does not know all of
//! them, and sets those that it knows some moments later.

mod connection;
mod message;
mod properties;

use std::collections::HashMap;
use std::io;

use parking_lot::Mutex;

use self::connection::Connection;
use self::message::Value;
pub(super) use self::properties::{Properties, of_limits, whole_percents};

/// The topmost slice, whose folder is where the hierarchy is mounted.
const ROOT: &str = "-.slice";
const UNIT_EXISTS: &str = "org.freedesktop.systemd1.UnitExists";
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";

/// Why systemd did not do what it was asked to. All but the first may be otherwise at the next attempt.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers at either of its sockets.
    #[error("systemd can't be reached: at its own socket: {own}; on the system's bus: {bus}")]
    Reach {
        /// Why not at its own.
        own: io::Error,
        /// Why not on the bus.
        bus: io::Error,
    },
    /// The conversation broke off.
    #[error("talking to systemd: {0}")]
    Talk(#[source] io::Error),
    /// It says no.
    #[error("systemd says {name}: {text}")]
    Refused {
        /// The error by its name on the bus.
        name: String,
        /// For people.
        text: String,
    },
    /// What it began did not come to a good end.
    #[error("systemd's job: {0}")]
    Job(String),
}

/// What is asked of systemd.
pub(super) trait Units: Send + Sync + 'static {
    /// Starts a slice, if it is not there.
    fn start(&self, slice: &str, above: &str) -> Result<(), Error>;
    /// Sets properties of one that is there.
    fn set(&self, slice: &str, properties: &Properties) -> Result<(), Error>;
    /// Stops it with all that is in it, if it is there.
    fn stop(&self, slice: &str) -> Result<(), Error>;
}

/// The systemd of this machine.
pub(super) struct Systemd;

impl Systemd {
    /// Whether it is to be reached.
    pub(super) fn find() -> Result<Self, Error> {
        Connection::open().map(|_| Self)
    }
}

impl Units for Systemd {
    fn start(&self, slice: &str, above: &str) -> Result<(), Error> {
        let flag = |name, flag| (name, Value::Flag(flag));
        let properties = [
            ("Description", Value::Text(format!("Control group of Kubernetes {slice}"))),
            ("Wants", Value::Texts(vec![above.to_owned()])),
            // So that controllers are there for as long as the slice is, whatever is in it.
            flag("MemoryAccounting", true),
            flag("CPUAccounting", true),
            flag("IOAccounting", true),
            flag("TasksAccounting", true),
            // It is not stopped before what is in it, at the machine's end.
            flag("DefaultDependencies", false),
        ];
        let properties = properties.iter().map(|(name, value)| (*name, value));
        match Connection::open()?.start_transient(slice, properties) {
            Err(Error::Refused { name, .. }) if name == UNIT_EXISTS => Ok(()),
            started => started,
        }
    }

    fn set(&self, slice: &str, properties: &Properties) -> Result<(), Error> {
        let values: Vec<_> =
            properties.iter().map(|(name, number)| (*name, Value::Number(*number))).collect();
        Connection::open()?.set(slice, values.iter().map(|(name, value)| (*name, value)))
    }

    fn stop(&self, slice: &str) -> Result<(), Error> {
        match Connection::open()?.stop(slice) {
            Err(Error::Refused { name, .. }) if name == NO_SUCH_UNIT => Ok(()),
            stopped => stopped,
        }
    }
}

/// The slices that systemd keeps for us, by the paths of their groups.
pub(super) struct Slices {
    units: Box<dyn Units>,
    /// What this process has told it of each that it has started.
    told: Mutex<HashMap<String, Properties>>,
}

impl Slices {
    pub(super) fn new(units: Box<dyn Units>) -> Self {
        Self { units, told: Mutex::default() }
    }

    /// Has systemd make the slice at `path`, if it is not there, or not any more.
    pub(super) fn start(&self, path: &str) -> Result<(), Error> {
        let (slice, above) = unit(path);
        self.units.start(slice, above)?;
        self.told.lock().entry(path.to_owned()).or_default();
        Ok(())
    }

    /// Tells systemd these, unless it was told so before and `is_so` in the files. Nothing is taken back that is not among
    /// them.
    pub(super) fn set(&self, path: &str, properties: &Properties, is_so: bool) -> Result<(), Error> {
        if !self.knows(path) {
            self.start(path)?;
        }
        let mut all = self.told.lock().get(path).cloned().unwrap_or_default();
        let is_told = properties.iter().all(|(name, value)| all.get(name) == Some(value));
        if properties.is_empty() || (is_told && is_so) {
            return Ok(());
        }
        if let Err(error) = self.units.set(unit(path).0, properties) {
            // Whatever is wrong, the next attempt begins anew: somebody may have stopped it.
            self.told.lock().remove(path);
            return Err(error);
        }
        all.extend(properties);
        self.told.lock().insert(path.to_owned(), all);
        Ok(())
    }

    /// Whether this process has had systemd make it.
    pub(super) fn knows(&self, path: &str) -> bool {
        self.told.lock().contains_key(path)
    }

    /// Has systemd let go of it, whoever made it.
    pub(super) fn stop(&self, path: &str) -> Result<(), Error> {
        self.units.stop(unit(path).0)?;
        self.told.lock().remove(path);
        Ok(())
    }
}

/// The names of the slice at that path, and of the one that it is in.
fn unit(path: &str) -> (&str, &str) {
    let (above, slice) = path.rsplit_once('/').unwrap_or(("", path));
    let above = above.rsplit('/').next().filter(|above| !above.is_empty());
    (slice, above.unwrap_or(ROOT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_named_as_its_folder() {
        assert_eq!(unit("/kubepods.slice"), ("kubepods.slice", "-.slice"));
        let path = "/kubepods.slice/kubepods-burstable.slice";
        assert_eq!(unit(path), ("kubepods-burstable.slice", "kubepods.slice"));
    }
}
