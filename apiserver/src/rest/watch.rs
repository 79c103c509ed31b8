//! Answers that are watches.

use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use http::{Response, StatusCode};

use super::answer::{answer, shape_of};
use super::body::ResponseBody;
use super::negotiate::Answered;
use super::options::ListOptions;
use super::request::Request;
use super::server::ApiServer;
use crate::refusal::Result;
use crate::watch::{Encoder, Rows, Start, Watcher};

impl ApiServer {
    /// Changes as they happen.
    pub(super) async fn watch(&self, request: &Request) -> Result<Response<ResponseBody>> {
        let call = &request.call;
        let shape = shape_of(request, Answered::Watch)?;
        let options = ListOptions::parse(request)?;
        let settings = self.settings();
        let bookmarks = options.bookmarks.then_some(settings.bookmark_interval);
        let timeout = options.timeout.filter(|timeout| !timeout.is_zero());
        let start = self.start(request, &options).await?;
        let start =
            Start { timeout: Some(timeout.unwrap_or_else(|| self.watch_timeout())), bookmarks, ..start };
        let encoder = Encoder {
            resource: Arc::clone(&call.resource),
            shape,
            rows: shape.table.map(|table| Rows::new(self.tabulator(&call.resource, table), self.clock())),
            spoiled: self.faults().spoiled(call, request.user_agent()),
            store: Arc::clone(self.store()),
        };
        let faults = self.faults().of_watch(call, request.user_agent());
        let watcher = Watcher::new(start, options.selection, encoder, faults, self.streaming());
        let events = stream::unfold(watcher, |mut watcher| async move {
            let event = watcher.next().await?;
            Some((event, watcher))
        });
        Ok(answer(StatusCode::OK, shape.stream_type(), ResponseBody::stream(events)))
    }

    /// Where the watch begins.
    async fn start(&self, request: &Request, options: &ListOptions) -> Result<Start> {
        let table = &request.call.resource.table;
        let streamed = options.initial_events == Some(true);
        let from_now = options.initial_events == Some(false) && options.version.unwrap_or(0) == 0;
        if streamed && let Some(version) = options.version {
            self.wait_for(version).await?;
        }
        let (cursor, initial, known) = match options.version {
            Some(version) if version > 0 && !streamed => {
                (self.store().follow(table, version), Vec::new(), version)
            }
            _ => {
                let namespace = &options.selection.namespace;
                let (snapshot, cursor) = self.store().snapshot_and_follow(table, namespace);
                let mut initial = if from_now { Vec::new() } else { snapshot.objects };
                initial.retain(|object| options.selection.matches(object));
                // A node has a few pods of all that there are.
                initial.shrink_to_fit();
                (cursor, initial, snapshot.version)
            }
        };
        let initial_end = (streamed && options.bookmarks).then_some(known);
        Ok(Start { cursor, initial, initial_end, known, timeout: None, bookmarks: None })
    }

    /// As upstream: between one and two times the least, so that not all watches end at once.
    fn watch_timeout(&self) -> Duration {
        let least = self.settings().min_watch_timeout;
        let [byte, ..] = uuid::Uuid::new_v4().into_bytes();
        least + least * u32::from(byte) / 256
    }
}
