//! One object of an API server, as its clients may rely on it.

use crate::checker::Model;

/// An object that is absent, or has a value. No two writes write the same value, so that a value tells of the write, and a version
/// that a client gives as a precondition is the same as the value that it has seen with it.
#[derive(Debug)]
pub struct Register;

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Makes the object.
    Create(u64),
    /// Replaces it, if it has still the value that was expected, or whatever it has.
    Replace {
        /// What it must have.
        expected: Option<u64>,
        /// What it gets.
        value: u64,
    },
    /// Makes it, or replaces it, whatever there is (a forced apply).
    Set(u64),
    /// Removes it, if it has still the value that was expected, or whatever it has.
    Delete {
        /// What it must have.
        expected: Option<u64>,
    },
    /// Reads it.
    Get,
}

/// What it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// There is such an object.
    Exists,
    /// There is none.
    Missing,
    /// It has another value than was expected.
    Conflict,
    /// The object has this value.
    Is(u64),
    /// No answer, or none that says whether it was done.
    Unknown,
}

impl Act {
    /// The value that it writes.
    pub(crate) fn value(self) -> Option<u64> {
        match self {
            Self::Create(value) | Self::Replace { value, .. } | Self::Set(value) => Some(value),
            Self::Delete { .. } | Self::Get => None,
        }
    }

    /// The outcome in a state, and the state after it.
    fn carry_out(self, state: Option<u64>) -> (Outcome, Option<u64>) {
        let differs = |expected: Option<u64>| expected.is_some() && expected != state;
        match (self, state) {
            (Self::Create(value), None) => (Outcome::Done, Some(value)),
            (Self::Create(_), Some(_)) => (Outcome::Exists, state),
            (Self::Set(value), _) => (Outcome::Done, Some(value)),
            (Self::Replace { .. } | Self::Delete { .. } | Self::Get, None) => (Outcome::Missing, None),
            (Self::Replace { expected, .. } | Self::Delete { expected }, Some(_)) if differs(expected) => {
                (Outcome::Conflict, state)
            }
            (Self::Replace { value, .. }, Some(_)) => (Outcome::Done, Some(value)),
            (Self::Delete { .. }, Some(_)) => (Outcome::Done, None),
            (Self::Get, Some(value)) => (Outcome::Is(value), state),
        }
    }
}

impl Model for Register {
    type Act = (Act, Outcome);
    type State = Option<u64>;

    fn after(state: &Option<u64>, (act, outcome): &(Act, Outcome)) -> Option<Option<u64>> {
        let (expected, after) = act.carry_out(*state);
        (*outcome == Outcome::Unknown || *outcome == expected).then_some(after)
    }
}
