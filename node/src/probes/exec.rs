//! Probes that run a command in the container.

use std::time::Duration;

use k8s_openapi::api::core::v1::EnvVar;

use super::prober::{Attempt, Outcome, ProbeError, State};
use crate::configuration::GoDuration;
use crate::environment::expansion::expand;
use crate::runtime::RuntimeService;

/// So much of what a command says is kept, in bytes.
const MAX_OUTPUT: usize = 10 << 10;

/// Runs `command`, with values of the container's own variables put in, and says how it ended.
pub(super) async fn probe(
    runtime: &dyn RuntimeService,
    container_id: &str,
    command: &[String],
    env: &[EnvVar],
    timeout: Duration,
) -> Attempt {
    // Variables with a value from elsewhere have none here, as upstream.
    let value = |name: &str| {
        let variable = env.iter().rev().find(|variable| variable.name == name)?;
        Some(variable.value.clone().unwrap_or_default())
    };
    let command: Vec<String> = command.iter().map(|part| expand(part, value)).collect();
    match runtime.exec_sync(container_id, &command, timeout).await {
        Ok(answer) => {
            let mut output = answer.stdout;
            output.extend(answer.stderr);
            output.truncate(MAX_OUTPUT);
            let state = if answer.exit_code == 0 { State::Success } else { State::Failure };
            Ok(Outcome::new(state, String::from_utf8_lossy(&output)))
        }
        Err(error) if error.is_deadline_exceeded() => {
            let (command, timeout) = (command.join(" "), GoDuration(timeout));
            Ok(Outcome::new(
                State::Failure,
                format!("command timed out: {command:?} timed out after {timeout}"),
            ))
        }
        Err(error) => Err(ProbeError::new(State::Unknown, error.to_string())),
    }
}
