//! The signing controller: issues certificates for approved requests, in the name of Kubernetes's four built-in signers.
//!
//! ```text
//! approved requests of a signer with an authority ─> queue "certificate" ─> read ─> plan: sign, or say why not
//! ```
//!
//! The signers of one process share the queue; upstream has a queue of this name for each signer. The files of an authority are
//! read again before each signature, so a new authority needs no restart.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::work_queue::{
    ItemExponential, Key, MaxOf, QueueConfig, RateLimiter, TokenBucket, WorkQueue,
};
use steersman_informer::{Change, View, keep};
use steersman_kinds::certificate_signing_request::{CertificateSigningRequest, RequestSpec, RequestStatus};

use super::rules::{CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN};
use authority::{Authority, Files};

mod authority;
mod certificate;
mod controller;
mod key;
mod plan;
#[cfg(test)]
mod tests;
mod usages;
mod validity;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("certificatesigningrequest-signing-controller", &["csrsigning"], construct)
        .options::<CsrSigningOptions>()
        .rules(&[
            Rule::new(&["certificates.k8s.io"], &["certificatesigningrequests"], &["get", "list", "watch"]),
            Rule::new(&["certificates.k8s.io"], &["certificatesigningrequests/status"], &["update"]),
            Rule::new(&["certificates.k8s.io"], &["signers"], &["sign"]).named(&[
                KUBELET_SERVING,
                KUBELET_CLIENT,
                CLIENT,
                LEGACY_UNKNOWN,
            ]),
        ]);

options! {
    /// Settings of the signing controller.
    pub struct CsrSigningOptions("CSRSigningController") {
        /// File with the PEM-encoded CA certificate of all signers. If specified, no more specific --cluster-signing-* flag may
        /// be specified
        pub cert_file: String = String::new(), "cluster-signing-cert-file", "ClusterSigningCertFile";
        /// File with the PEM-encoded RSA, ECDSA or Ed25519 private key of all signers. If specified, no more specific
        /// --cluster-signing-* flag may be specified
        pub key_file: String = String::new(), "cluster-signing-key-file", "ClusterSigningKeyFile";
        /// File with the PEM-encoded CA certificate of the signer kubernetes.io/kubelet-serving. If specified,
        /// --cluster-signing-{cert,key}-file must not be set
        pub kubelet_serving_cert_file: String = String::new(),
            "cluster-signing-kubelet-serving-cert-file", "KubeletServingSignerConfiguration.CertFile";
        /// File with the PEM-encoded private key of the signer kubernetes.io/kubelet-serving. If specified,
        /// --cluster-signing-{cert,key}-file must not be set
        pub kubelet_serving_key_file: String = String::new(),
            "cluster-signing-kubelet-serving-key-file", "KubeletServingSignerConfiguration.KeyFile";
        /// File with the PEM-encoded CA certificate of the signer kubernetes.io/kube-apiserver-client-kubelet. If specified,
        /// --cluster-signing-{cert,key}-file must not be set
        pub kubelet_client_cert_file: String = String::new(),
            "cluster-signing-kubelet-client-cert-file", "KubeletClientSignerConfiguration.CertFile";
        /// File with the PEM-encoded private key of the signer kubernetes.io/kube-apiserver-client-kubelet. If specified,
        /// --cluster-signing-{cert,key}-file must not be set
        pub kubelet_client_key_file: String = String::new(),
            "cluster-signing-kubelet-client-key-file", "KubeletClientSignerConfiguration.KeyFile";
        /// File with the PEM-encoded CA certificate of the signer kubernetes.io/kube-apiserver-client. If specified,
        /// --cluster-signing-{cert,key}-file must not be set
        pub client_cert_file: String = String::new(),
            "cluster-signing-kube-apiserver-client-cert-file", "KubeAPIServerClientSignerConfiguration.CertFile";
        /// File with the PEM-encoded private key of the signer kubernetes.io/kube-apiserver-client. If specified,
        /// --cluster-signing-{cert,key}-file must not be set
        pub client_key_file: String = String::new(),
            "cluster-signing-kube-apiserver-client-key-file", "KubeAPIServerClientSignerConfiguration.KeyFile";
        /// File with the PEM-encoded CA certificate of the signer kubernetes.io/legacy-unknown. If specified,
        /// --cluster-signing-{cert,key}-file must not be set
        pub legacy_unknown_cert_file: String = String::new(),
            "cluster-signing-legacy-unknown-cert-file", "LegacyUnknownSignerConfiguration.CertFile";
        /// File with the PEM-encoded private key of the signer kubernetes.io/legacy-unknown. If specified,
        /// --cluster-signing-{cert,key}-file must not be set
        pub legacy_unknown_key_file: String = String::new(),
            "cluster-signing-legacy-unknown-key-file", "LegacyUnknownSignerConfiguration.KeyFile";
        /// Maximum duration of the certificates. A request may ask for a shorter one by spec.expirationSeconds
        pub duration: Duration = Duration::from_secs(365 * 24 * 60 * 60),
            "cluster-signing-duration", "ClusterSigningDuration";
    }
}

keep! {
    /// The fields of a request that say whether it can be signed.
    pub struct SignableRequest: CertificateSigningRequest => RequestSpec, RequestStatus
}

/// Workers for each signer. Upstream: `Run(ctx, 5)`.
const WORKERS: usize = 5;

/// The flags do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum FlagError {
    /// Authorities of all signers and of single ones.
    #[error(
        "cannot specify --cluster-signing-{{cert,key}}-file and other --cluster-signing-*-file flags at the same time"
    )]
    Both,
    /// A certificate without its key, or a key without its certificate.
    #[error("--{given} is specified, so --{missing} must be, too")]
    Half {
        /// The flag that was given.
        given: String,
        /// The flag that is missing.
        missing: String,
    },
}

impl CsrSigningOptions {
    /// The files of each signer that has an authority. None if no file is given, or not both of those of all signers.
    fn files(&self) -> Result<BTreeMap<&'static str, Files>, FlagError> {
        let own = [
            (
                KUBELET_SERVING,
                "kubelet-serving-",
                &self.kubelet_serving_cert_file,
                &self.kubelet_serving_key_file,
            ),
            (
                KUBELET_CLIENT,
                "kubelet-client-",
                &self.kubelet_client_cert_file,
                &self.kubelet_client_key_file,
            ),
            (CLIENT, "kube-apiserver-client-", &self.client_cert_file, &self.client_key_file),
            (
                LEGACY_UNKNOWN,
                "legacy-unknown-",
                &self.legacy_unknown_cert_file,
                &self.legacy_unknown_key_file,
            ),
        ];
        let shared = |signer| (signer, "", &self.cert_file, &self.key_file);
        let any_own = own.iter().any(|(.., certificate, key)| !certificate.is_empty() || !key.is_empty());
        let any_shared = !self.cert_file.is_empty() || !self.key_file.is_empty();
        let all = match (any_shared, any_own) {
            (true, true) => return Err(FlagError::Both),
            (false, _) => own,
            (true, false) if self.cert_file.is_empty() || self.key_file.is_empty() => {
                return Ok(BTreeMap::new());
            }
            (true, false) => own.map(|(signer, ..)| shared(signer)),
        };
        let mut files = BTreeMap::new();
        for (signer, infix, certificate, key) in all {
            let flag = |file: &str| format!("cluster-signing-{infix}{file}-file");
            let half = |given, missing| FlagError::Half { given: flag(given), missing: flag(missing) };
            match (certificate.is_empty(), key.is_empty()) {
                (true, true) => {}
                (false, false) => {
                    let certificate = (flag("cert"), certificate.into());
                    files.insert(signer, Files { certificate, key: (flag("key"), key.into()) });
                }
                (false, true) => return Err(half("cert", "key")),
                (true, false) => return Err(half("key", "cert")),
            }
        }
        Ok(files)
    }
}

/// Makes the controller.
///
/// # Errors
/// The flags do not fit together, a file has no usable authority, or the cache runs already without the fields that the
/// controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let options = context.options::<CsrSigningOptions>();
    let files = options.files()?;
    if files.is_empty() {
        return Ok(Construction::declined(
            "no --cluster-signing-cert-file with its --cluster-signing-key-file was specified",
        ));
    }
    let mut authorities: BTreeMap<&'static str, Arc<Authority>> = BTreeMap::new();
    for (signer, files) in files {
        let known = authorities.values().find(|authority| *authority.files() == files).cloned();
        let authority = known.map_or_else(|| Authority::load(files).map(Arc::new), Ok)?;
        authorities.insert(signer, authority);
    }
    let requests = context.informers.informer::<SignableRequest>()?;
    let queue = queue(context);
    let keys = queue.clone();
    let signers: Vec<_> = authorities.keys().copied().collect();
    requests.map(move |change| match change {
        Change::Added { object: request, .. }
        | Change::Updated { new: request, .. }
        | Change::Resync { object: request }
            if is_signable(request, &signers) =>
        {
            keys.add(change.key().clone());
        }
        _ => {}
    });
    let workers = WORKERS * authorities.len();
    let controller = controller::SigningController {
        requests: requests.lister(),
        client: Client::new(context.client_for("certificate-controller")),
        authorities,
        duration: options.duration,
        clock: context.clock.clone(),
    };
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(workers).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [requests.any()]))
}

/// Whether a request of one of these signers has been approved, and waits for its certificate.
fn is_signable(request: &View<SignableRequest>, signers: &[&'static str]) -> bool {
    let status = request.get::<RequestStatus>();
    signers.contains(&&*request.get::<RequestSpec>().signer_name)
        && status.is_approved()
        && !status.is_denied()
        && !status.has_failed()
        && !status.certificate.is_issued
}

/// A queue with the back-off of upstream's controllers of requests: from 200 ms to 1,000 s.
pub(super) fn queue<K: Key>(context: &ControllerContext) -> WorkQueue<K> {
    const QPS: NonZeroU32 = NonZeroU32::new(10).expect("10 is not zero");
    const BURST: NonZeroU32 = NonZeroU32::new(100).expect("100 is not zero");
    let each = ItemExponential::new(Duration::from_millis(200), Duration::from_secs(1000));
    let all: Vec<Box<dyn RateLimiter<K>>> = vec![Box::new(each), Box::new(TokenBucket::new(QPS, BURST))];
    context.queue_with(QueueConfig::new("certificate").limiter(MaxOf::new(all)))
}
