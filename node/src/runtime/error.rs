//! How a call of a runtime fails.

pub use tonic::Code;

/// Why a call failed. The runtime may have done the work or a part of it even so, unless the code rules it out: look
/// again before repeating what is not idempotent.
///
/// `Display` is what the kubelet writes into events and conditions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The runtime said no, could not be reached (`Unavailable`) or did not answer in time (`DeadlineExceeded`).
    /// Repeat with back-off, but for `NotFound` (it is gone) and `Unimplemented` (it will never do that).
    #[error("rpc error: code = {} desc = {message}", name(*.code))]
    Status {
        /// The gRPC code.
        code: Code,
        /// The runtime's message, unchanged.
        message: String,
    },
    /// A pull failed for a reason without a code; the message alone is shown, as upstream does. Repeat with back-off.
    #[error("{0}")]
    Pull(String),
    /// The runtime answered, and left out what it must say. Repeat with back-off.
    #[error("{0}")]
    Incomplete(String),
}

impl Error {
    /// A failure with `code`.
    pub fn status(code: Code, message: impl Into<String>) -> Self {
        Self::Status { code, message: message.into() }
    }

    /// As a failed pull is told: a code that says nothing is left out.
    pub fn of_pull(self) -> Self {
        match self {
            Self::Status { code: Code::Unknown, message } => Self::Pull(message),
            other => other,
        }
    }

    /// The gRPC code; `Unknown` where there is none.
    pub fn code(&self) -> Code {
        match self {
            Self::Status { code, .. } => *code,
            Self::Pull(_) | Self::Incomplete(_) => Code::Unknown,
        }
    }

    /// What was said, without the code.
    pub fn message(&self) -> &str {
        match self {
            Self::Status { message, .. } | Self::Pull(message) | Self::Incomplete(message) => message,
        }
    }

    /// What the call was about is not there.
    pub fn is_not_found(&self) -> bool {
        self.code() == Code::NotFound
    }

    /// The runtime has no such call.
    pub fn is_unimplemented(&self) -> bool {
        self.code() == Code::Unimplemented
    }

    /// The time was up: for the call, or for the command of an `exec_sync`.
    pub fn is_deadline_exceeded(&self) -> bool {
        self.code() == Code::DeadlineExceeded
    }
}

impl From<tonic::Status> for Error {
    fn from(status: tonic::Status) -> Self {
        Self::Status { code: status.code(), message: status.message().to_owned() }
    }
}

/// The code's name in Go, where these messages are read.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_code_and_message_and_reads_as_the_kubelet_writes_it() {
        let error = Error::from(tonic::Status::not_found("no such container"));
        assert_eq!((error.code(), error.message()), (Code::NotFound, "no such container"));
        assert!(error.is_not_found() && !error.is_unimplemented() && !error.is_deadline_exceeded());
        assert_eq!(error.to_string(), "rpc error: code = NotFound desc = no such container");
        assert_eq!(Error::status(Code::Cancelled, "x").to_string(), "rpc error: code = Canceled desc = x");
        assert_eq!(Error::status(Code::Unknown, "no such host").of_pull().to_string(), "no such host");
        assert_eq!(Error::status(Code::NotFound, "no tag").of_pull().code(), Code::NotFound);
        assert_eq!(Error::Incomplete("no id".into()).code(), Code::Unknown);
    }
}
