//! Removing a pod's group once its processes have ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use steersman_api::Uid;
use tokio::time::sleep;

use super::PodCgroups;
use crate::blocking::blocking;

/// How long processes that were killed are given to be gone before each further attempt, in milliseconds: a third of a
/// second in all.
const PAUSES: [u64; 5] = [10, 20, 40, 80, 160];

/// [Removes](PodCgroups::remove) the pod's cgroup. Where something was killed in it, the kernel keeps the group for some
/// moments more, which are waited for.
///
/// # Errors
/// It can't be removed, or something in it does not end; to be called again.
pub async fn remove_patiently(cgroups: &Arc<dyn PodCgroups>, pod: &Uid) -> io::Result<()> {
    for pause in PAUSES {
        match remove_once(cgroups, pod).await {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                sleep(Duration::from_millis(pause)).await
            }
            done => return done,
        }
    }
    remove_once(cgroups, pod).await
}

async fn remove_once(cgroups: &Arc<dyn PodCgroups>, pod: &Uid) -> io::Result<()> {
    let (cgroups, pod) = (Arc::clone(cgroups), pod.clone());
    blocking(move || cgroups.remove(&pod)).await
}
