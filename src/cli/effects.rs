//! What upstream's flags that have no effect here would have changed: a sentence for each.
//!
//! The [flags without effect](super::upstream) have their sentence here, so that the warning at the start and the book's table
//! can say what is missing.

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
    nothing("route-reconciliation-period"),
    would(
        "show-hidden-metrics-for-version",
        "would show metrics that upstream has withdrawn; there are none here",
    ),
];
