//! Protobuf as Kubernetes puts it on the wire: a pull reader over bytes, a writer, and the envelope around objects.
//!
//! Derived messages own every string and know only the fields of their day. The reader hands out slices in the order
//! they stand, so that a caller keeps what it wants, shares what repeats, and can carry over what it does not know.

mod envelope;
mod reader;
mod writer;

pub use envelope::{Envelope, MAGIC, unwrap, wrap};
pub use reader::{Field, Reader, Value, WireError};
pub use writer::Writer;
