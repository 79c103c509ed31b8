mod cidr_set;
mod ledger;
mod plan;
mod property;
mod settings;

use ipnet::IpNet;

use super::ledger::Ledger;
use super::settings::Settings;

fn range(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// A ledger over these cluster ranges, each with the prefix of its blocks, beside these ranges of services.
fn ledger(clusters: &[(&str, i32)], services: &[&str]) -> Ledger {
    let clusters = clusters.iter().map(|(cluster, prefix)| (range(cluster), *prefix)).collect();
    Ledger::new(&Settings { clusters, services: services.iter().map(|text| range(text)).collect() }).unwrap()
}
