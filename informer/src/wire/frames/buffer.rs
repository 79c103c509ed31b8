//! The bytes of a body that no part has used yet.

use std::mem;
use std::ops::Deref;

use bytes::{Bytes, BytesMut};

/// What has arrived of a body, from the first byte that no part has used yet.
///
/// Parts share the memory of the piece in which they arrived. Only what spans pieces is copied. An empty buffer keeps no memory: most
/// watches are silent most of the time, and there is one for each kind.
#[derive(Debug)]
pub(super) enum Buffer {
    /// The rest of one piece.
    Piece(Bytes),
    /// The rest of several pieces.
    Joined(BytesMut),
}

impl Buffer {
    /// Appends a piece.
    pub(super) fn push(&mut self, piece: Bytes) {
        match self {
            Self::Joined(joined) => joined.extend_from_slice(&piece),
            Self::Piece(rest) if rest.is_empty() => *rest = piece,
            Self::Piece(rest) => {
                let mut joined = BytesMut::with_capacity(rest.len() + piece.len());
                joined.extend_from_slice(rest);
                joined.extend_from_slice(&piece);
                *self = Self::Joined(joined);
            }
        }
    }

    /// Takes the first `len` bytes out.
    ///
    /// # Panics
    /// If there are fewer.
    pub(super) fn split_to(&mut self, len: usize) -> Bytes {
        if len == self.len() {
            return match mem::take(self) {
                Self::Piece(rest) => rest,
                Self::Joined(joined) => joined.freeze(),
            };
        }
        match self {
            Self::Piece(rest) => rest.split_to(len),
            Self::Joined(joined) => joined.split_to(len).freeze(),
        }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self::Piece(Bytes::new())
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Piece(rest) => rest,
            Self::Joined(joined) => joined,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_within_a_piece_is_not_copied() {
        let piece = Bytes::from(b"one two".to_vec());
        let mut buffer = Buffer::default();
        buffer.push(piece.clone());
        let part = buffer.split_to(3);
        assert_eq!(part, "one");
        assert_eq!(part.as_ptr(), piece.as_ptr());
    }

    #[test]
    fn what_spans_pieces_is_joined() {
        let mut buffer = Buffer::default();
        for piece in ["on", "", "e t", "wo"] {
            buffer.push(Bytes::from_static(piece.as_bytes()));
        }
        assert_eq!(&*buffer, b"one two");
        assert_eq!(buffer.split_to(4), "one ");
        buffer.push(Bytes::from_static(b"!"));
        assert_eq!(buffer.split_to(4), "two!");
    }

    #[test]
    fn an_empty_buffer_keeps_no_memory() {
        let owner = Bytes::from(vec![0; 64]);
        let mut buffer = Buffer::default();
        buffer.push(owner.clone());
        drop(buffer.split_to(64));
        assert!(owner.is_unique());
        buffer.push(owner.clone());
        buffer.push(owner);
        drop(buffer.split_to(128));
        assert!(matches!(buffer, Buffer::Piece(rest) if rest.is_empty()));
    }
}
