//! Splits a list's body in protobuf: an envelope around `ListMeta` (field 1) and the items (field 2).

use bytes::Bytes;

use super::buffer::Buffer;
use super::{FrameError, ListPart, MAX_OBJECT, Splitter, WireError};
use steersman_api::wire::MAGIC;

/// The splitter of such a body.
#[derive(Debug, Default)]
pub struct ProtobufList {
    buffer: Buffer,
    state: State,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    /// Before the magic number.
    #[default]
    Start,
    /// Within the envelope. Becomes `List` at the envelope's field 2.
    Envelope,
    /// Within the list, of which so many bytes are still to come. Becomes `Envelope` when none are.
    List(usize),
}

/// A field whose value begins after `head` bytes and is `len` bytes long.
struct Head {
    number: u64,
    head: usize,
    len: usize,
}

impl Splitter for ProtobufList {
    type Part = ListPart;

    fn push(&mut self, piece: Bytes) {
        self.buffer.push(piece);
    }

    fn next(&mut self) -> Result<Option<ListPart>, FrameError> {
        loop {
            match self.state {
                State::Start => {
                    if self.buffer.len() < MAGIC.len() {
                        return Ok(None);
                    }
                    if self.buffer.split_to(MAGIC.len()) != MAGIC[..] {
                        return Err(WireError::NoEnvelope.into());
                    }
                    self.state = State::Envelope;
                }
                State::Envelope => {
                    let Some(head) = head(&self.buffer)? else { return Ok(None) };
                    if head.number == 2 {
                        let _ = self.buffer.split_to(head.head);
                        self.state = State::List(head.len);
                    } else if self.take(&head)?.is_none() {
                        return Ok(None);
                    }
                }
                State::List(0) => self.state = State::Envelope,
                State::List(rest) => {
                    let Some(head) = head(&self.buffer)? else { return Ok(None) };
                    let size = head.head + head.len;
                    if size > rest {
                        return Err(WireError::Truncated.into());
                    }
                    let Some(value) = self.take(&head)? else { return Ok(None) };
                    self.state = State::List(rest - size);
                    match head.number {
                        1 => return Ok(Some(ListPart::Meta(value))),
                        2 => return Ok(Some(ListPart::Item(value))),
                        _ => {}
                    }
                }
            }
        }
    }

    fn finish(&self) -> Result<(), FrameError> {
        match self.state {
            State::Envelope | State::List(0) if self.buffer.is_empty() => Ok(()),
            _ => Err(FrameError::Truncated),
        }
    }
}

impl ProtobufList {
    /// The field's value, once all of it has arrived.
    fn take(&mut self, head: &Head) -> Result<Option<Bytes>, FrameError> {
        if head.len > MAX_OBJECT {
            return Err(FrameError::TooLarge(head.len));
        }
        if self.buffer.len() < head.head + head.len {
            return Ok(None);
        }
        let _ = self.buffer.split_to(head.head);
        Ok(Some(self.buffer.split_to(head.len)))
    }
}

/// The field at the start of the buffer, once its tag and length have arrived. Both messages have length-delimited fields
/// only.
fn head(buffer: &[u8]) -> Result<Option<Head>, FrameError> {
    let Some((tag, first)) = varint(buffer)? else { return Ok(None) };
    if tag & 7 != 2 {
        return Err(WireError::BadTag(tag >> 3).into());
    }
    let Some((len, second)) = varint(&buffer[first..])? else { return Ok(None) };
    let len = usize::try_from(len).ok().filter(|len| *len < usize::MAX / 2).ok_or(WireError::Truncated)?;
    Ok(Some(Head { number: tag >> 3, head: first + second, len }))
}

/// A varint and its length in bytes, or `None` if the buffer ends within it.
fn varint(buffer: &[u8]) -> Result<Option<(u64, usize)>, WireError> {
    let mut number = 0;
    for (at, byte) in buffer.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            return Ok(Some((number, at + 1)));
        }
    }
    if buffer.len() < 10 { Ok(None) } else { Err(WireError::Overlong) }
}
