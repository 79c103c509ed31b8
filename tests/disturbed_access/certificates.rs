//! CertificateSigningRequests.

use std::ops::Range;

use crate::{Area, Made};
use support::Cluster;
use support::certificates::{Authority, OF_KUBELET, Requests};

/// Numbered requests of kubelets, which are approved and signed.
pub(crate) struct Certificates {
    requests: Requests,
    authority: Authority,
}

impl Area for Certificates {
    const CONTROLLERS: &'static str =
        "certificatesigningrequest-approving-controller,certificatesigningrequest-signing-controller";
    const ONE_BY_ONE: &'static [&'static str] = &["approval", "certificate"];
    const AT_ONCE: &'static [&'static str] = &[];

    async fn of(cluster: &Cluster) -> Self {
        Self { requests: Requests::of(cluster), authority: Authority::new("test-ca") }
    }

    fn flags(&self) -> Vec<String> {
        self.authority.flags("").to_vec()
    }

    async fn create(&self, numbers: Range<usize>) {
        for number in numbers {
            self.requests.ask(&number.to_string(), &OF_KUBELET).await;
        }
    }

    async fn made(&self, count: usize) -> Made {
        let mut made = Made::new();
        for number in 0..count {
            let name = self.requests.name(&number.to_string());
            let Ok(request) = self.requests.api.get(&name).await else { continue };
            let status = request.status.unwrap_or_default();
            let conditions = status.conditions.unwrap_or_default();
            if !conditions.is_empty() {
                made.insert(("approval", number), serde_json::to_string(&conditions).unwrap());
            }
            if let Some(certificate) = status.certificate {
                made.insert(("certificate", number), String::from_utf8(certificate.0).unwrap());
            }
        }
        made
    }

    async fn check(&self, made: &Made, count: usize) {
        for number in 0..count {
            let conditions = &made[&("approval", number)];
            assert_eq!(conditions.matches("\"Approved\"").count(), 1, "{conditions}");
            let certificate = made[&("certificate", number)].as_bytes();
            assert!(self.authority.has_issued(certificate, "sslclient"), "{number}");
        }
    }
}
