//! Lists as bodies.
//!
//! What a list is of was settled when its page was made; its bytes are made piece by piece, as the client takes them. Only
//! in protobuf, which tells the length of the whole first, they are made before.

use std::sync::Arc;
use std::vec;

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use jiff::Timestamp;
use serde_json::{Map, Value};
use steersman_api::wire;

use super::body::ResponseBody;
use super::read::Page;
use crate::codec;
use crate::faults::Spoiled;
use crate::refusal::{Refusal, Result};
use crate::registry::{ENVELOPE_TAIL, Resource, envelope_head, length_delimited};
use crate::store::{Object, View};
use crate::table::{Heads, Tabulator};

/// Lists are made and sent in pieces of about this size.
const PIECE: usize = 64 * 1024;

/// A list that is to be written.
pub(super) struct Listed {
    /// As what the objects are shown.
    pub(super) resource: Arc<Resource>,
    /// How much of them.
    pub(super) view: View,
    /// What is in it.
    pub(super) page: Page,
    /// Objects that the client shall not be able to read.
    pub(super) spoiled: Spoiled,
}

impl Listed {
    /// As JSON.
    pub(super) fn json(self) -> ResponseBody {
        let (api_version, kind) = self.resource.list_shown_as(self.view);
        let mut begun = BytesMut::new();
        begun.put_slice(b"{\"kind\":");
        begun.put_slice(&codec::json(&kind));
        begun.put_slice(b",\"apiVersion\":");
        begun.put_slice(&codec::json(&api_version));
        begun.put_slice(b",\"metadata\":");
        begun.put_slice(&codec::json(&self.meta()));
        begun.put_slice(b",\"items\":[");
        let Self { resource, view, page, spoiled } = self;
        // Items of built-in lists do not say what they are; those of others do.
        let typed = resource.schema.is_none() || view == View::Metadata;
        let head = resource.json_head(view);
        let write = move |object: &Arc<Object>, out: &mut BytesMut| {
            let object = object.served_as(&resource);
            if spoiled.hits(&object) {
                out.put_slice(&spoiled.json(&object));
            } else if typed {
                out.put_slice(&head);
                object.json_tail(view).iter().for_each(|part| out.put_slice(part));
            } else {
                out.put_slice(object.json());
            }
        };
        Items { begun, left: page.objects.into_iter(), write, end: b"]}" }.body()
    }

    /// As a table. Objects that were to be spoiled are shown as they are: rows are not what faults are about.
    pub(super) fn table(self, tabulator: Tabulator, now: Timestamp) -> ResponseBody {
        let mut begun = BytesMut::new();
        tabulator.begin(&self.resource.layout, &self.meta(), Heads::Shown, &mut begun);
        let write = move |object: &Arc<Object>, out: &mut BytesMut| {
            tabulator.row(&object.served_as(&tabulator.resource), now, out);
        };
        Items { begun, left: self.page.objects.into_iter(), write, end: Tabulator::END }.body()
    }

    /// As protobuf.
    ///
    /// # Errors
    /// An object has none.
    pub(super) async fn protobuf(self) -> Result<ResponseBody> {
        let mut items = Pieces::default();
        let mut done = 0;
        for object in &self.page.objects {
            let object = object.served_as(&self.resource);
            let item = if self.spoiled.hits(&object) {
                self.spoiled.protobuf(&object)
            } else {
                object.protobuf(self.view)
            };
            let item = item.map_err(Refusal::internal)?;
            let mut head = Vec::with_capacity(6);
            length_delimited(&mut head, 2, item.len());
            items.put(&head);
            items.put(&item);
            if items.full.len() > done {
                done = items.full.len();
                // Others shall not have to wait for a long list.
                tokio::task::yield_now().await;
            }
        }
        let mut writer = wire::Writer::new();
        writer.message(1, |meta| {
            meta.text(1, "");
            meta.text(2, &self.page.version.to_string());
            meta.text(3, self.page.continue_from.as_deref().unwrap_or_default());
            if let Some(remaining) = self.page.remaining {
                meta.int64(4, i64::try_from(remaining).unwrap_or(i64::MAX));
            }
        });
        let list_meta = writer.into_bytes();
        items.put(ENVELOPE_TAIL);
        let items = items.finish();
        let total = list_meta.len() + items.iter().map(Bytes::len).sum::<usize>() - ENVELOPE_TAIL.len();
        let (api_version, kind) = self.resource.list_shown_as(self.view);
        let mut all = vec![envelope_head(api_version, kind, total), list_meta.into()];
        all.extend(items);
        Ok(ResponseBody::pieces(all))
    }

    fn meta(&self) -> Map<String, Value> {
        let mut meta = Map::new();
        meta.insert("resourceVersion".to_owned(), self.page.version.to_string().into());
        if let Some(token) = &self.page.continue_from {
            meta.insert("continue".to_owned(), token.as_str().into());
        }
        if let Some(remaining) = self.page.remaining {
            meta.insert("remainingItemCount".to_owned(), remaining.into());
        }
        meta
    }
}

/// The items of a list in JSON, on their way out.
struct Items<W> {
    /// What is written, and not sent.
    begun: BytesMut,
    left: vec::IntoIter<Arc<Object>>,
    write: W,
    /// What comes after them.
    end: &'static [u8],
}

impl<W: FnMut(&Arc<Object>, &mut BytesMut) + Send + 'static> Items<W> {
    /// One piece where that is all, so that the client is told how long it is.
    fn body(mut self) -> ResponseBody {
        let mut first = true;
        let mut next = move || {
            loop {
                let Some(object) = self.left.next() else {
                    self.begun.put_slice(std::mem::take(&mut self.end));
                    return std::mem::take(&mut self.begun).freeze();
                };
                if !std::mem::replace(&mut first, false) {
                    self.begun.put_slice(b",");
                }
                (self.write)(&object, &mut self.begun);
                if self.begun.len() >= PIECE {
                    return self.begun.split().freeze();
                }
            }
        };
        let begin = next();
        if begin.len() < PIECE {
            return ResponseBody::full(begin);
        }
        let pieces = std::iter::once(begin).chain(std::iter::from_fn(move || {
            let piece = next();
            (!piece.is_empty()).then_some(piece)
        }));
        ResponseBody::stream(stream::iter(pieces.map(|piece| Ok(vec![piece]))))
    }
}

/// Collects a body in pieces of moderate size.
#[derive(Default)]
struct Pieces {
    full: Vec<Bytes>,
    open: BytesMut,
}

impl Pieces {
    fn put(&mut self, bytes: &[u8]) {
        self.open.put_slice(bytes);
        if self.open.len() >= PIECE {
            self.full.push(self.open.split().freeze());
        }
    }

    fn finish(mut self) -> Vec<Bytes> {
        self.full.push(self.open.freeze());
        self.full
    }
}
