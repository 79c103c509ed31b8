//! The source file: manifests in a folder, or one manifest.

mod inotify;
mod manifests;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::mux::{Closed, SourceHandle};
use inotify::Inotify;
use manifests::Manifests;

/// How often everything is read again unless said otherwise (`fileCheckFrequency`).
pub const CHECK_FREQUENCY: Duration = Duration::from_secs(20);
/// How long after a path could not be watched it is tried again (upstream: `retryPeriod`).
const WATCH_RETRY: Duration = Duration::from_secs(1);

/// Reads the manifests at `path` (a folder, of which files whose names begin with a dot don't count, or a file) and says
/// which pods they give: at once, when the kernel tells of a change, and every `period`, until `stop`.
///
/// A path that is not there has no pods. A manifest that can't be read is reported with its name, once for each state of
/// it; the pods it gave before stay until it is mended or taken away, and no other manifest is touched by it.
pub async fn run(
    path: PathBuf,
    node_name: &str,
    period: Duration,
    handle: SourceHandle,
    stop: CancellationToken,
) {
    let ended = stop.run_until_cancelled(watch(path, node_name, period, handle)).await;
    if let Some(Err(closed)) = ended {
        tracing::debug!(%closed, "source of pods ends");
    }
}

async fn watch(
    path: PathBuf,
    node_name: &str,
    period: Duration,
    handle: SourceHandle,
) -> Result<std::convert::Infallible, Closed> {
    let mut manifests = Some(Manifests::new(path.clone(), node_name));
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    loop {
        // Watched first, then read: what changes in between is read again.
        let mut events = Inotify::open(&path)
            .inspect_err(
                |error| tracing::debug!(path = %path.display(), %error, "Unable to watch config path"),
            )
            .ok();
        let mut watched = true;
        while watched {
            let mut reading = manifests.take().expect("the manifests must be here between two reads");
            let (reading, pods) = tokio::task::spawn_blocking(move || {
                let pods = reading.read();
                (reading, pods)
            })
            .await
            .map_err(|_| Closed)?;
            manifests = Some(reading);
            match pods {
                Ok(pods) => handle.set(pods).await?,
                Err(error) => tracing::error!(path = %path.display(), %error, "Unable to read config path"),
            }
            watched = match &mut events {
                Some(events) => tokio::select! {
                    _ = ticks.tick() => true,
                    more = events.changed() => more,
                },
                None => {
                    tokio::time::sleep_until(Instant::now() + WATCH_RETRY).await;
                    false
                }
            };
        }
    }
}
