//! The attacks.

mod body;
mod certificates;
mod half_requests;
mod heads;

use std::collections::BTreeMap;

use clap::Subcommand;
use parking_lot::Mutex;

use crate::Error;
use crate::connect::Target;

/// What to attack with.
#[derive(Debug, Subcommand)]
pub(crate) enum Attack {
    /// Client certificates of one name and distinct keys, whose chain can't be built, with request upon request.
    Certificates(certificates::Certificates),
    /// Requests with large heads, held by credentials that must be looked up.
    Heads(heads::Heads),
    /// A protobuf list of empty items, sent where another kind is expected.
    Body(body::Body),
    /// Connections on which a request is begun and never ended.
    HalfRequests(half_requests::HalfRequests),
}

impl Attack {
    /// Attacks until the future is dropped.
    pub(crate) async fn run(&self, target: &Target) -> Result<(), Error> {
        match self {
            Self::Certificates(attack) => attack.run(target).await,
            Self::Heads(attack) => attack.run(target).await,
            Self::Body(attack) => attack.run(target).await,
            Self::HalfRequests(attack) => attack.run(target).await,
        }
    }

    /// What the server answered so far.
    pub(crate) fn answers(&self) -> String {
        let answers = match self {
            Self::Certificates(attack) => &attack.answers,
            Self::Heads(attack) => &attack.answers,
            Self::Body(attack) => &attack.answers,
            Self::HalfRequests(attack) => &attack.answers,
        };
        answers.to_string()
    }
}

/// How often the server answered how.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<BTreeMap<String, usize>>);

impl Answers {
    fn count(&self, answer: impl Into<String>) {
        *self.0.lock().entry(answer.into()).or_default() += 1;
    }
}

impl std::fmt::Display for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let answers = self.0.lock();
        let answers: Vec<_> = answers.iter().map(|(answer, times)| format!("{answer}: {times}")).collect();
        f.write_str(if answers.is_empty() { "none" } else { "" })?;
        f.write_str(&answers.join(", "))
    }
}
