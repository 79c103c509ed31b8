//! The file of the audit log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use steersman_serving::OncePerMinute;

use super::event::{Event, Stage};

/// The time in the name of an old file: upstream's form.
const TIME: &str = "%Y-%m-%dT%H-%M-%S%.3f";

/// Where the audit log is, and how much of it is kept.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// The path of the log, which must be a regular file: writes to a pipe that nobody reads would block all answers. A new file
    /// gets mode 0600, since the names in it may be confidential.
    pub path: PathBuf,
    /// Maximum size of the file in bytes. A fuller one is renamed, and another begins. 0: no limit.
    pub max_size: u64,
    /// Maximum number of old files. 0: no limit.
    pub max_backups: usize,
    /// Maximum age of old files. `None`: no limit.
    pub max_age: Option<Duration>,
}

impl AuditOptions {
    /// With upstream's limits: files of 100 MB, 100 old ones, for 366 days.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self { path: path.into(), max_size: 100 << 20, max_backups: 100, max_age: Some(366 * day) }
    }
}

/// The audit log can't be opened.
#[derive(Debug, thiserror::Error)]
#[error("opening the audit log {}: {source}", path.display())]
pub struct AuditError {
    path: PathBuf,
    source: io::Error,
}

/// The audit log.
///
/// An event is written before its answer ends, by who answers. So the log has all that clients know to be done, unless the
/// machine dies: events are not synced to disk. A disk that stalls holds up answers, as it holds up writes anyway.
pub(in crate::monitoring) struct AuditLog {
    options: AuditOptions,
    state: Mutex<State>,
}

struct State {
    file: File,
    /// The size of the file.
    size: u64,
    /// A write failed before the end of its line.
    is_torn: bool,
    /// Limits the log lines about failures.
    failures: OncePerMinute,
}

impl AuditLog {
    /// Opens the file, and goes on at its end.
    ///
    /// # Errors
    /// The file can't be opened.
    pub(in crate::monitoring) fn open(options: AuditOptions) -> Result<Self, AuditError> {
        match open(&options.path) {
            Ok((file, size, is_torn)) => {
                let state = Mutex::new(State { file, size, is_torn, failures: OncePerMinute::default() });
                let log = Self { options, state };
                log.prune(Timestamp::now());
                Ok(log)
            }
            Err(source) => Err(AuditError { path: options.path, source }),
        }
    }

    /// Writes an event. Returns whether the log has it.
    pub(in crate::monitoring) fn write(&self, event: &Event, stage: Stage, now: Timestamp) -> bool {
        let line = event.line(stage, now);
        let mut state = self.state.lock();
        let limit = self.options.max_size;
        let is_full = limit > 0 && state.size > 0 && state.size + line.len() as u64 > limit;
        // If there can be no new file, the events are in the old one.
        let rotated = if is_full { self.rotate(&mut state, now) } else { Ok(()) };
        let written = state.append(&line);
        let is_written = written.is_ok();
        if let Err(error) = rotated.and(written)
            && state.failures.is_due()
        {
            tracing::error!(path = %self.options.path.display(), %error, "Failed to write to the audit log");
        }
        is_written
    }

    /// Renames the file and begins another.
    fn rotate(&self, state: &mut State, now: Timestamp) -> io::Result<()> {
        match fs::rename(&self.options.path, self.old_path(now)) {
            Ok(()) => {}
            // Somebody has moved it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        (state.file, state.size, state.is_torn) = open(&self.options.path)?;
        self.prune(now);
        Ok(())
    }

    /// The name of the file and its extension with the dot.
    fn names(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let stem = text(self.options.path.file_stem()).unwrap_or_default();
        (
            stem,
            text(self.options.path.extension()).map(|extension| format!(".{extension}")).unwrap_or_default(),
        )
    }

    fn old_path(&self, now: Timestamp) -> PathBuf {
        let (stem, extension) = self.names();
        self.options.path.with_file_name(format!("{stem}-{}{extension}", now.strftime(TIME)))
    }

    /// Removes old files that are too many or too old. What can't be removed stays.
    fn prune(&self, now: Timestamp) {
        let Some(folder) = self.options.path.parent() else { return };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let Ok(entries) = fs::read_dir(folder) else { return };
        let (stem, extension) = self.names();
        let mut old: Vec<(Timestamp, PathBuf)> = entries
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let name = path.file_name()?.to_str()?;
                let time = name.strip_prefix(&stem)?.strip_prefix('-')?.strip_suffix(&extension)?;
                let time = jiff::civil::DateTime::strptime(TIME, time).ok()?;
                Some((time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp(), path))
            })
            .collect();
        old.sort_unstable_by_key(|(time, _)| std::cmp::Reverse(*time));
        let most = if self.options.max_backups == 0 { usize::MAX } else { self.options.max_backups };
        let is_too_old = |time: Timestamp| {
            let age = now.duration_since(time).unsigned_abs();
            time < now && self.options.max_age.is_some_and(|limit| age > limit)
        };
        for (at, (time, path)) in old.into_iter().enumerate() {
            if at >= most || is_too_old(time) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

impl State {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.file.write_all(b"\n")?;
            self.size += 1;
            self.is_torn = false;
        }
        let written = self.file.write_all(line);
        self.is_torn = written.is_err();
        self.size += line.len() as u64;
        written
    }
}

/// The file, its size, and whether its last line has no end: its writer was killed.
fn open(path: &Path) -> io::Result<(File, u64, bool)> {
    // Opening a pipe would wait for its reader.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut file = OpenOptions::new().append(true).create(true).read(true).mode(0o600).open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    let mut last = [b'\n'];
    if size > 0 && file.seek(SeekFrom::End(-1)).is_ok() {
        file.read_exact(&mut last)?;
    }
    Ok((file, size, last != *b"\n"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use http::{Method, Uri};

    use super::*;

    fn event(path: &'static str) -> Event {
        let received = "2026-01-02T03:04:05.678901Z".parse().unwrap();
        let peer = Some([10, 0, 0, 1].into());
        Event::received(&Method::GET, &Uri::from_static(path), "kubectl".to_owned(), peer, received)
    }

    fn now() -> Timestamp {
        "2026-01-02T03:04:06Z".parse().unwrap()
    }

    fn files(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_event_is_a_line_as_upstream_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let log = AuditLog::open(AuditOptions::at(&path)).unwrap();
        let mut event = event("/healthz?verbose");
        event.answered(200, None);
        assert!(log.write(&event, Stage::ResponseComplete, now()));
        let text = fs::read_to_string(&path).unwrap();
        let line: serde_json::Value = serde_json::from_str(text.strip_suffix('\n').unwrap()).unwrap();
        assert_eq!(
            line,
            serde_json::json!({
                "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": event.id(),
                "stage": "ResponseComplete", "requestURI": "/healthz?verbose", "verb": "get", "user": {},
                "sourceIPs": ["10.0.0.1"], "userAgent": "kubectl", "responseStatus": {"metadata": {}, "code": 200},
                "requestReceivedTimestamp": "2026-01-02T03:04:05.678901Z",
                "stageTimestamp": "2026-01-02T03:04:06.000000Z",
            })
        );
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_full_file_is_renamed_and_the_oldest_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        for other in
            ["audit-2024-01-01T00-00-00.000.log", "audit-notes.log", "other-2024-01-01T00-00-00.000.log"]
        {
            fs::write(folder.path().join(other), "").unwrap();
        }
        let options = AuditOptions { max_size: 1000, max_backups: 2, ..AuditOptions::at(&path) };
        let log = AuditLog::open(options).unwrap();
        assert!(
            !files(folder.path()).contains(&"audit-2024-01-01T00-00-00.000.log".to_owned()),
            "it is too old"
        );
        for second in 0..8 {
            let now = now() + Duration::from_secs(second);
            assert!(log.write(&event("/version"), Stage::ResponseComplete, now));
        }
        assert_eq!(
            files(folder.path()),
            [
                "audit-2026-01-02T03-04-10.000.log",
                "audit-2026-01-02T03-04-12.000.log",
                "audit-notes.log",
                "audit.log",
                "other-2024-01-01T00-00-00.000.log"
            ]
        );
        assert!(fs::metadata(&path).unwrap().len() <= 1000);
    }

    #[test]
    fn a_line_that_a_killed_process_left_unfinished_spoils_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        fs::write(&path, "{\"kind\":\"Ev").unwrap();
        let log = AuditLog::open(AuditOptions::at(&path)).unwrap();
        assert!(log.write(&event("/version"), Stage::ResponseComplete, now()));
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "{\"kind\":\"Ev");
        serde_json::from_str::<serde_json::Value>(lines[1]).unwrap();
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn a_file_that_can_not_be_renamed_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs").join("audit.log");
        fs::create_dir(path.parent().unwrap()).unwrap();
        let log = AuditLog::open(AuditOptions { max_size: 10, ..AuditOptions::at(&path) }).unwrap();
        let write = || log.write(&event("/version"), Stage::ResponseComplete, now());
        assert!(write());
        fs::remove_file(&path).unwrap();
        assert!(write());
        assert_eq!(
            fs::read_to_string(&path).unwrap().lines().count(),
            1,
            "somebody removed the file: a new one begins"
        );
        fs::rename(path.parent().unwrap(), folder.path().join("moved")).unwrap();
        assert!(write(), "there is no folder: the open file gets the event");
        fs::rename(folder.path().join("moved"), path.parent().unwrap()).unwrap();
        assert!(write());
        assert_eq!(files(path.parent().unwrap()).len(), 2);
    }

    #[test]
    fn what_can_not_be_written_is_told() {
        let refused = |path: &str| AuditLog::open(AuditOptions::at(path)).err().unwrap().to_string();
        assert!(refused("/nowhere/audit.log").starts_with("opening the audit log /nowhere/audit.log: "));
        for path in ["/dev/full", "/"] {
            assert_eq!(refused(path), format!("opening the audit log {path}: it is no regular file"));
        }
        let folder = tempfile::tempdir().unwrap();
        let log = AuditLog::open(AuditOptions::at(folder.path().join("audit.log"))).unwrap();
        log.state.lock().file = OpenOptions::new().append(true).open("/dev/full").unwrap();
        assert!(!log.write(&event("/version"), Stage::ResponseComplete, now()));
    }
}
