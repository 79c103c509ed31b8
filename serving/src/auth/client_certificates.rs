//! The certificates that a client showed.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use tokio::sync::Mutex;

use super::User;
use super::authorities::validity;

/// How long a refusal holds: the certificate may not be valid yet.
const REFUSAL: Duration = Duration::from_secs(60);

/// The user that certificates name, if any, or why they do not count.
pub(super) type Outcome = Result<Option<User>, String>;

/// The certificates that the client of one connection showed, and the verdicts on them once there are any.
#[derive(Debug)]
pub struct ClientCertificates {
    /// The client's own first. Empty if the client showed none.
    pub(super) chain: Arc<[CertificateDer<'static>]>,
    /// As a user's. Locked during verification, so that a connection has at most one under way.
    pub(super) as_user: Mutex<Option<Verdict>>,
    /// Likewise, as a proxy's.
    pub(super) as_proxy: Mutex<Option<Verdict>>,
}

/// What verification found.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    /// The authorities by which it was found.
    verifier: Arc<dyn ClientCertVerifier>,
    /// The first and the last moment at which it holds: a clock that was wrong may have been set back meanwhile.
    from: UnixTime,
    until: UnixTime,
}

impl ClientCertificates {
    /// Certificates as they come with the connection, not verified yet.
    pub fn new(chain: &[CertificateDer<'_>]) -> Self {
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        Self { chain, as_user: Mutex::default(), as_proxy: Mutex::default() }
    }

    /// Whether the client showed none.
    pub(super) fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }
}

impl Verdict {
    /// A verdict of `now`. One in the client's favour holds until the first of the certificates that are valid now expires.
    pub(super) fn new(
        outcome: Outcome,
        verifier: Arc<dyn ClientCertVerifier>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Self {
        let until = match &outcome {
            // A certificate that has expired is not part of the path that was found.
            Ok(_) => chain.iter().map(|one| not_after(one).unwrap_or(now)).filter(|end| *end >= now).min(),
            Err(_) => None,
        };
        Self { outcome, verifier, from: now, until: until.unwrap_or_else(|| later(now, REFUSAL)) }
    }

    /// Whether it holds at `now`, with `verifier` being that of the authorities.
    pub(super) fn holds(&self, verifier: &Arc<dyn ClientCertVerifier>, now: UnixTime) -> bool {
        Arc::ptr_eq(&self.verifier, verifier) && (self.from..=self.until).contains(&now)
    }
}

/// The last moment at which a certificate is valid; `None` if that can't be read.
fn not_after(certificate: &CertificateDer<'_>) -> Option<UnixTime> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let end = validity(&parsed).end.saturating_sub(1);
    Some(UnixTime::since_unix_epoch(Duration::from_secs(end)))
}

fn later(time: UnixTime, by: Duration) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(time.as_secs()) + by)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use rustls::RootCertStore;
    use rustls::crypto::ring::default_provider;
    use rustls::server::WebPkiClientVerifier;

    use super::*;

    fn until(year: i32) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.not_after = date_time_ymd(year, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn verifier(trusted: &CertificateDer<'static>) -> Arc<dyn ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
            .build()
            .unwrap()
    }

    #[test]
    fn a_verdict_holds_until_a_certificate_expires_or_the_authorities_or_the_clock_change() {
        let at = |time: &str| {
            let time: jiff::Timestamp = time.parse().unwrap();
            UnixTime::since_unix_epoch(Duration::from_secs(time.as_second().try_into().unwrap()))
        };
        let now = at("2026-06-01T00:00:00Z");
        let expired = || Err("expired".to_owned());
        let unreadable = CertificateDer::from(vec![0]);
        for (outcome, chain, end) in [
            (Ok(None), &[until(2040)][..], "2040-01-01T00:00:00Z"),
            (Ok(None), &[until(2040), until(2030)], "2030-01-01T00:00:00Z"),
            (Ok(None), &[until(2040), until(2020)], "2040-01-01T00:00:00Z"),
            (Ok(None), &[until(2040), unreadable], "2026-06-01T00:00:00Z"),
            (expired(), &[until(2020)], "2026-06-01T00:01:00Z"),
            (expired(), &[until(2040)], "2026-06-01T00:01:00Z"),
        ] {
            let (one, other) = (verifier(&chain[0]), verifier(&chain[0]));
            let verdict = Verdict::new(outcome, one.clone(), chain, now);
            assert!(verdict.holds(&one, now) && verdict.holds(&one, at(end)), "{verdict:?}");
            assert!(!verdict.holds(&one, later(at(end), Duration::from_secs(1))), "{verdict:?}");
            assert!(!verdict.holds(&other, now), "{verdict:?}");
            assert!(!verdict.holds(&one, at("2026-05-31T23:59:59Z")), "the clock was set back: {verdict:?}");
        }
    }
}
