//! The labels of nodes that have an older name as well.

use steersman_api::ArcStr;
use steersman_api::meta::Labels;

/// The stable label, which is the source of truth, and the older one.
const PAIRS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// The older labels that a node lacks or that differ from the stable ones. Upstream's `reconcileNodeLabels`.
pub fn outdated(labels: &Labels) -> Vec<(&'static str, ArcStr)> {
    let differs = |(stable, beta): (&str, &'static str)| {
        let value = labels.get(stable)?;
        (labels.get(beta) != Some(value)).then(|| (beta, value.clone()))
    };
    PAIRS.into_iter().filter_map(differs).collect()
}
