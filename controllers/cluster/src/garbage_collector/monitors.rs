//! Watches every kind that can be listed, watched and deleted, as discovery finds them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use steersman_api::GroupVersionResource;
use steersman_client::RestMapper;
use steersman_client::discovery::{Discovered, Resource};
use steersman_informer::factory::Lease;
use steersman_informer::{AnyInformer, MappingRegistration, SharedInformerFactory};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::collector::Collector;
use super::kinds::{Kind, KindId, Progress};
use super::metrics::Metrics;

/// The time between two discoveries. Upstream: `syncPeriod`.
const PERIOD: Duration = Duration::from_secs(30);
/// The wait after a discovery that failed while no kind is known.
const RETRY: Duration = Duration::from_secs(1);
/// How long the collector counts on the first list of a kind. Upstream: `initialSyncTimeout`.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time from the first kind that becomes overdue until the log names all overdue kinds in one line.
const GATHER: Duration = Duration::from_secs(1);
/// The number of discoveries in a row that must miss a kind before the collector forgets the kind. Behind a load
/// balancer, discovery may reach an API server that has just started and does not serve all kinds yet.
const MISSES: u8 = 3;
/// How often the collector checks whether a synced cache has reported all of its objects to the graph.
const LOOK: Duration = Duration::from_millis(20);

/// Makes the loop that watches kinds.
#[derive(Clone)]
pub(super) struct Watcher {
    pub(super) collector: Arc<Collector>,
    pub(super) informers: SharedInformerFactory,
    pub(super) mapper: Arc<RestMapper>,
    pub(super) metrics: Metrics,
    /// Tells of kinds whose first list is overdue, or complete after it was.
    pub(super) lists: Arc<Notify>,
}

impl Watcher {
    /// Watches until `stop` is cancelled. Then forgets everything: another process may collect garbage from then on.
    pub(super) async fn run(self, stop: CancellationToken) {
        let (begun, settling) = mpsc::unbounded_channel();
        let discover = async {
            let mut monitors = Monitors { watcher: &self, monitors: BTreeMap::new(), begun };
            let mut sick = BTreeSet::new();
            loop {
                match self.mapper.refresh().await {
                    Ok(discovered) => monitors.sync(&discovered),
                    Err(error) => {
                        self.metrics.sync_errors.inc();
                        tracing::warn!(%error, "Failed to discover resources");
                    }
                }
                let next = Instant::now() + if monitors.monitors.is_empty() { RETRY } else { PERIOD };
                while timeout_at(next, self.lists.notified()).await.is_ok() {
                    // One line for all kinds that are overdue at about the same time.
                    sleep(GATHER).await;
                    self.report_sick(&mut sick);
                }
            }
        };
        let both = async { tokio::join!(discover, settle(settling)) };
        let _never: Option<((), ())> = stop.run_until_cancelled(both).await;
    }

    /// Follows a kind until the graph has everything that its first list brought.
    async fn first_list(
        self,
        kind: KindId,
        informer: Arc<dyn AnyInformer>,
        registration: Arc<MappingRegistration>,
    ) {
        let listed = async {
            // The sender lives as long as the informer.
            let _ = informer.watch_synced().wait_for(|synced| *synced).await;
            while !registration.has_synced() {
                sleep(LOOK).await;
            }
        };
        tokio::pin!(listed);
        if timeout(PATIENCE, listed.as_mut()).await.is_ok() {
            self.collector.progressed(kind, Progress::Synced);
            return;
        }
        self.collector.progressed(kind, Progress::Overdue);
        self.lists.notify_one();
        listed.await;
        self.collector.progressed(kind, Progress::Synced);
        self.lists.notify_one();
    }

    /// Logs one line if the kinds whose first list is overdue have changed.
    fn report_sick(&self, reported: &mut BTreeSet<GroupVersionResource>) {
        let overdue = self.collector.kinds.at(Progress::Overdue);
        let sick: BTreeSet<_> = overdue.iter().map(|kind| kind.resource.clone()).collect();
        if sick.difference(reported).next().is_some() {
            self.metrics.sync_errors.inc();
            let kinds: Vec<_> = sick.iter().map(ToString::to_string).collect();
            tracing::warn!(
                ?kinds,
                "Kinds that can't be listed: their objects are not collected, and each orphaning deletion lists them again"
            );
        } else if sick.is_empty() && !reported.is_empty() {
            tracing::info!("All kinds have been listed");
        }
        *reported = sick;
    }
}

/// A watched kind.
struct Monitor {
    resource: GroupVersionResource,
    /// Keeps the cache.
    _lease: Lease,
    registration: Arc<MappingRegistration>,
    /// The number of the last discoveries that have missed the kind.
    missed: u8,
    /// Ends the wait for the first list.
    _settling: DropGuard,
}

/// The watched kinds. Dropping this forgets them all.
struct Monitors<'a> {
    watcher: &'a Watcher,
    monitors: BTreeMap<KindId, Monitor>,
    begun: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
}

impl Monitors<'_> {
    /// Watches the kinds that discovery found, and forgets those that [`MISSES`] discoveries in a row have missed.
    /// `discovered` still has the kinds of groups that do not respond.
    fn sync(&mut self, discovered: &Discovered) {
        let collector = &self.watcher.collector;
        let wanted = self.wanted(discovered);
        if wanted.is_empty() {
            self.watcher.metrics.sync_errors.inc();
            tracing::warn!("Discovery found no kind that can be listed, watched and deleted");
            return;
        }
        let mut gone = Vec::new();
        for (id, monitor) in &mut self.monitors {
            monitor.missed = if wanted.contains_key(id) { 0 } else { monitor.missed + 1 };
            if monitor.missed == MISSES {
                gone.push(*id);
            }
        }
        for id in &gone {
            self.stop(*id);
        }
        // All new kinds count as being listed before the first of them is: only then may an orphaning trust the graph.
        let mut new = Vec::new();
        for (id, resource) in wanted {
            if self.monitors.get(&id).is_some_and(|monitor| monitor.resource == resource.gvr) {
                continue;
            }
            let lease = self.watcher.informers.lease(&resource.gvr);
            let kind = Kind::new(id, &resource, Arc::clone(lease.informer()));
            match self.monitors.remove(&id) {
                None => collector.kinds.watch(kind),
                // Another version of the kind.
                Some(old) => {
                    old.registration.remove();
                    collector.replace(kind);
                }
            }
            new.push((id, resource, lease));
        }
        if !gone.is_empty() || !new.is_empty() {
            tracing::debug!(added = new.len(), removed = gone.len(), "Watched kinds have changed");
        }
        for (id, resource, lease) in new {
            self.start(id, resource.gvr.clone(), lease);
        }
    }

    /// The kinds to watch: those that can be deleted, listed and watched, but events. Each in the version that the API server
    /// prefers, or in the one that another controller caches already.
    fn wanted(&self, discovered: &Discovered) -> BTreeMap<KindId, Arc<Resource>> {
        let mut cached = HashMap::new();
        for informer in self.watcher.informers.permanent_informers() {
            let GroupVersionResource { group, version, resource } = informer.resource().clone();
            cached.insert((group, resource), version);
        }
        let in_version: HashMap<_, _> =
            discovered.resources().map(|resource| (&resource.gvr, resource)).collect();
        let collected = discovered.preferred_resources().filter(|resource| is_collected(resource));
        let numbered = collected.filter_map(|resource| {
            let GroupVersionResource { group, resource: name, .. } = resource.gvr.clone();
            let id = self.watcher.collector.kinds.number(&resource.gvr)?;
            let version = cached.get(&(group.clone(), name.clone()));
            let shared = version.map(|version| GroupVersionResource::new(group, version.clone(), name));
            let shared = shared.and_then(|shared| in_version.get(&shared).copied());
            Some((id, Arc::clone(shared.unwrap_or(resource))))
        });
        numbered.collect()
    }

    fn start(&mut self, id: KindId, resource: GroupVersionResource, lease: Lease) {
        let collector = Arc::clone(&self.watcher.collector);
        let registration = lease.informer().map_meta(Box::new(move |change| collector.changed(id, change)));
        lease.start();
        let registration = Arc::new(registration);
        let stop = CancellationToken::new();
        let first_list =
            self.watcher.clone().first_list(id, Arc::clone(lease.informer()), Arc::clone(&registration));
        let settling = Box::pin({
            let stop = stop.clone();
            async move { _ = stop.run_until_cancelled(first_list).await }
        });
        // The receiver is dropped at the end only.
        let _ = self.begun.send(settling);
        let _settling = stop.drop_guard();
        let monitor = Monitor { resource, _lease: lease, registration, missed: 0, _settling };
        self.monitors.insert(id, monitor);
    }

    fn stop(&mut self, id: KindId) {
        if let Some(monitor) = self.monitors.remove(&id) {
            monitor.registration.remove();
            self.watcher.collector.forget(id);
        }
    }
}

impl Drop for Monitors<'_> {
    fn drop(&mut self) {
        self.monitors.values().for_each(|monitor| monitor.registration.remove());
        self.watcher.collector.clear();
    }
}

/// Whether the collector works on a resource. Upstream ignores events too: `DefaultIgnoredResources`.
fn is_collected(resource: &Resource) -> bool {
    let is_event = resource.gvr.resource == "events" && ["", "events.k8s.io"].contains(&&*resource.gvr.group);
    !is_event && ["delete", "list", "watch"].iter().all(|verb| resource.supports(verb))
}

/// Waits for the first lists of kinds, as they come.
async fn settle(mut begun: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>) {
    let mut settling = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(one) = begun.recv() => settling.push(one),
            Some(()) = settling.next() => {}
            else => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use steersman_apiserver::TestServer;
    use steersman_client::discovery::{Group, Version};
    use steersman_controller::options::OptionSet;
    use steersman_controller::testing::context;

    use super::super::testing::{collector, resource};
    use super::*;

    /// The result of a discovery that found these resources of the core group.
    fn found(resources: &[(&str, &str)]) -> Discovered {
        let resources = resources.iter().map(|(name, kind)| Arc::new(resource(name, kind))).collect();
        let version = Version { name: "v1".into(), resources };
        Discovered {
            groups: vec![Group { name: "".into(), versions: vec![version] }],
            ..Discovered::default()
        }
    }

    #[tokio::test]
    async fn a_kind_is_forgotten_once_three_discoveries_in_a_row_miss_it() {
        let server = TestServer::start().await;
        let (context, _writers) = context(&server, OptionSet::default());
        let watcher = Watcher {
            collector: Arc::new(collector(&context)),
            informers: context.informers.clone(),
            mapper: Arc::clone(&context.rest_mapper),
            metrics: Metrics::new(),
            lists: Arc::default(),
        };
        let (begun, _settling) = mpsc::unbounded_channel();
        let mut monitors = Monitors { watcher: &watcher, monitors: BTreeMap::new(), begun };
        let [pods, secrets] = [("pods", "Pod"), ("secrets", "Secret")];
        let (both, one) = (found(&[pods, secrets]), found(&[pods]));
        for (discovered, watched) in
            [(&both, 2), (&one, 2), (&one, 2), (&both, 2), (&one, 2), (&one, 2), (&one, 1), (&both, 2)]
        {
            monitors.sync(discovered);
            assert_eq!(watcher.collector.kinds.watched().len(), watched);
        }
    }
}
