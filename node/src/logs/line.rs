//! What stands before the text in each line of a log.

use jiff::Timestamp;
use jiff::fmt::temporal::{Pieces, PiecesOffset};
use jiff::tz::Offset;

/// No line has more before its text: a time, a stream and tags.
pub(super) const LONGEST_HEAD: usize = 256;

/// Where a line was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// The head of a line: all before its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) at: Timestamp,
    /// How the time is written: so far from UTC.
    pub(super) offset: Offset,
    pub(super) stream: Stream,
    /// The text goes on in the next line of this stream.
    pub(super) partial: bool,
}

/// Reads a head, without the space that ends it. `None` is a line of some other format.
pub(super) fn parse(head: &[u8]) -> Option<Head> {
    let mut fields = std::str::from_utf8(head).ok()?.split(' ');
    let (at, offset) = stamp(fields.next()?)?;
    let stream = match fields.next()? {
        "stdout" => Stream::Stdout,
        "stderr" => Stream::Stderr,
        _ => return None,
    };
    // Tags may be added one day, behind colons.
    let partial = fields.next()?.split(':').next() == Some("P");
    fields.next().is_none().then_some(Head { at, offset, stream, partial })
}

fn stamp(text: &str) -> Option<(Timestamp, Offset)> {
    let pieces = Pieces::parse(text).ok()?;
    let offset = match pieces.offset()? {
        PiecesOffset::Numeric(offset) => offset.offset(),
        _ => Offset::UTC,
    };
    let at = offset.to_timestamp(pieces.date().to_datetime(pieces.time()?)).ok()?;
    Some((at, offset))
}

impl Head {
    /// The time as it is written, with all nine digits of its fraction.
    pub(super) fn stamp(&self) -> String {
        let minutes = self.offset.seconds() / 60;
        if minutes == 0 {
            return format!("{:.9}", self.at);
        }
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
        format!("{:.9}{sign}{hours:02}:{minutes:02}", self.offset.to_datetime(self.at))
    }
}

/// The length of the head that `bytes` begin with, without its last space; `None` where they end before it does.
pub(super) fn head_length(bytes: &[u8]) -> Option<usize> {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at).nth(2)
}
