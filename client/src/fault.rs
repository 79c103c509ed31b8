//! Classifies the errors of requests: whether the request was sent, and whether the server may have acted on it. Also
//! formats errors for people.

use std::{error::Error as StdError, fmt, io};

use crate::{gate, service_accounts, transport};

/// How a request without a response failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server refused or dropped the connection before the request was sent. It may be restarting.
    Unreachable,
    /// The connection broke after the request, or part of it, was sent.
    Broken,
    /// Any other error, which would happen again.
    Other,
}

impl Fault {
    /// Classifies an error by its chain of sources.
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
            if !dialling && is_lost_connection(cause) {
                return Fault::Broken;
            }
        }
        Fault::Other
    }
}

/// Whether this is an error of hyper or h2 that says that the connection or the stream broke, rather than that a request was invalid.
fn is_lost_connection(error: &(dyn StdError + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return !error.is_user() && !error.is_parse();
    }
    error
        .downcast_ref()
        .is_some_and(|error: &h2::Error| error.is_io() || error.is_go_away() || error.is_reset())
}

/// Whether it is certain that a write which failed with `error` has changed nothing.
///
/// `false` means that the outcome is unknown: the response was lost, timed out, or is a 5xx, which the server may
/// send after it has stored the object. The caller must then read from the server before it writes again.
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
                || cause.is::<service_accounts::Error>()
        }),
    }
}

/// Whether no connection to the server could be made, so that nothing was sent.
pub fn is_unreachable(error: &kube::Error) -> bool {
    chain(error).any(|cause| matches!(cause.downcast_ref(), Some(transport::Error::Dial { .. })))
}

/// Formats an error for people: the message of the server, or why there was no response.
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

/// The error and its chain of sources, including sources that `Error::source` of some types does not return.
fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&cause: &&'a (dyn StdError + 'static)| {
        if let Some(io) = cause.downcast_ref::<io::Error>()
            && let Some(wrapped) = io.get_ref()
        {
            return Some(wrapped as &(dyn StdError + 'static));
        }
        if let Some(h2) = cause.downcast_ref::<h2::Error>() {
            return h2.get_io().map(|io| io as &(dyn StdError + 'static));
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

    #[tokio::test]
    async fn a_connection_that_breaks_in_its_handshake_was_not_made() {
        let (near, far) = tokio::io::duplex(1);
        drop(far);
        let error = h2::client::handshake(near).await.err().unwrap();
        assert_eq!(Fault::of(&error), Fault::Broken, "{error}");
        let dial = transport::Error::Dial { server: "a:1".into(), source: std::sync::Arc::new(error) };
        assert_eq!(Fault::of(&dial), Fault::Unreachable, "{dial}");
    }

    #[test]
    fn an_error_is_formatted_as_the_servers_message() {
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
