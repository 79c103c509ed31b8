//! The file of the audit log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::event::{Event, Stage};

/// The time in the name of an old file: upstream's form.
const TIME: &str = "%Y-%m-%dT%H-%M-%S%.3f";
/// Minimum time between two log lines about a log that can't be written.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// Where the audit log is, and how much of it is kept.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// The file; `-` is standard output. A new file has mode 0600, since addresses and names may be secret.
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
/// machine dies: events are not synced to disk.
pub(in crate::monitoring) struct AuditLog {
    options: AuditOptions,
    state: Mutex<State>,
}

struct State {
    /// `None` for standard output.
    file: Option<File>,
    /// The size of the file.
    size: u64,
    /// A write failed before the end of its line.
    is_torn: bool,
    /// When a failure was logged last.
    told: Option<Instant>,
}

impl AuditLog {
    /// Opens the file, and goes on at its end.
    ///
    /// # Errors
    /// The file can't be opened.
    pub(in crate::monitoring) fn open(options: AuditOptions) -> Result<Self, AuditError> {
        let is_stdout = options.path == Path::new("-");
        let opened = if is_stdout { Ok((None, 0, false)) } else { open(&options.path) };
        match opened {
            Ok((file, size, is_torn)) => {
                let state = Mutex::new(State { file, size, is_torn, told: None });
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
        let written = self.append(&mut state, &line, now);
        if let Err(error) = &written
            && state.told.is_none_or(|told| told.elapsed() >= BETWEEN_LINES)
        {
            state.told = Some(Instant::now());
            tracing::error!(path = %self.options.path.display(), %error, "Failed to write to the audit log");
        }
        written.is_ok()
    }

    fn append(&self, state: &mut State, line: &[u8], now: Timestamp) -> io::Result<()> {
        let limit = self.options.max_size;
        if state.file.is_some() && limit > 0 && state.size > 0 && state.size + line.len() as u64 > limit {
            fs::rename(&self.options.path, self.old_path(now))?;
            (state.file, state.size, state.is_torn) = open(&self.options.path)?;
            self.prune(now);
        }
        let Some(file) = &mut state.file else { return io::stdout().lock().write_all(line) };
        if state.is_torn {
            file.write_all(b"\n")?;
            state.size += 1;
            state.is_torn = false;
        }
        let written = file.write_all(line);
        state.is_torn = written.is_err();
        state.size += line.len() as u64;
        written
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
        let Some(folder) = self.options.path.parent().filter(|_| self.options.path != Path::new("-")) else {
            return;
        };
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

/// The file, its size, and whether its last line has no end: its writer was killed.
fn open(path: &Path) -> io::Result<(Option<File>, u64, bool)> {
    let mut file = OpenOptions::new().append(true).create(true).read(true).mode(0o600).open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    let mut last = [b'\n'];
    if size > 0 && file.seek(SeekFrom::End(-1)).is_ok() {
        file.read_exact(&mut last)?;
    }
    Ok((Some(file), size, last != *b"\n"))
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
    fn what_can_not_be_written_is_told() {
        let error = AuditLog::open(AuditOptions::at("/nowhere/audit.log")).err().unwrap();
        assert!(error.to_string().starts_with("opening the audit log /nowhere/audit.log: "), "{error}");
        let log = AuditLog::open(AuditOptions { max_size: 0, ..AuditOptions::at("/dev/full") }).unwrap();
        assert!(!log.write(&event("/version"), Stage::ResponseComplete, now()));
    }
}
