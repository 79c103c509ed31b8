//! Keeping logs small and few.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs::{self, OpenOptions};
use std::io;
use std::mem;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use futures::stream;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::folder::is_below;
use super::open::open_log;
use super::rotated::{COMPRESSED, TEMPORARY, part_unused, rotated};
use crate::blocking::blocking;
use crate::cri::v1;
use crate::runtime::{self, RuntimeService};

/// When logs are rotated, and what is kept of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotatePolicy {
    /// The size in bytes from which a log is rotated (`containerLogMaxSize`), by default 10 Mi; below zero none is.
    pub max_size: i64,
    /// How many files a container may have, that being written included (`containerLogMaxFiles`), by default 5; at least 2.
    pub max_files: u32,
    /// How many logs are rotated at a time (`containerLogMaxWorkers`), by default 1; at least 1.
    pub max_workers: u32,
    /// How often logs are looked at (`containerLogMonitorInterval`), by default 10 s; at least 3 s.
    pub interval: Duration,
}

impl Default for RotatePolicy {
    fn default() -> Self {
        Self { max_size: 10 << 20, max_files: 5, max_workers: 1, interval: Duration::from_secs(10) }
    }
}

/// A policy that can't be followed. Worded as upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPolicy {
    /// Too few files.
    #[error("invalid MaxFiles {0}, must be > 1")]
    MaxFiles(u32),
    /// No worker.
    #[error("invalid configuration: containerLogMaxWorkers must be greater than 0")]
    MaxWorkers,
    /// Too often.
    #[error(
        "invalid configuration: containerLogMonitorInterval must be a positive time duration greater than or equal to 3s"
    )]
    Interval,
}

/// Why a log was not rotated. It is tried again in the next round.
#[derive(Debug, thiserror::Error)]
enum RotateError {
    #[error("failed to get container status: {0}")]
    Status(#[source] runtime::Error),
    #[error("container status is nil")]
    NoStatus,
    #[error("container log {0:?} is not in the folder of pods' logs")]
    Elsewhere(PathBuf),
    #[error("failed to stat container log {0:?}: {1}")]
    Stat(PathBuf, #[source] io::Error),
    #[error("failed to remove old logs of {0:?}: {1}")]
    RemoveExcess(PathBuf, #[source] io::Error),
    #[error("failed to rotate log {0:?} to {1:?}: {2}")]
    Rename(PathBuf, PathBuf, #[source] io::Error),
    #[error("failed to reopen container log: {0}")]
    Reopen(#[source] runtime::Error),
}

/// Rotates the logs of running containers: renames the file by the time and has the runtime open a new one. Keeps the
/// newest files and compresses them, except for the last rotated one, so that its readers can finish.
///
/// Compression takes long for a large file, so it comes after rotation and does not hold up further rotations. (Upstream
/// compresses first; the log grows on meanwhile.)
pub struct LogRotator {
    runtime: Arc<dyn RuntimeService>,
    /// The folder of the logs of all pods. Files elsewhere are not rotated, whatever the runtime says.
    pod_logs: PathBuf,
    policy: RotatePolicy,
    /// Logs that were rotated since [`Self::compress_rotated`] last began: at most one path per log.
    uncompressed: Mutex<BTreeSet<PathBuf>>,
    /// Wakes the compression once `uncompressed` has grown.
    rotated: Notify,
}

impl LogRotator {
    /// A rotator with that policy, of logs below the folder `pod_logs`.
    ///
    /// # Errors
    /// The policy is invalid.
    pub fn new(
        runtime: Arc<dyn RuntimeService>,
        pod_logs: impl Into<PathBuf>,
        policy: RotatePolicy,
    ) -> Result<Self, InvalidPolicy> {
        if policy.max_files < 2 {
            return Err(InvalidPolicy::MaxFiles(policy.max_files));
        }
        if policy.max_workers == 0 {
            return Err(InvalidPolicy::MaxWorkers);
        }
        if policy.interval < Duration::from_secs(3) {
            return Err(InvalidPolicy::Interval);
        }
        let pod_logs = pod_logs.into();
        Ok(Self { runtime, pod_logs, policy, uncompressed: Mutex::default(), rotated: Notify::new() })
    }

    /// Rotates the logs that are too large, every interval, and compresses earlier ones beside that, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let rotations = async {
            if self.policy.max_size < 0 {
                return std::future::pending::<Infallible>().await;
            }
            let mut ticks = tokio::time::interval(self.policy.interval);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                self.rotate_logs().await;
            }
        };
        let compressions = async {
            loop {
                self.rotated.notified().await;
                self.compress_rotated().await;
            }
        };
        let both = async { tokio::join!(rotations, compressions).0 };
        let _: Option<Infallible> = stop.run_until_cancelled(both).await;
    }

    /// Rotates the logs that are too large now. Logs a failure and goes on with the next log.
    pub async fn rotate_logs(&self) {
        // A container that ended writes no more: its log stays whole.
        let running = v1::ContainerFilter {
            state: Some(v1::ContainerStateValue { state: v1::ContainerState::ContainerRunning.into() }),
            ..Default::default()
        };
        let containers = match self.runtime.list_containers(&running).await {
            Ok(containers) => containers,
            Err(error) => {
                tracing::error!(%error, "Failed to rotate container logs: failed to list containers");
                return;
            }
        };
        stream::iter(containers)
            .for_each_concurrent(self.workers(), |container| async move {
                if let Err(error) = self.rotate_if_large(&container.id).await {
                    tracing::error!(container_id = container.id, %error, "Failed to rotate log for container");
                }
            })
            .await;
    }

    /// Compresses the earlier files of the logs that were rotated since the last call. Logs a failure and goes on with the
    /// next log; what stays uncompressed is tried again once its log has been rotated again.
    pub async fn compress_rotated(&self) {
        let logs = mem::take(&mut *self.uncompressed.lock());
        stream::iter(logs)
            .for_each_concurrent(self.workers(), |log| async move {
                let compressed = blocking(move || compress_earlier(&log).map_err(|error| (log, error))).await;
                if let Err((log, error)) = compressed {
                    tracing::error!(log = %log.display(), %error, "Failed to compress rotated logs");
                }
            })
            .await;
    }

    fn workers(&self) -> usize {
        usize::try_from(self.policy.max_workers).unwrap_or(usize::MAX)
    }

    async fn rotate_if_large(&self, id: &str) -> Result<(), RotateError> {
        let answer = self.runtime.container_status(id).await.map_err(RotateError::Status)?;
        let log = PathBuf::from(answer.status.ok_or(RotateError::NoStatus)?.log_path);
        if log.as_os_str().is_empty() {
            return Ok(());
        }
        if !is_below(&self.pod_logs, &log) {
            return Err(RotateError::Elsewhere(log));
        }
        let size = match size(&log).await {
            // Somebody took the file away; the runtime still writes to it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.runtime.reopen_container_log(id).await.map_err(RotateError::Reopen)?;
                size(&log).await
            }
            size => size,
        };
        let size = size.map_err(|error| RotateError::Stat(log.clone(), error))?;
        if i64::try_from(size).unwrap_or(i64::MAX) < self.policy.max_size {
            return Ok(());
        }
        self.rotate(id, log).await
    }

    async fn rotate(&self, id: &str, log: PathBuf) -> Result<(), RotateError> {
        // Besides the new file and the one that is rotated now.
        let keep = usize::try_from(self.policy.max_files - 2).unwrap_or(usize::MAX);
        let removed = {
            let log = log.clone();
            blocking(move || remove_excess(&log, keep)).await
        };
        removed.map_err(|error| RotateError::RemoveExcess(log.clone(), error))?;
        let to = rotated_name(&log, Timestamp::now());
        let renamed = rename(&log, &to).await;
        renamed.map_err(|error| RotateError::Rename(log.clone(), to.clone(), error))?;
        if let Err(error) = self.runtime.reopen_container_log(id).await {
            // So that it is tried again; what the container says meanwhile goes to this file in any case.
            if let Err(error) = rename(&to, &log).await {
                tracing::error!(rotated = %to.display(), new = %log.display(), %error, "Failed to rename rotated log");
            }
            return Err(RotateError::Reopen(error));
        }
        self.uncompressed.lock().insert(log);
        self.rotated.notify_one();
        Ok(())
    }
}

/// `<log>.20060102-150405`, in UTC.
fn rotated_name(log: &Path, at: Timestamp) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(at.to_zoned(TimeZone::UTC).strftime(".%Y%m%d-%H%M%S").to_string());
    name.into()
}

/// Removes all rotated files but the newest `keep`. Leaves alone what a compression may be at.
fn remove_excess(log: &Path, keep: usize) -> io::Result<()> {
    let (mut files, _) = part_unused(rotated(log)?);
    files.drain(..files.len().saturating_sub(keep)).try_for_each(remove_file)
}

/// Removes what broken-off compressions left and compresses all rotated files but the newest.
fn compress_earlier(log: &Path) -> io::Result<()> {
    let files = match rotated(log) {
        // The pod has ended, and its folder is gone.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        files => files?,
    };
    let (mut files, unused) = part_unused(files);
    unused.into_iter().try_for_each(remove_file)?;
    files.pop();
    files
        .iter()
        .filter(|file| !file.to_string_lossy().ends_with(COMPRESSED))
        .try_for_each(|file| compress(file))
}

/// Puts `<file>.gz` in the place of `file`, with the same permissions. Wherever it breaks off, one of the two is whole.
fn compress(file: &Path) -> io::Result<()> {
    let with = |suffix: &str| PathBuf::from(format!("{}{suffix}", file.display()));
    let (temporary, compressed) = (with(TEMPORARY), with(COMPRESSED));
    let mut source = match open_log(file) {
        // A rotation has removed it as the oldest.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        source => source?,
    };
    // Whatever is there; a link would be followed.
    remove_file(&temporary)?;
    let written = (|| {
        let mode = source.metadata()?.permissions().mode();
        let target = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        let mut encoder = GzEncoder::new(target, Compression::default());
        io::copy(&mut source, &mut encoder)?;
        encoder.finish()?;
        fs::rename(&temporary, &compressed)
    })();
    if written.is_err() {
        // Best effort; the next compression removes it otherwise.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    remove_file(file)
}

/// Removes a file, unless it is gone: compression, rotation and the removal of a container go on side by side.
fn remove_file(file: impl AsRef<Path>) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The size of the file at `log`, in bytes.
async fn size(log: &Path) -> io::Result<u64> {
    let log = log.to_owned();
    blocking(move || {
        let metadata = fs::symlink_metadata(log)?;
        match metadata.is_file() {
            true => Ok(metadata.len()),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        }
    })
    .await
}

async fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (from.to_owned(), to.to_owned());
    blocking(move || fs::rename(from, to)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_logs_are_named_by_the_second() {
        let at = "2026-11-21T10:56:06.9Z".parse().unwrap();
        assert_eq!(rotated_name(Path::new("/l/0.log"), at), Path::new("/l/0.log.20261121-105606"));
    }
}
