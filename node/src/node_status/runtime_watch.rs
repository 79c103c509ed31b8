//! Asks the runtime how it is and what it has.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::images;
use super::inventory::Inventory;
use crate::cri::v1;
use crate::runtime::{ImageService, RuntimeService};
use crate::sync_loop::RuntimeState;

/// How often the runtime is asked how it is.
const STATUS_PERIOD: Duration = Duration::from_secs(5);
/// The same, as long as it was not seen well after the start: a node shall be ready soon.
const FIRST_STATUS_PERIOD: Duration = Duration::from_millis(100);
/// How long after the start that is.
const FIRST: Duration = Duration::from_secs(120);
/// The version of the interface that upstream asks with.
const CRI_VERSION: &str = "0.1.0";
/// How often the runtime is asked what it has.
const INVENTORY_PERIOD: Duration = Duration::from_secs(30);

/// Keeps `state` and `inventory` true until `stop`. A call that hangs holds up only what it asks for.
pub async fn watch_runtime(
    runtime: &dyn RuntimeService,
    image_service: &dyn ImageService,
    state: &RuntimeState,
    inventory: &Inventory,
    stop: CancellationToken,
) {
    let all = async {
        tokio::join!(
            watch_status(runtime, state, inventory),
            watch_version(runtime, inventory),
            watch_images(image_service, inventory),
            watch_image_fs(image_service, inventory),
        )
    };
    stop.run_until_cancelled(all).await;
}

async fn watch_status(runtime: &dyn RuntimeService, state: &RuntimeState, inventory: &Inventory) {
    let start = Instant::now();
    let mut seen_well = false;
    loop {
        match runtime.status().await {
            Ok(status) => take(status, state, inventory),
            Err(error) => tracing::error!(%error, "Container runtime sanity check failed"),
        }
        seen_well = seen_well || state.all_errors().is_empty();
        let soon = !seen_well && start.elapsed() < FIRST;
        tokio::time::sleep(if soon { FIRST_STATUS_PERIOD } else { STATUS_PERIOD }).await;
    }
}

/// Handlers and features are those of a runtime that is ready.
fn take(told: v1::StatusResponse, state: &RuntimeState, inventory: &Inventory) {
    let status = told.status.unwrap_or_default();
    state.observe(&status, Instant::now());
    let ready = status.conditions.iter().any(|one| one.r#type == "RuntimeReady" && one.status);
    let mut handlers = told.runtime_handlers;
    handlers.sort_by(|one, other| one.name.cmp(&other.name));
    inventory.change(|known| {
        known.said_how_it_is = true;
        if ready {
            (known.handlers, known.features) = (handlers, told.features);
        }
    });
}

async fn watch_version(runtime: &dyn RuntimeService, inventory: &Inventory) {
    loop {
        let known = match runtime.version(CRI_VERSION).await {
            Ok(told) => {
                let version = Some((told.runtime_name, told.runtime_version));
                inventory.change(|known| known.version = version);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "Runtime did not tell its version");
                false
            }
        };
        tokio::time::sleep(if known { INVENTORY_PERIOD } else { STATUS_PERIOD }).await;
    }
}

async fn watch_images(image_service: &dyn ImageService, inventory: &Inventory) {
    loop {
        match image_service.list_images(&v1::ImageFilter::default()).await {
            Ok(mut found) => {
                images::sort(&mut found);
                inventory.change(|known| known.images = found);
            }
            Err(error) => tracing::warn!(%error, "Failed to update image list"),
        }
        tokio::time::sleep(INVENTORY_PERIOD).await;
    }
}

async fn watch_image_fs(image_service: &dyn ImageService, inventory: &Inventory) {
    loop {
        match image_service.image_fs_info().await {
            Ok(info) => inventory.change(|known| known.image_fs = mount_point(&info)),
            Err(error) => tracing::warn!(%error, "Runtime did not tell where its images are"),
        }
        tokio::time::sleep(INVENTORY_PERIOD).await;
    }
}

fn mount_point(info: &v1::ImageFsInfoResponse) -> Option<PathBuf> {
    let first = info.image_filesystems.first()?.fs_id.as_ref()?;
    Some(first.mountpoint.clone().into()).filter(|path: &PathBuf| path.is_absolute())
}
