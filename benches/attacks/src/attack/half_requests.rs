//! Connections that take a place and never ask for anything.

use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::Answers;
use crate::Error;
use crate::connect::Target;

#[derive(Args, Debug)]
pub(crate) struct HalfRequests {
    /// Connections at a time.
    #[arg(long, default_value_t = 1300)]
    connections: usize,
    #[arg(skip)]
    pub(super) answers: Answers,
}

/// How long a stranger waits for a place, and until it tries again.
const PATIENCE: Duration = Duration::from_secs(5);

impl HalfRequests {
    pub(super) async fn run(&self, target: &Target) -> Result<(), Error> {
        join_all((0..self.connections).map(|_| async {
            loop {
                self.answers.count(Self::hold(target).await);
                sleep(Duration::from_millis(100)).await;
            }
        }))
        .await;
        Ok(())
    }

    /// Begins a request, and holds the connection until the server ends it; returns how that went.
    async fn hold(target: &Target) -> &'static str {
        let Ok(Ok(mut stream)) = timeout(PATIENCE, target.connect()).await else { return "no connection" };
        let begun = format!("GET /metrics HTTP/1.1\r\nhost: {}\r\nx-half: ", target.host());
        if stream.write_all(begun.as_bytes()).await.is_err() {
            return "connection ended at once";
        }
        let mut answer = [0; 12];
        match stream.read_exact(&mut answer).await {
            Ok(_) => "answered",
            Err(_) => "connection ended",
        }
    }
}
