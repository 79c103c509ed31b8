//! Authorities of client certificates, each for as long as its own certificate is valid.

use std::ops::Range;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

/// Trusted authorities. Go verifies the validity of an authority's certificate as well, whereas webpki trusts an authority for
/// ever. So the verifier is built from the authorities that are valid, and built again when that changes.
#[derive(Debug)]
pub(super) struct Authorities {
    all: Vec<Authority>,
    /// Trusts those of `all` that are valid during `period`.
    verifier: Arc<dyn ClientCertVerifier>,
    /// In seconds of Unix time. No authority becomes valid or expires in it.
    period: Range<u64>,
}

#[derive(Debug)]
struct Authority {
    anchor: TrustAnchor<'static>,
    /// For logs.
    subject: String,
    validity: Range<u64>,
}

impl Authorities {
    /// Reads certificates, PEM.
    ///
    /// # Errors
    /// If a certificate is invalid, or there is none. That a certificate has expired is no error: the log tells so.
    pub(super) fn parse(pem: &[u8], now: UnixTime) -> Result<Self, String> {
        let mut all = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            let anchor = webpki::anchor_from_trusted_cert(&certificate).map_err(|error| error.to_string())?;
            let (_, parsed) =
                x509_parser::parse_x509_certificate(&certificate).map_err(|error| error.to_string())?;
            all.push(Authority {
                anchor: anchor.to_owned(),
                subject: parsed.subject().to_string(),
                validity: validity(&parsed),
            });
        }
        if all.is_empty() {
            return Err("no certificates".to_owned());
        }
        let mut parsed = Self::with_verifier(Arc::new(NoneValid));
        parsed.all = all;
        parsed.renew(now);
        Ok(parsed)
    }

    /// Trusts the certificates that `verifier` accepts.
    pub(super) fn with_verifier(verifier: Arc<dyn ClientCertVerifier>) -> Self {
        Self { all: Vec::new(), verifier, period: 0..u64::MAX }
    }

    /// Trusts the authorities that are valid at `now`; `None` if [`renew`](Self::renew) must be called first.
    pub(super) fn verifier_at(&self, now: UnixTime) -> Option<Arc<dyn ClientCertVerifier>> {
        self.period.contains(&now.as_secs()).then(|| Arc::clone(&self.verifier))
    }

    /// Builds the verifier anew for the authorities that are valid at `now`.
    pub(super) fn renew(&mut self, now: UnixTime) {
        let now = now.as_secs();
        let (valid, others): (Vec<_>, Vec<_>) = self.all.iter().partition(|one| one.validity.contains(&now));
        for Authority { subject, .. } in others {
            tracing::warn!(subject, "A client CA has expired, or is not valid yet, and does not count");
        }
        let mut roots = RootCertStore::empty();
        roots.extend(valid.iter().map(|one| one.anchor.clone()));
        let (roots, provider) = (Arc::new(roots), Arc::new(default_provider()));
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
        // The only error is that there are no roots.
        self.verifier = verifier.unwrap_or_else(|_| Arc::new(NoneValid));
        let changes = self.all.iter().flat_map(|one| [one.validity.start, one.validity.end]);
        let (past, future): (Vec<u64>, Vec<u64>) = changes.partition(|change| *change <= now);
        self.period =
            past.into_iter().max().unwrap_or_default()..future.into_iter().min().unwrap_or(u64::MAX);
    }
}

/// The seconds of Unix time in which a certificate is valid.
pub(super) fn validity(certificate: &x509_parser::certificate::X509Certificate<'_>) -> Range<u64> {
    let validity = certificate.validity();
    let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or_default();
    seconds(validity.not_before)..seconds(validity.not_after).saturating_add(1)
}

/// Accepts no certificate: no authority is valid.
#[derive(Debug)]
struct NoneValid;

impl ClientCertVerifier for NoneValid {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Err(CertificateError::UnknownIssuer.into())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(CertificateError::UnknownIssuer.into())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(CertificateError::UnknownIssuer.into())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
        Issuer, KeyPair, date_time_ymd,
    };

    use super::*;

    /// The certificate of an authority that is valid from the start of one year to the start of another one, PEM, and a client
    /// certificate that it signed, which is valid longer.
    fn authority(name: &str, years: Range<i32>) -> (String, CertificateDer<'static>) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        (params.not_before, params.not_after) =
            (date_time_ymd(years.start, 1, 1), date_time_ymd(years.end, 1, 1));
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        (pem, client.der().clone())
    }

    fn at(time: &str) -> UnixTime {
        let time: jiff::Timestamp = time.parse().unwrap();
        UnixTime::since_unix_epoch(Duration::from_secs(time.as_second().try_into().unwrap()))
    }

    #[test]
    fn an_authority_counts_while_its_own_certificate_is_valid() {
        let ((one, of_one), (other, of_other)) =
            (authority("one", 2020..2030), authority("other", 2028..2040));
        let pem = format!("{one}{other}");
        let mut authorities = Authorities::parse(pem.as_bytes(), at("2026-06-01T00:00:00Z")).unwrap();
        for (time, expected) in [
            ("2026-06-01T00:00:00Z", [true, false]),
            ("2027-12-31T23:59:59Z", [true, false]),
            ("2028-01-01T00:00:00Z", [true, true]),
            ("2030-01-01T00:00:00Z", [true, true]),
            ("2030-01-01T00:00:01Z", [false, true]),
            ("2040-01-01T00:00:01Z", [false, false]),
            // The clock is set back.
            ("2029-01-01T00:00:00Z", [true, true]),
            ("2019-01-01T00:00:00Z", [false, false]),
        ] {
            let now = at(time);
            if authorities.verifier_at(now).is_none() {
                authorities.renew(now);
            }
            let verifier = authorities.verifier_at(now).expect("the verifier must be new");
            let accepts = |client| verifier.verify_client_cert(client, &[], now).is_ok();
            assert_eq!([accepts(&of_one), accepts(&of_other)], expected, "{time}");
        }
    }

    #[test]
    fn the_verifier_stays_the_same_until_an_authority_becomes_valid_or_expires() {
        let (one, _) = authority("one", 2020..2030);
        let mut authorities = Authorities::parse(one.as_bytes(), at("2026-06-01T00:00:00Z")).unwrap();
        for (time, stays) in [
            ("2020-01-01T00:00:00Z", true),
            ("2030-01-01T00:00:00Z", true),
            ("2030-01-01T00:00:01Z", false),
            ("2019-12-31T23:59:59Z", false),
        ] {
            assert_eq!(authorities.verifier_at(at(time)).is_some(), stays, "{time}");
        }
        authorities.renew(at("2031-01-01T00:00:00Z"));
        assert!(authorities.verifier_at(at("2030-01-01T00:00:00Z")).is_none());
        assert!(authorities.verifier_at(at("2099-01-01T00:00:00Z")).is_some());
    }

    #[test]
    fn a_bundle_without_certificates_is_an_error() {
        let refused = Authorities::parse(b"", at("2026-06-01T00:00:00Z")).unwrap_err();
        assert_eq!(refused, "no certificates");
    }
}
