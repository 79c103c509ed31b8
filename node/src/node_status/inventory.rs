//! What the container runtime is and has.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use crate::cri::v1;

/// What the runtime last told of itself, for the node's status. A clone is the same.
#[derive(Debug, Clone)]
pub struct Inventory(Arc<watch::Sender<Arc<RuntimeInventory>>>);

/// What the runtime is and has, as it last told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuntimeInventory {
    /// Its name and version.
    pub version: Option<(String, String)>,
    /// Whether it ever said how it is.
    pub said_how_it_is: bool,
    /// Its handlers, by name.
    pub handlers: Vec<v1::RuntimeHandler>,
    /// Its features, where it tells.
    pub features: Option<v1::RuntimeFeatures>,
    /// Its images, the largest first.
    pub images: Vec<v1::Image>,
    /// Where it keeps them.
    pub image_fs: Option<PathBuf>,
}

impl Inventory {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }

    /// What is known.
    pub fn get(&self) -> Arc<RuntimeInventory> {
        Arc::clone(&self.0.borrow())
    }

    /// Changes what is known.
    pub fn change(&self, change: impl FnOnce(&mut RuntimeInventory)) {
        self.0.send_modify(|known| change(Arc::make_mut(known)));
    }

    /// Has `see` see what is known, now and whenever it changes. Never returns.
    pub async fn follow(&self, see: impl Fn(&RuntimeInventory)) {
        let mut known = self.0.subscribe();
        loop {
            see(&known.borrow_and_update());
            if known.changed().await.is_err() {
                // The sender lives as long as this does.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns once the runtime said how it is and which one it is.
    pub async fn told(&self) {
        let mut known = self.0.subscribe();
        // The sender lives as long as this does.
        let _ = known.wait_for(|known| known.version.is_some() && known.said_how_it_is).await;
    }
}

impl Default for Inventory {
    fn default() -> Self {
        Self::new()
    }
}
