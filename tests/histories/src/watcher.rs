//! A client that watches.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};

use crate::client::{key_of, seen_of, states_of, version_of};
use crate::history::{History, Told};

/// Lists all objects, watches them from the version of the list, and starts over when the watch ends.
pub struct Watcher {
    /// Identifies the watcher in a history; no client has the same number.
    number: usize,
    api: Api<ConfigMap>,
    history: Arc<History>,
}

impl Watcher {
    /// Creates a watcher of the ConfigMaps in the client's namespace.
    pub fn new(number: usize, client: &kube::Client, history: Arc<History>) -> Self {
        Self { number, api: Api::default_namespaced(client.clone()), history }
    }

    /// Watches until it is dropped.
    pub async fn watch(self) {
        loop {
            if self.watch_once().await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    async fn watch_once(&self) -> kube::Result<()> {
        let began = self.history.moment();
        let listed = self.api.list(&ListParams::default()).await?;
        let (version, states) = states_of(&listed);
        self.history.note_list(self.number, began, version, states.clone());
        let events = self.api.watch(&WatchParams::default(), &version.to_string()).await?;
        let watch = self.history.note_watch(version, states);
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => self.note(watch, &object, true),
                WatchEvent::Deleted(object) => self.note(watch, &object, false),
                WatchEvent::Bookmark(bookmark) => {
                    let version = bookmark.metadata.resource_version.parse();
                    self.history.note_bookmark(watch, version.expect("a version is a number"));
                }
                WatchEvent::Error(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn note(&self, watch: usize, object: &ConfigMap, exists: bool) {
        match key_of(object) {
            Some(key) => {
                let seen = seen_of(object);
                let value = exists.then_some(seen.value);
                let at = self.history.moment();
                self.history.note_event(watch, Told { at, version: seen.version, key, value });
            }
            None => self.history.note_bookmark(watch, version_of(object)),
        }
    }
}
