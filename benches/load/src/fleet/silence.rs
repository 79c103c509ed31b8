//! What becomes of the pods of nodes that fall silent.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use kube_runtime::watcher::{self, Event, watcher};
use tokio::time::Instant;

use super::{Fleet, SILENT, node_name};
use crate::{Error, report};

/// How long after its node was heard last a pod was marked as not ready, and evicted.
#[derive(Debug, Default, Clone, Copy)]
struct Fate {
    marked: Option<Duration>,
    evicted: Option<Duration>,
}

/// Watches the pods of the silent nodes until all are evicted, and prints the times; then how many pods of other nodes are
/// evicted as well.
pub(super) async fn watch(client: &Client, fleet: Fleet, heard: &[Instant]) -> Result<(), Error> {
    let heard: BTreeMap<_, _> =
        heard.iter().enumerate().map(|(number, at)| (node_name(number), *at)).collect();
    let all = Api::<Pod>::all(client.clone());
    let mut events =
        watcher(all.clone(), watcher::Config::default().labels(&format!("{SILENT}=true"))).boxed();
    let (mut fates, mut listed) = (BTreeMap::new(), false);
    while !listed || fates.values().any(|fate: &Fate| fate.evicted.is_none()) {
        let Some(event) = events.try_next().await? else { break };
        let (pod, gone) = match event {
            Event::Apply(pod) | Event::InitApply(pod) => (pod, false),
            Event::Delete(pod) => (pod, true),
            Event::Init => continue,
            Event::InitDone => {
                listed = true;
                continue;
            }
        };
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        let since = heard.get(node).map(Instant::elapsed).unwrap_or_default();
        let fate = fates.entry((pod.namespace(), pod.name_any())).or_insert_with(Fate::default);
        if !is_ready(&pod) && fate.marked.is_none() {
            fate.marked = Some(since);
        }
        if (gone || pod.metadata.deletion_timestamp.is_some()) && fate.evicted.is_none() {
            fate.evicted = Some(since);
        }
    }
    print("marked", fates.values().filter_map(|fate| fate.marked), fates.len());
    print("evicted", fates.values().filter_map(|fate| fate.evicted), fates.len());
    let others = all.list_metadata(&ListParams::default().labels(&format!("{SILENT}=false"))).await?;
    let left = others.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).count();
    let there = (0..fleet.pods).filter(|number| number % fleet.nodes >= fleet.silent).count();
    report(&format!("evicted from other nodes: {}", there - left));
    Ok(())
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Prints when the first, the median and the last pod met its fate, in ms, and how many of all did.
fn print(what: &str, times: impl Iterator<Item = Duration>, all: usize) {
    let mut times: Vec<_> = times.map(|time| time.as_millis()).collect();
    times.sort_unstable();
    let at = |index: usize| times.get(index).copied().unwrap_or_default();
    let (first, median, last) = (at(0), at(times.len() / 2), at(times.len().saturating_sub(1)));
    report(&format!("{what} {} of {all}: {first} {median} {last}", times.len()));
}
