//! SIGTERM and SIGINT: the first asks for a clean stop, the second ends the process at once.

use std::io;

use tokio::select;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What the process ends with at the second signal; as the Go components.
const AT_ONCE: i32 = 1;

/// Listens from now on.
pub(crate) struct Signals {
    term: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes both signals over.
    ///
    /// # Errors
    /// The system does not let us.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Cancels `stop` at the first signal, and never returns from the second.
    pub(crate) async fn watch(mut self, stop: CancellationToken) {
        let name = self.next().await;
        tracing::info!(signal = name, "Stopping; a second signal ends the process at once");
        stop.cancel();
        let name = self.next().await;
        tracing::warn!(signal = name, "Ending at once");
        std::process::exit(AT_ONCE);
    }

    async fn next(&mut self) -> &'static str {
        select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
