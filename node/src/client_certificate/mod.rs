//! The agent's client certificate at the API server: warns before it expires, since this version rotates none.

mod expiry;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::config::AuthInfo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;
use crate::events::{EventType, Events};
use expiry::{Expiry, Validity, assess};

/// How long until a certificate that could not be read is read again.
const RETRY: Duration = Duration::from_secs(60 * 60);

/// Where the agent's client certificate is, PEM.
#[derive(Debug, Clone)]
pub enum ClientCertificate {
    /// In a file, which is read again each time: it may be replaced while the agent runs.
    File(PathBuf),
    /// In the kubeconfig itself.
    Inline(Vec<u8>),
}

/// Why the expiry of a certificate is not known.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error("is no PEM certificate: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("is no X.509 certificate: {0}")]
    Certificate(String),
    #[error("its validity is no time: {0}")]
    Time(#[from] jiff::Error),
}

impl ClientCertificate {
    /// The certificate that a kubeconfig's user has, if any. Data in the kubeconfig wins over a file, as for connections.
    pub fn of(user: &AuthInfo) -> Option<Self> {
        match (&user.client_certificate_data, &user.client_certificate) {
            // Without base64 no connection comes about either.
            (Some(data), _) => BASE64_STANDARD.decode(data).ok().map(Self::Inline),
            (None, Some(path)) if !path.is_empty() => Some(Self::File(path.into())),
            (None, _) => None,
        }
    }

    /// The times between which it is valid. Blocks: a file is read.
    fn validity(&self) -> Result<Validity, Error> {
        let read;
        let pem = match self {
            Self::File(path) => {
                read = std::fs::read(path)?;
                &read
            }
            Self::Inline(pem) => pem,
        };
        let certificate = CertificateDer::from_pem_slice(pem)?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&certificate)
            .map_err(|error| Error::Certificate(error.to_string()))?;
        let validity = parsed.validity();
        Ok(Validity {
            not_before: Timestamp::from_second(validity.not_before.timestamp())?,
            not_after: Timestamp::from_second(validity.not_after.timestamp())?,
        })
    }

    /// Logs an error and writes an event on the node when the certificate is about to expire, more often as the end comes
    /// closer, and when it has expired; until `stop`. `clock` is the wall clock, with which certificates are compared.
    pub(crate) async fn watch(
        self,
        node: ObjectReference,
        events: Events,
        clock: impl Fn() -> Timestamp + Send,
        stop: CancellationToken,
    ) {
        let watching = async {
            loop {
                let read = self.clone();
                let next = match blocking(move || read.validity()).await {
                    Ok(validity) => {
                        let (expiry, next) = assess(validity, clock());
                        self.tell(expiry, validity.not_after, &node, &events);
                        next
                    }
                    Err(error) => {
                        tracing::warn!(certificate = %self, %error, "The expiry of the client certificate is not known");
                        RETRY
                    }
                };
                sleep(next).await;
            }
        };
        stop.run_until_cancelled(watching).await;
    }

    fn tell(&self, expiry: Expiry, end: Timestamp, node: &ObjectReference, events: &Events) {
        let (reason, message) = match expiry {
            Expiry::Far => return,
            Expiry::Near => (
                "ClientCertificateExpiring",
                format!(
                    "Client certificate ({self}) expires at {end}. This version does not rotate certificates: replace it \
                     before then, or the API server will refuse this node"
                ),
            ),
            Expiry::Past => (
                "ClientCertificateExpired",
                format!(
                    "Client certificate ({self}) expired at {end}: replace it, the API server refuses this node"
                ),
            ),
        };
        tracing::error!(reason, "{message}");
        events.event(node, EventType::Warning, reason, &message);
    }
}

impl fmt::Display for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Inline(_) => f.write_str("in the kubeconfig"),
        }
    }
}
