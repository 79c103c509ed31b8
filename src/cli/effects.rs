//! What upstream's flags that have no effect here would have changed: a sentence for each.
//!
//! The [flags without effect](super::upstream) have their sentence here, so that the warning at the start and README's table can
//! say what is missing.

/// What becomes of a flag without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// kube-controller-manager 1.36 reads the flag as well, and does nothing with it.
    NoneUpstream,
    /// What the flag asks for holds anyway, for this reason.
    Given(&'static str),
    /// The flag would have changed something, but for the values of `unless`.
    Missing {
        /// What the flag would have done: the rest of a sentence that begins with the flag.
        would: &'static str,
        /// Values that ask for what this program does anyway.
        unless: &'static [&'static str],
    },
}

const fn would(flag: &'static str, would: &'static str) -> (&'static str, Effect) {
    (flag, Effect::Missing { would, unless: &[] })
}

const fn would_unless(
    flag: &'static str,
    unless: &'static [&'static str],
    would: &'static str,
) -> (&'static str, Effect) {
    (flag, Effect::Missing { would, unless })
}

const fn nothing(flag: &'static str) -> (&'static str, Effect) {
    (flag, Effect::NoneUpstream)
}

const fn given(flag: &'static str, why: &'static str) -> (&'static str, Effect) {
    (flag, Effect::Given(why))
}

/// What becomes of a flag, if it is one of those without effect.
pub(crate) fn effect_of(flag: &str) -> Option<Effect> {
    EFFECTS.iter().find(|(name, _)| *name == flag).map(|(_, effect)| *effect)
}

/// Sorted by name.
pub(crate) const EFFECTS: &[(&str, Effect)] = &[
    would("allow-metric-labels", "would replace other values of these labels by \"unexpected\""),
    would("allow-metric-labels-manifest", "would replace other values of these labels by \"unexpected\""),
    nothing("allow-untagged-cloud"),
    would(
        "authentication-kubeconfig",
        "would name the API server that authenticates clients of the secure port",
    ),
    would_unless(
        "authentication-skip-lookup",
        &["false"],
        "would keep the secure port from reading its settings for authentication in the cluster",
    ),
    would("authentication-token-webhook-cache-ttl", "would limit how long the secure port remembers tokens"),
    would_unless(
        "authentication-tolerate-lookup-failure",
        &["false"],
        "would open the secure port without its settings for authentication in the cluster",
    ),
    would("authorization-always-allow-paths", "would open these paths of the secure port to all clients"),
    would("authorization-kubeconfig", "would name the API server that authorizes clients of the secure port"),
    would(
        "authorization-webhook-cache-authorized-ttl",
        "would limit how long the secure port remembers a yes",
    ),
    would(
        "authorization-webhook-cache-unauthorized-ttl",
        "would limit how long the secure port remembers a no",
    ),
    would("bind-address", "would choose the secure port's address; plain HTTP is at --http-address"),
    would("cert-dir", "would keep the certificate that the secure port makes for itself"),
    would("client-ca-file", "would let clients with certificates of this authority use the secure port"),
    nothing("cloud-config"),
    would_unless(
        "cloud-provider",
        &["", "external"],
        "would be refused: kube-controller-manager knows no provider",
    ),
    nothing("cluster-name"),
    nothing("concurrent-service-syncs"),
    would(
        "concurrent-validating-admission-policy-status-syncs",
        "would set how many ValidatingAdmissionPolicies are type-checked at a time; none is",
    ),
    nothing("configure-cloud-routes"),
    would_unless("contention-profiling", &["false"], "would measure where threads wait for locks"),
    would_unless("disable-http2-serving", &["false"], "would have the secure port speak HTTP/1.1 only"),
    would_unless(
        "emulated-version",
        &["1.36", "kube=1.36"],
        "would give feature gates the defaults that they had in that version",
    ),
    would_unless("enable-hostpath-provisioner", &["false"], "would make volumes of folders of this machine"),
    would_unless(
        "enable-leader-migration",
        &["false"],
        "would hand controllers of cloud providers over to another manager, of which there are none here",
    ),
    nothing("external-cloud-volume-plugin"),
    would("flex-volume-plugin-dir", "would name the folder with programs that attach volumes"),
    would(
        "http2-max-streams-per-connection",
        "would limit the requests at a time on a connection to the secure port",
    ),
    would_unless(
        "kube-api-content-type",
        &["application/vnd.kubernetes.protobuf"],
        "would set the encoding of all requests; each request here has the one that suits it",
    ),
    would("leader-migration-config", "would name the controllers that another manager takes over"),
    given("log-flush-frequency", "each line of the log is written at once"),
    would("log-json-info-buffer-size", "would collect lines of the log before they are written"),
    would_unless(
        "log-json-split-stream",
        &["false"],
        "would write errors to standard error and the rest to standard output",
    ),
    would("log-text-info-buffer-size", "would collect lines of the log before they are written"),
    would_unless(
        "log-text-split-stream",
        &["false"],
        "would write errors to standard error and the rest to standard output",
    ),
    would_unless(
        "min-compatibility-version",
        &["1.35", "1.36", "kube=1.35", "kube=1.36"],
        "would switch off features that components of that version lack",
    ),
    nothing("node-sync-period"),
    would_unless(
        "permit-address-sharing",
        &["false"],
        "would let the secure port share its address with other programs",
    ),
    would_unless(
        "permit-port-sharing",
        &["false"],
        "would let the secure port be opened by several programs",
    ),
    would_unless("profiling", &["false"], "would serve profiles of a Go program on the secure port"),
    would("pv-recycler-increment-timeout-nfs", "would give recyclers of NFS volumes more time for each GiB"),
    would(
        "pv-recycler-minimum-timeout-hostpath",
        "would set the least time of recyclers of hostPath volumes",
    ),
    would("pv-recycler-minimum-timeout-nfs", "would set the least time of recyclers of NFS volumes"),
    would(
        "pv-recycler-pod-template-filepath-hostpath",
        "would name the template of recyclers of hostPath volumes",
    ),
    would("pv-recycler-pod-template-filepath-nfs", "would name the template of recyclers of NFS volumes"),
    would(
        "pv-recycler-timeout-increment-hostpath",
        "would give recyclers of hostPath volumes more time for each GiB",
    ),
    would(
        "requestheader-allowed-names",
        "would name the proxies that may vouch for users of the secure port",
    ),
    would(
        "requestheader-client-ca-file",
        "would name the authority of proxies that vouch for users of the secure port",
    ),
    would(
        "requestheader-extra-headers-prefix",
        "would name headers in which proxies vouch for users of the secure port",
    ),
    would(
        "requestheader-group-headers",
        "would name headers in which proxies vouch for users of the secure port",
    ),
    would(
        "requestheader-uid-headers",
        "would name headers in which proxies vouch for users of the secure port",
    ),
    would(
        "requestheader-username-headers",
        "would name headers in which proxies vouch for users of the secure port",
    ),
    nothing("route-reconciliation-period"),
    would_unless("secure-port", &["0"], "would serve HTTPS at this port; plain HTTP is at --http-address"),
    would(
        "show-hidden-metrics-for-version",
        "would show metrics that upstream has withdrawn; there are none here",
    ),
    would("tls-cert-file", "would name the certificate of the secure port"),
    would("tls-cipher-suites", "would limit the ciphers of the secure port"),
    would("tls-curve-preferences", "would choose the key exchanges of the secure port"),
    would("tls-min-version", "would set the least version of TLS at the secure port"),
    would("tls-private-key-file", "would name the key of the secure port"),
    would("tls-sni-cert-key", "would name further certificates of the secure port"),
];
