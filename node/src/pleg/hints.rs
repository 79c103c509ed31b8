//! Hints: what a runtime tells of its containers has their pod listed at once.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use steersman_api::Uid;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::relist::PlegHandle;
use crate::cri::v1::{ContainerEventResponse, ContainerEventType};
use crate::runtime::{Error, RuntimeService};

/// Between the end of one stream of events and the next try. Whatever is missed meanwhile the next list of all shows.
const RETRY: Duration = Duration::from_secs(5);

/// Passes the runtime's container events on to the generator until `stop`, or until the runtime says that it has none.
///
/// An event only says which pod to look at; what it tells of that pod is not read. One that is lost, late or wrong costs
/// at most the wait for the next list of all pods.
pub async fn follow(runtime: Arc<dyn RuntimeService>, pleg: PlegHandle, stop: CancellationToken) {
    let follow = async {
        loop {
            match follow_one(&*runtime, &pleg).await {
                Err(error) if error.is_unimplemented() => {
                    info!("The container runtime tells no events: changes show at the next list");
                    return;
                }
                Err(error) => debug!(%error, "the runtime's events broke off"),
                Ok(()) => debug!("the runtime's events ended"),
            }
            sleep(RETRY).await;
        }
    };
    stop.run_until_cancelled(follow).await;
}

/// One stream of events, from its beginning to its end.
async fn follow_one(runtime: &dyn RuntimeService, pleg: &PlegHandle) -> Result<(), Error> {
    let mut events = runtime.get_container_events().await?;
    while let Some(event) = events.next().await {
        if let Some(pod) = concerned(&event?) {
            pleg.request_relist(pod);
        }
    }
    Ok(())
}

/// The pod in which something happened that a list would show. Creation alone says nothing: the start follows.
///
/// Of a sandbox that is gone already nothing but its id is told; the next list of all shows that.
fn concerned(event: &ContainerEventResponse) -> Option<Uid> {
    if event.container_event_type() == ContainerEventType::ContainerCreatedEvent {
        return None;
    }
    let sandbox = event.pod_sandbox_status.as_ref()?;
    let uid = sandbox.metadata.as_ref().map(|metadata| metadata.uid.as_str())?;
    (!uid.is_empty()).then(|| Uid::from(uid))
}

#[cfg(test)]
mod tests;
