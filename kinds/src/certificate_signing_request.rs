//! The cached fields of CertificateSigningRequests, in groups.
//!
//! The request itself and the certificate are not cached. A controller that approves or signs a request reads the newest
//! state of the whole object first.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steersman_api::Time;
use steersman_informer::serde::Deserializer;
use steersman_informer::serde::de::Deserialize;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, kind, projection};

use super::pem;

/// The type of the condition of an approved request.
pub const APPROVED: &str = "Approved";
/// The type of the condition of a denied request.
pub const DENIED: &str = "Denied";
/// The type of the condition of a request that the signer refused.
pub const FAILED: &str = "Failed";

projection! {
    /// Who should sign the request.
    pub struct RequestSpec {
        /// The name of the signer, such as `kubernetes.io/kubelet-serving`.
        pub signer_name: Interned = 7 "signerName",
    }

    /// What has been decided about the request.
    pub struct RequestStatus {
        /// The decisions.
        pub conditions: Vec<RequestCondition> = 1 "conditions",
        /// The issued certificate.
        pub certificate: IssuedCertificate = 2 "certificate",
    }

    /// A decision about the request.
    pub struct RequestCondition {
        /// The condition's type, such as `Approved`.
        pub kind: Interned = 1 "type",
        /// When the condition was last written.
        pub last_update_time: Option<Time> = 4 "lastUpdateTime",
        /// `True`, `False` or `Unknown`. Empty for conditions from before the field existed; they hold.
        pub status: Interned = 6 "status",
    }
}

impl RequestStatus {
    /// Whether the request has the condition `Approved`, whatever its status.
    pub fn is_approved(&self) -> bool {
        self.conditions_of(APPROVED).next().is_some()
    }

    /// Whether the request has the condition `Denied`, whatever its status.
    pub fn is_denied(&self) -> bool {
        self.conditions_of(DENIED).next().is_some()
    }

    /// Whether the signer refused the request for good.
    pub fn has_failed(&self) -> bool {
        self.conditions_of(FAILED).any(|condition| condition.status.is_empty() || condition.status == *"True")
    }

    /// The conditions of a type.
    pub fn conditions_of(&self, kind: &'static str) -> impl Iterator<Item = &RequestCondition> {
        self.conditions.iter().filter(move |condition| condition.kind == *kind)
    }
}

/// The certificate of a request, without its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// Whether the request has a certificate.
    pub is_issued: bool,
    /// When the certificate expires. `None` if there is none, or if it can't be decoded.
    pub expires: Option<Time>,
}

impl IssuedCertificate {
    /// Reads the first certificate in the first PEM block, whatever its label. As in Go, the block must hold certificates only.
    fn of(pem: &[u8]) -> Self {
        Self { is_issued: !pem.is_empty(), expires: expiry(pem) }
    }
}

fn expiry(pem: &[u8]) -> Option<Time> {
    let content = pem::decode(pem)?.content;
    let (mut rest, first) = x509_parser::parse_x509_certificate(&content).ok()?;
    while !rest.is_empty() {
        (rest, _) = x509_parser::parse_x509_certificate(rest).ok()?;
    }
    Some(Time::from_seconds(first.validity().not_after.timestamp()))
}

impl FieldValue for IssuedCertificate {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        *self = Self::of(field.bytes()?);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let pem = STANDARD.decode(&*text).map_err(steersman_informer::serde::de::Error::custom)?;
        Ok(Self::of(&pem))
    }
}

kind! {
    /// A request for a certificate.
    pub struct CertificateSigningRequest("certificates.k8s.io", "v1", "certificatesigningrequests") {
        spec: RequestSpec = 2 "spec",
        status: RequestStatus = 3 "status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate that expires at 2036-11-20T16:21:45Z.
    const CERTIFICATE: &str = include_str!("testdata/certificate.pem");

    #[test]
    fn a_certificate_tells_when_it_expires() {
        let expires = Some("2036-11-20T16:21:45Z".parse::<jiff::Timestamp>().unwrap().into());
        for (name, pem, expected) in [
            ("none", String::new(), IssuedCertificate::default()),
            ("a certificate", CERTIFICATE.to_owned(), IssuedCertificate { is_issued: true, expires }),
            ("text before it", format!("# x\n{CERTIFICATE}"), IssuedCertificate { is_issued: true, expires }),
            (
                "a malformed block before it",
                format!("-----BEGIN X-----\n?\n-----END X-----\n{CERTIFICATE}"),
                IssuedCertificate { is_issued: true, expires },
            ),
            (
                "text behind its end",
                CERTIFICATE.replace("-----END CERTIFICATE-----", "-----END CERTIFICATE----- x"),
                IssuedCertificate { is_issued: true, expires: None },
            ),
            (
                "data behind the certificate",
                {
                    let mut der = pem::decode(CERTIFICATE.as_bytes()).unwrap().content;
                    der.push(0);
                    let base64 = STANDARD.encode(der);
                    format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n")
                },
                IssuedCertificate { is_issued: true, expires: None },
            ),
            ("no PEM", "certificate".to_owned(), IssuedCertificate { is_issued: true, expires: None }),
            (
                "no certificate",
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
                IssuedCertificate { is_issued: true, expires: None },
            ),
        ] {
            assert_eq!(IssuedCertificate::of(pem.as_bytes()), expected, "{name}");
        }
    }
}
