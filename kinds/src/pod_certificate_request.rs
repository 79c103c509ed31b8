//! The cached fields of PodCertificateRequests, in groups.

use steersman_informer::{Interned, kind, projection};

projection! {
    /// The certificate that a request asks for.
    pub struct RequestedCertificate {
        /// The signer that is to issue the certificate.
        pub signer: Interned = 1 "signerName",
    }
}

kind! {
    /// A kubelet's request for a certificate of a pod.
    pub struct PodCertificateRequest("certificates.k8s.io", "v1beta1", "podcertificaterequests") {
        certificate: RequestedCertificate = 2 "spec",
    }
}
