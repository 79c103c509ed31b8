//! The memory that writes of large objects take together.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::negotiate::{body_format, media_type};
use super::request::Request;
use super::server::ApiServer;
use crate::codec::Format;
use crate::values;

/// How many values large writes may have together while they are carried out: the largest, and one of half its size. A write
/// takes up to 1.3 KB of memory for each value (most for objects with a single member), so together they take some 500 MB.
const MOST: usize = values::LIMIT + values::LIMIT / 2;
/// Writes of so many values, or fewer, don't wait for others.
const SMALL: usize = 4096;
/// How many values a byte of protobuf may become: an empty item of two bytes gets the defaults of its message.
const PER_BYTE: usize = 16;

/// Keeps large writes waiting while others take the memory.
pub(super) struct Decoding {
    room: Semaphore,
}

impl Decoding {
    pub(super) fn new() -> Self {
        Self { room: Semaphore::new(MOST) }
    }

    /// Waits until there is room for so many values. The room is taken until the permit is dropped; small writes take none.
    async fn room_for(&self, values: usize) -> Option<SemaphorePermit<'_>> {
        let taken = values.min(MOST);
        if taken <= SMALL {
            return None;
        }
        let taken = u32::try_from(taken).expect("the limit must fit a semaphore");
        Some(self.room.acquire_many(taken).await.expect("the semaphore must stay open: nothing closes it"))
    }
}

impl ApiServer {
    /// Waits until a write may be decoded and carried out, see [`Decoding`].
    pub(super) async fn room_to_decode(&self, request: &Request) -> Option<SemaphorePermit<'_>> {
        if !request.call.verb.is_write() {
            return None;
        }
        let call = &request.call;
        let key = steersman_api::ObjectKey::new(call.namespace.as_str(), call.name.as_str());
        // A small patch makes a large object of a large one.
        let present = self.store().get(&call.resource.table, &key);
        let present = present.map_or(0, |present| values_of_json(present.json()));
        self.decoding().room_for(values_in_body(request) + present).await
    }
}

/// How many values a body may be decoded to, at most.
fn values_in_body(request: &Request) -> usize {
    let body = &request.body;
    let most = match body_format(&request.headers) {
        Ok(Format::Protobuf) => body.len().saturating_mul(PER_BYTE),
        Ok(Format::Json) => values_of_json(body),
        // Patches: in JSON, or in YAML, where a value takes two bytes as well.
        Err(_) if media_type(&request.headers).ends_with("json") => values_of_json(body),
        Err(_) => body.len() / 2,
    };
    // Bodies of more are refused before they are decoded that far.
    most.min(values::LIMIT)
}

/// How many values a text of JSON has, at most. Short texts are not read for it.
fn values_of_json(json: &[u8]) -> usize {
    let most = json.len() / 2;
    if most > SMALL { steersman_api::schema::count_values(json) } else { most }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn large_writes_wait_for_each_other_and_small_ones_for_nobody() {
        let decoding = Decoding::new();
        let soon = Duration::from_secs(1);
        let first = decoding.room_for(values::LIMIT).await;
        let second =
            timeout(soon, decoding.room_for(values::LIMIT / 2)).await.expect("there must be room for half");
        assert!(timeout(soon, decoding.room_for(SMALL + 1)).await.is_err(), "there must be no room for more");
        assert!(
            timeout(soon, decoding.room_for(SMALL)).await.expect("a small write must not wait").is_none()
        );
        drop(first);
        timeout(soon, decoding.room_for(SMALL + 1)).await.expect("there is room again");
        drop(second);
        timeout(soon, decoding.room_for(usize::MAX)).await.expect("the largest must find room at some time");
    }
}
