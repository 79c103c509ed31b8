//! What an error says about a request: was it sent, may the server have acted on it; and how it is told to people.

use std::{error::Error as StdError, fmt, io};

use crate::{gate, transport};

/// How far a request came that got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server refused or dropped the connection before the request was sent; it may be back in a moment.
    Unreachable,
    /// The connection broke after the request was sent, or part of it.
    Broken,
    /// Anything else: trying again would end alike.
    Other,
}

impl Fault {
    /// Judges by what is found in the chain of sources.
    pub(crate) fn of(error: &(dyn StdError + 'static)) -> Self {
        let mut dialling = false;
        for cause in chain(error) {
            dialling |= matches!(cause.downcast_ref(), Some(transport::Error::Dial { .. }));
            if let Some(io) = cause.downcast_ref::<io::Error>() {
                use io::ErrorKind::{
                    BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof,
                };
                match io.kind() {
                    ConnectionRefused => return Fault::Unreachable,
                    ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof if dialling => {
                        return Fault::Unreachable;
                    }
                    ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof => return Fault::Broken,
                    _ => {}
                }
            }
            if let Some(hyper) = cause.downcast_ref::<hyper::Error>()
                && !dialling
                && !hyper.is_user()
                && !hyper.is_parse()
            {
                return Fault::Broken;
            }
        }
        Fault::Other
    }
}

/// Whether a write that ended with `error` has surely changed nothing.
///
/// `false` means that the outcome is unknown: the answer was lost, timed out, or is a 5xx, which the server may send
/// after it has stored the object. Who gets `false` must look at the server before writing again.
pub fn surely_not_done(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => (400..500).contains(&status.code),
        kube::Error::BuildRequest(_) | kube::Error::Auth(_) => true,
        other => chain(other).any(|cause| {
            matches!(cause.downcast_ref(), Some(gate::Error::Refused(_)))
                || matches!(
                    cause.downcast_ref(),
                    Some(transport::Error::Dial { .. } | transport::Error::Closed)
                )
                || cause.is::<kube::client::AuthError>()
        }),
    }
}

/// The error as people should read it: what the server said, in its own words, or why there was no answer.
pub fn told(error: &kube::Error) -> impl fmt::Display + '_ {
    Told(error)
}

struct Told<'a>(&'a kube::Error);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            kube::Error::Api(status) if !status.message.is_empty() => f.write_str(&status.message),
            kube::Error::Api(status) if !status.reason.is_empty() => f.write_str(&status.reason),
            kube::Error::Api(status) => write!(f, "the server answered with status {}", status.code),
            kube::Error::Service(error) => error.fmt(f),
            other => other.fmt(f),
        }
    }
}

/// The error and all that led to it. Some hide what they wrap from `source`, so that is looked up apart.
fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&cause: &&'a (dyn StdError + 'static)| {
        if let Some(io) = cause.downcast_ref::<io::Error>()
            && let Some(wrapped) = io.get_ref()
        {
            return Some(wrapped as &(dyn StdError + 'static));
        }
        match cause.downcast_ref::<transport::Error>() {
            Some(transport::Error::Dial { source, .. }) => Some(&**source),
            Some(transport::Error::Exchange(source)) => Some(&**source),
            _ => cause.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn an_error_is_told_in_the_servers_words_without_their_wrapping() {
        let status = |message: &str, reason: &str| {
            kube::Error::Api(Box::new(Status::failure(message, reason).with_code(404)))
        };
        for (error, expected) in [
            (status("nodes \"n\" not found", "NotFound"), "nodes \"n\" not found"),
            (status("", "NotFound"), "NotFound"),
            (status("", ""), "the server answered with status 404"),
            (kube::Error::Service("connection refused".into()), "connection refused"),
            (kube::Error::LinesCodecMaxLineLengthExceeded, "Error finding newline character"),
        ] {
            assert_eq!(told(&error).to_string(), expected);
        }
    }
}
