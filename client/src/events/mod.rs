//! The event recorder: writes core/v1 Events as client-go's `tools/record` does.
//!
//! As upstream, each component has its own queue, correlator and writer: while the API server does not answer one
//! component's call, the other components' events are written. Upstream's controllers write events through the client of
//! their other calls. Here, a component's events have a client, and so a rate limit, of their own: a burst of events does
//! not delay the controller.
//!
//! A [`Recorder`] correlates each event at once, which counts repetitions, combines similar events and holds back spam,
//! and queues what is left. It never waits. [`Writers`] owns the writers of all components.
//!
//! ```text
//! Recorder: correlate --> queue of the component (1,000) --> its writer --> POST, or PATCH of the earlier event
//! ```
//!
//! A component's correlator and writer are created with its first event, so a component without events costs a few
//! hundred bytes. If an event is repeated while an earlier patch of it still waits in the queue, the new patch
//! replaces that one: the API server gets one patch with the last count and timestamp.

mod broadcaster;
mod correlator;
mod metrics;
mod queue;
mod recorder;
mod sink;
mod writer;
mod writers;

pub use broadcaster::{Broadcaster, broadcaster, broadcaster_with};
pub use metrics::Metrics;
pub use recorder::{EventType, Recorder, reference};
pub use writers::Writers;

#[cfg(test)]
mod tests;
