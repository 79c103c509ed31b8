//! What an error says about a request: was it sent, may the server have acted on it.

use std::{error::Error as StdError, io};

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
