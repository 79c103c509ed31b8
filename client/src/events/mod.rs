//! The event recorder: core/v1 Events as client-go's `tools/record` writes them.
//!
//! A [`Recorder`] puts what happened into a bounded queue and never waits. One task per queue, the [`Writer`], runs each
//! event through the correlator, which joins like ones and holds back spam, and writes what is left.
//!
//! ```text
//! Recorder --try_send--> queue (1,000) --> Writer: correlate --> POST, or PATCH of the event written before
//! ```

mod correlator;
mod metrics;
mod recorder;
mod sink;
mod writer;

pub use metrics::Metrics;
pub use recorder::{Broadcaster, EventType, Recorder, broadcaster, reference};
pub use writer::Writer;
