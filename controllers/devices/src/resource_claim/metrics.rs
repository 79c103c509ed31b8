//! The controller's metrics, under upstream's names.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, IntCounterVec, IntGaugeVec, Opts, Registry};
use steersman_informer::Lister;
use steersman_kinds::device_allocation::Reservations;
use steersman_kinds::resource_claim::{ClaimRequests, ExtendedResources, Origin};

use super::SyncedClaim;

/// Counts claims and their creations.
pub(super) struct Metrics {
    creates: IntCounterVec,
}

/// Counts the claims of the cache at each scrape.
struct ClaimCollector {
    claims: Lister<SyncedClaim>,
    /// Describes the metric.
    described: IntGaugeVec,
}

/// `true` or `false`, as the value of a label.
fn label(is: bool) -> &'static str {
    if is { "true" } else { "false" }
}

impl Metrics {
    /// Makes the metrics and serves them from `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub(super) fn register(registry: &Registry, claims: Lister<SyncedClaim>) -> Result<Self, Error> {
        let creates = IntCounterVec::new(
            Opts::new(
                "resourceclaim_controller_creates_total",
                "[ALPHA] Number of ResourceClaims creation requests, categorized by creation status and admin access",
            ),
            &["status", "admin_access"],
        )?;
        registry.register(Box::new(creates.clone()))?;
        registry.register(Box::new(ClaimCollector { claims, described: gauge() }))?;
        Ok(Self { creates })
    }

    /// Counts a request to create a claim.
    pub(super) fn created(&self, admin_access: bool, succeeded: bool) {
        let status = if succeeded { "success" } else { "failure" };
        self.creates.with_label_values(&[status, label(admin_access)]).inc();
    }
}

fn gauge() -> IntGaugeVec {
    let opts = Opts::new(
        "resourceclaim_controller_resource_claims",
        "[ALPHA] Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be \
         'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty (manually \
         created by a user).",
    );
    let labels = ["allocated", "admin_access", "source"];
    IntGaugeVec::new(opts, &labels).expect("a constant metric description must be valid")
}

impl Collector for ClaimCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.described.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Scrapes may overlap, so each has its own gauge.
        let gauge = gauge();
        for claim in self.claims.list_readable().0 {
            let source = if claim.get::<ExtendedResources>().mark.0 {
                "extended_resource"
            } else if claim.get::<Origin>().pod_claim.0.as_ref().is_some_and(|name| !name.is_empty()) {
                "resource_claim_template"
            } else {
                ""
            };
            let allocated = claim.get::<Reservations>().allocation.0;
            let admin_access = claim.get::<ClaimRequests>().requests.admin_access;
            gauge.with_label_values(&[label(allocated), label(admin_access), source]).inc();
        }
        gauge.collect()
    }
}
