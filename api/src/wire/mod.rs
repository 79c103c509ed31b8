//! Protobuf: a pull reader, a writer, and the envelope around objects.
//!
//! Generated message types would allocate every string, and would lose fields of newer Kubernetes versions. The reader
//! returns slices of the input instead, field by field: callers decode only what they need, intern what repeats, and
//! copy fields that they do not know.

mod envelope;
mod reader;
mod writer;

pub use envelope::{Envelope, MAGIC, unwrap, wrap};
#[cfg(feature = "testing")]
pub use reader::fields_read;
pub use reader::{Field, Reader, Value, WireError};
pub use writer::Writer;
