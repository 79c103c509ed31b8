//! Reading a log, and following it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::error::Error;
use super::format::Formatter;
use super::open::open_log;
use super::options::LogOptions;
use super::tail::tail_start;
use super::watch::Watch;
use crate::blocking::blocking;
use crate::cri::v1;
use crate::runtime::{Code, RuntimeService};

/// How much of a file is read at a time, in bytes.
const BLOCK: usize = 64 * 1024;
/// How long until a file is looked at again of which nobody said that it changed (upstream: `logForceCheckPeriod`).
const CHECK_PERIOD: Duration = Duration::from_secs(1);
/// How often the runtime is asked at most whether the container still runs.
const STATUS_PERIOD: Duration = Duration::from_millis(250);
/// How long a runtime that has opened a new file may still be at the last write to the old one.
const LAST_WRITE: Duration = Duration::from_millis(100);

/// The container whose log is followed.
#[derive(Clone)]
pub struct Followed {
    /// Who knows whether it runs.
    pub runtime: Arc<dyn RuntimeService>,
    /// Its id in the runtime.
    pub container_id: String,
}

/// Reads one log from its beginning, or from where the options say, to its end.
///
/// The end is the file's; of a log that is followed, it is the file's once the container does not run any more. A log
/// that is rotated meanwhile goes on in the new file after the last line of the old one. What was rotated away before is
/// not read.
pub struct LogReader {
    path: PathBuf,
    source: Source,
    formatter: Formatter,
    followed: Option<Following>,
}

/// The file that is read.
struct Source {
    file: Arc<File>,
    /// Where the next bytes will be, from its start.
    position: u64,
    /// Device and inode: who it is, whatever it is called by now.
    identity: (u64, u64),
}

/// How far following has come.
struct Following {
    container: Followed,
    watch: Option<Watch>,
    /// When the runtime was asked last.
    asked: Option<Instant>,
    phase: Phase,
}

enum Phase {
    /// Everything there was at the beginning is being read.
    CatchingUp,
    /// The container runs. Left when it does not any more, or when its log was rotated.
    Running,
    /// The path leads to another file; what came last in this one is read. Left for the new file.
    Rotated(Source),
    /// The container does not run; what it left is read.
    Ended,
}

impl Source {
    fn open(path: &Path) -> io::Result<Self> {
        let file = open_log(path)?;
        let metadata = file.metadata()?;
        Ok(Self { file: Arc::new(file), position: 0, identity: (metadata.dev(), metadata.ino()) })
    }
}

impl LogReader {
    /// Opens the log at `path`, to be followed where a container is given.
    ///
    /// # Errors
    /// The file does not exist, is no regular file, or can't be read.
    pub async fn open(
        path: impl Into<PathBuf>,
        options: LogOptions,
        followed: Option<Followed>,
    ) -> Result<Self, Error> {
        let path = path.into();
        let tail = options.tail_lines;
        let (opened, path) = blocking(move || (open(&path, tail), path)).await;
        let source = opened?;
        let mut formatter = Formatter::new(options);
        if let (Some(lines), None) = (tail, &followed) {
            formatter.stop_after_lines(lines);
        }
        let followed = followed.map(|container| Following {
            container,
            watch: None,
            asked: None,
            phase: Phase::CatchingUp,
        });
        Ok(Self { path, source, formatter, followed })
    }

    /// The next piece of what is shown, never empty; `None` at the end. Waits while a container that is followed says
    /// nothing. Dropping the wait loses nothing.
    ///
    /// # Errors
    /// The log can't be read further.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while !self.formatter.is_done() {
            let block = self.read().await?;
            if block.is_empty() {
                if self.at_end().await? {
                    break;
                }
                continue;
            }
            let mut shown = Vec::new();
            self.formatter.push(&block, &mut shown)?;
            if !shown.is_empty() {
                return Ok(Some(shown.into()));
            }
        }
        Ok(None)
    }

    async fn read(&mut self) -> Result<Vec<u8>, Error> {
        let (file, position) = (self.source.file.clone(), self.source.position);
        let read = blocking(move || {
            let mut block = vec![0; BLOCK];
            let length = file.read_at(&mut block, position)?;
            block.truncate(length);
            Ok(block)
        });
        let block = read.await.map_err(|source| Error::Read { path: self.path.clone(), source })?;
        self.source.position += block.len() as u64;
        Ok(block)
    }

    /// The file has no more for now. Waits until it may; true means that there will be none.
    async fn at_end(&mut self) -> Result<bool, Error> {
        let Some(following) = &mut self.followed else { return Ok(true) };
        match &mut following.phase {
            Phase::CatchingUp => {
                following.watch = self.path.parent().and_then(|folder| {
                    let cannot = |error: &io::Error| {
                        tracing::debug!(folder = %folder.display(), %error, "Log folder is not watched, but looked at");
                    };
                    Watch::open(folder).inspect_err(cannot).ok()
                });
                // What was written before the watch began is read now.
                following.phase = Phase::Running;
                return Ok(false);
            }
            Phase::Rotated(_) => {
                if let Phase::Rotated(next) = std::mem::replace(&mut following.phase, Phase::Running) {
                    self.source = next;
                    self.formatter.begin_file();
                }
                return Ok(false);
            }
            Phase::Ended => {
                let Some(next) = other_file(&self.path, &self.source).await? else { return Ok(true) };
                self.source = next;
                self.formatter.begin_file();
                return Ok(false);
            }
            Phase::Running => {}
        }
        if following.asked.is_none_or(|asked| asked.elapsed() >= STATUS_PERIOD) {
            following.asked = Some(Instant::now());
            if !is_running(&following.container).await? {
                following.phase = Phase::Ended;
                return Ok(false);
            }
        }
        if let Some(next) = other_file(&self.path, &self.source).await? {
            sleep(LAST_WRITE).await;
            following.phase = Phase::Rotated(next);
            return Ok(false);
        }
        let changed = async {
            match &mut following.watch {
                Some(watch) => watch.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changed => {}
            () = sleep(CHECK_PERIOD) => {}
        }
        Ok(false)
    }
}

/// The file at `path`, at the line where reading begins.
fn open(path: &Path, tail: Option<u64>) -> Result<Source, Error> {
    let mut source = Source::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    if let Some(lines) = tail {
        source.position = tail_start(&mut &*source.file, lines).map_err(|source| Error::Tail {
            lines,
            path: path.to_owned(),
            source,
        })?;
    }
    Ok(source)
}

/// The file at `path`, if it is not `current` any more. `None` if there is none yet: the runtime will create it. A file that
/// was cut short is read again from its start, since tools that copy logs away empty them.
async fn other_file(path: &Path, current: &Source) -> Result<Option<Source>, Error> {
    let (identity, position) = (current.identity, current.position);
    let owned = path.to_owned();
    let found = blocking(move || {
        let found = match Source::open(&owned) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if found.identity != identity {
            return Ok(Some(found));
        }
        let shorter = found.file.metadata()?.len() < position;
        Ok(shorter.then_some(found))
    });
    found.await.map_err(|source| Error::Open { path: path.to_owned(), source })
}

/// Whether more may come. A runtime that is away may have left its containers running; one that has forgotten the
/// container has not.
async fn is_running(container: &Followed) -> Result<bool, Error> {
    match container.runtime.container_status(&container.container_id).await {
        Ok(answer) => Ok(answer
            .status
            .is_some_and(|status| status.state == i32::from(v1::ContainerState::ContainerRunning))),
        Err(error) if error.code() == Code::Unavailable => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(Error::Status(error)),
    }
}
