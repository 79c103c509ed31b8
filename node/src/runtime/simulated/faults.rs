//! Faults that tests put into calls.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::runtime::{Code, Error, Operation, Result};

/// What goes wrong with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It fails, and nothing is done.
    Fails {
        /// The error's code.
        code: Code,
        /// What is said.
        message: String,
    },
    /// The work is done, but the answer is lost: the caller sees this error.
    LosesAnswer {
        /// The error's code.
        code: Code,
        /// What is said.
        message: String,
    },
    /// It is not answered and nothing is done, until its deadline passes or the faults are cleared.
    Hangs,
    /// It begins this much later.
    Slow(Duration),
}

/// Which calls a fault is for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    operation: Operation,
    /// `None`: whatever it is about.
    target: Option<String>,
    /// Calls still to be met; `u32::MAX` has no end.
    times: u32,
    fault: Fault,
}

/// The faults still to come. The oldest rule that fits a call meets it.
#[derive(Debug)]
pub(super) struct Faults {
    rules: Mutex<Vec<Rule>>,
    /// Changes when the faults are cleared.
    cleared: watch::Sender<u64>,
}

impl Faults {
    pub(super) fn new() -> Self {
        Self { rules: Mutex::default(), cleared: watch::Sender::new(0) }
    }

    pub(super) fn add(&self, operation: Operation, target: Option<&str>, times: u32, fault: Fault) {
        self.rules.lock().push(Rule { operation, target: target.map(str::to_owned), times, fault });
    }

    /// No faults any more; calls that hang end with `Unavailable`.
    pub(super) fn clear(&self) {
        self.rules.lock().clear();
        self.cleared.send_modify(|times| *times += 1);
    }

    /// Meets a call about `targets` at its beginning. Answers with the error to give after the work is done, if any.
    pub(super) async fn meet(&self, operation: Operation, targets: &[String]) -> Result<Option<Error>> {
        let mut cleared = self.cleared.subscribe();
        match self.take(operation, targets) {
            None => Ok(None),
            Some(Fault::Fails { code, message }) => Err(Error::Status { code, message }),
            Some(Fault::LosesAnswer { code, message }) => Ok(Some(Error::Status { code, message })),
            Some(Fault::Slow(delay)) => {
                sleep(delay).await;
                Ok(None)
            }
            Some(Fault::Hangs) => {
                // The sender lives as long as the call, so only a change ends this.
                let _ = cleared.changed().await;
                Err(Error::status(Code::Unavailable, "the connection is closing"))
            }
        }
    }

    fn take(&self, operation: Operation, targets: &[String]) -> Option<Fault> {
        let mut rules = self.rules.lock();
        let fits = |rule: &Rule| {
            rule.operation == operation && rule.target.as_ref().is_none_or(|target| targets.contains(target))
        };
        let index = rules.iter().position(|rule| rule.times > 0 && fits(rule))?;
        let rule = &mut rules[index];
        if rule.times != u32::MAX {
            rule.times -= 1;
        }
        let (fault, done) = (rule.fault.clone(), rule.times == 0);
        if done {
            rules.remove(index);
        }
        Some(fault)
    }
}
