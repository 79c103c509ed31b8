use std::time::Duration;

use serde_json::{Value, json};
use steersman_api::{ObjectKey, Status};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::*;
use crate::index::{BY_NAMESPACE, by_namespace};
use crate::list_watch::Error;
use crate::processor::Event;
use crate::testing::ScriptedSource;
use crate::{Interned, keep, kind, projection};

projection! {
    struct Spec { pub node: Interned = 10 "nodeName" }
    struct PodStatus { pub phase: Interned = 1 "phase" }
}
kind! { struct Pod("", "v1", "pods") { spec: Spec = 2 "spec", status: PodStatus = 3 "status" } }
keep! { struct Placed: Pod => Spec }
keep! { struct Phased: Pod => PodStatus }

fn pod(name: &str, node: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default", "uid": name }, "spec": { "nodeName": node } })
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// An informer at work over a scripted source.
struct Scene {
    source: ScriptedSource<Pod>,
    shared: Arc<SharedInformer<Pod>>,
    informer: Informer<Placed>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Scene {
    fn new(config: Config) -> Self {
        let source = ScriptedSource::default();
        let resource = GroupVersionResource::new("", "v1", "pods");
        let shared = SharedInformer::new(Arc::new(source.clone()), resource, config);
        let informer = shared.select().unwrap();
        Self { source, shared, informer, stop: CancellationToken::new(), tasks: JoinSet::new() }
    }

    fn start(&mut self) {
        self.tasks.spawn(Arc::clone(&self.shared).run(self.stop.clone()));
    }

    async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let wait = async {
            while !condition(self) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait)
            .await
            .unwrap_or_else(|_| panic!("timed out: {what}"));
    }

    async fn until_seen(&self) {
        self.until("the newest version is seen", |scene| {
            scene.informer.last_sync_resource_version() >= scene.source.version()
        })
        .await;
    }

    /// Adds a mapping that reports each change it gets.
    fn mapped(&self) -> mpsc::UnboundedReceiver<String> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.informer.map(move |change| _ = sender.send(in_words(change)));
        receiver
    }

    /// Adds a handler that reports each event it gets.
    fn handled(&self, resync: Option<Duration>) -> (Registration, mpsc::UnboundedReceiver<String>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let handler = move |event: Event<Placed>| {
            let node = |view: &View<Placed>| format!("{}@{}", view.meta().key.name, view.get::<Spec>().node);
            let _ = sender.send(match event {
                Event::Added { object, initial: true } => format!("initial {}", node(&object)),
                Event::Added { object, .. } => format!("+{}", node(&object)),
                Event::Updated { old, new } => format!("{}>{}", node(&old), node(&new)),
                Event::Deleted { last } => format!("-{}", node(&last)),
            });
        };
        (self.informer.add_handler(handler, resync), receiver)
    }
}

fn in_words(change: &Change<Placed>) -> String {
    let name = &change.key().name;
    match change {
        Change::Added { initial: true, .. } => format!("initial {name}"),
        Change::Added { .. } => format!("+{name}"),
        Change::Updated { .. } => format!("~{name}"),
        Change::Deleted { .. } => format!("-{name}"),
        Change::Resync { .. } => format!("resync {name}"),
    }
}

async fn next(told: &mut mpsc::UnboundedReceiver<String>) -> String {
    let told = tokio::time::timeout(Duration::from_secs(3600), told.recv()).await;
    told.expect("something must be told within an hour").expect("the teller must live")
}

#[tokio::test(start_paused = true)]
async fn the_cache_follows_its_source() {
    let mut scene = Scene::new(Config::default());
    scene.source.apply(pod("a", "n1"));
    let index = scene.informer.add_index(BY_NAMESPACE, by_namespace);
    scene.start();
    scene.informer.synced().await;
    let lister = scene.informer.lister();
    assert_eq!(&lister.get(&key("a")).unwrap().unwrap().get::<Spec>().node, "n1");
    scene.source.apply(pod("a", "n2"));
    scene.source.apply(pod("b", "n2"));
    scene.until_seen().await;
    assert_eq!(&lister.get(&key("a")).unwrap().unwrap().get::<Spec>().node, "n2");
    assert_eq!(lister.by_index(&index, &"default".into()).unwrap().len(), 2);
    scene.source.delete(&key("a"));
    scene.until_seen().await;
    assert!(lister.get(&key("a")).unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn it_has_synced_only_when_the_first_list_is_told() {
    let mut scene = Scene::new(Config::default());
    scene.source.apply(pod("a", "n1"));
    scene.source.apply(pod("b", "n1"));
    scene.source.break_list_after(1);
    let mut told = scene.mapped();
    scene.start();
    assert_eq!(next(&mut told).await, "initial a");
    assert!(!scene.informer.has_synced());
    scene.informer.synced().await;
    let mut rest = Vec::new();
    while let Ok(more) = told.try_recv() {
        rest.push(more);
    }
    assert_eq!(rest, ["initial b"], "what came unchanged with the second list is not told again");
}

#[tokio::test(start_paused = true)]
async fn a_mapping_reads_a_cache_that_holds_the_change_already() {
    let mut scene = Scene::new(Config::default());
    let (sender, mut seen) = mpsc::unbounded_channel();
    let lister = scene.informer.lister();
    scene
        .informer
        .map(move |change| _ = sender.send(lister.get(change.key()).unwrap().is_some().to_string()));
    scene.start();
    scene.source.apply(pod("a", "n1"));
    assert_eq!(next(&mut seen).await, "true");
    scene.source.delete(&key("a"));
    assert_eq!(next(&mut seen).await, "false");
}

#[tokio::test(start_paused = true)]
async fn late_users_are_first_told_of_all_that_is_cached() {
    let mut scene = Scene::new(Config::default());
    scene.source.apply(pod("a", "n1"));
    scene.start();
    scene.informer.synced().await;
    let mut mapped = scene.mapped();
    let (registration, mut handled) = scene.handled(None);
    assert_eq!(next(&mut mapped).await, "initial a");
    assert_eq!(next(&mut handled).await, "initial a@n1");
    scene.until("the handler has synced", |_| registration.has_synced()).await;
    scene.source.apply(pod("b", "n1"));
    assert_eq!(next(&mut mapped).await, "+b");
    assert_eq!(next(&mut handled).await, "+b@n1");
}

#[tokio::test(start_paused = true)]
async fn a_removed_handler_is_told_nothing_any_more() {
    let mut scene = Scene::new(Config::default());
    let (registration, mut handled) = scene.handled(None);
    scene.start();
    scene.informer.synced().await;
    scene.source.apply(pod("a", "n1"));
    assert_eq!(next(&mut handled).await, "+a@n1");
    registration.remove();
    scene.source.apply(pod("b", "n1"));
    assert_eq!(handled.recv().await, None, "the handler itself is gone");
}

#[tokio::test(start_paused = true)]
async fn each_handler_is_resynced_in_its_own_time() {
    let mut scene = Scene::new(Config { resync: Some(Duration::from_secs(900)), ..Config::default() });
    scene.source.apply(pod("a", "n1"));
    let mut mapped = scene.mapped();
    let (_never, mut quiet) = scene.handled(None);
    let (_often, mut often) = scene.handled(Some(Duration::from_secs(60)));
    scene.start();
    assert_eq!(next(&mut mapped).await, "initial a");
    assert_eq!(next(&mut often).await, "initial a@n1");
    assert_eq!(next(&mut quiet).await, "initial a@n1");
    assert_eq!(next(&mut mapped).await, "resync a");
    for _ in 0..14 {
        assert_eq!(often.try_recv().unwrap(), "a@n1>a@n1");
    }
    assert!(quiet.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_resync_period_of_zero_is_never_and_none_is_shorter_than_a_second() {
    let mut scene = Scene::new(Config { resync: Some(Duration::ZERO), ..Config::default() });
    scene.source.apply(pod("a", "n1"));
    let mut mapped = scene.mapped();
    let (_never, mut never) = scene.handled(Some(Duration::ZERO));
    let (_ages, mut ages) = scene.handled(Some(Duration::MAX));
    let (_often, mut often) = scene.handled(Some(Duration::from_nanos(1)));
    scene.start();
    for told in [&mut never, &mut ages, &mut often] {
        assert_eq!(next(told).await, "initial a@n1");
    }
    assert_eq!(next(&mut mapped).await, "initial a");
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert_eq!(often.len(), 3);
    assert!(never.is_empty() && ages.is_empty() && mapped.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_new_list_changes_is_told_once_more_when_the_cache_has_reached_its_version() {
    let mut scene = Scene::new(Config::default());
    scene.source.apply(pod("a", "n1"));
    scene.source.apply(pod("b", "n1"));
    let (sender, mut told) = mpsc::unbounded_channel();
    let informer = scene.informer.clone();
    scene.informer.map(move |change| {
        let reached = informer.last_sync_resource_version() >= change.newest().meta().resource_version;
        _ = sender.send(format!("{} {reached}", in_words(change)));
    });
    scene.start();
    assert_eq!(next(&mut told).await, "initial a false");
    assert_eq!(next(&mut told).await, "initial b false");
    scene.source.end_watches();
    scene.source.apply(pod("a", "n2"));
    scene.source.compact();
    assert_eq!(next(&mut told).await, "~a false");
    assert_eq!(next(&mut told).await, "resync a true");
    scene.until_seen().await;
    assert!(told.is_empty(), "b is unchanged");
}

#[tokio::test(start_paused = true)]
async fn a_mapping_that_panics_harms_nobody_else() {
    let mut scene = Scene::new(Config::default());
    scene.informer.map(|_| panic!("as this test wants"));
    let mut mapped = scene.mapped();
    scene.start();
    scene.source.apply(pod("a", "n1"));
    assert!(next(&mut mapped).await.ends_with('a'));
    scene.source.apply(pod("b", "n1"));
    assert!(next(&mut mapped).await.ends_with('b'));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_first_list_learns_that_it_will_not_come() {
    let mut scene = Scene::new(Config::default());
    // The streamed list, and the plain one that follows at once.
    for _ in 0..2 {
        scene.source.fail_list(Status::failure(403, "Forbidden", "no").into());
    }
    scene.start();
    let waiting = scene.informer.clone();
    let mut waiter = JoinSet::new();
    waiter.spawn(async move { waiting.synced().await });
    tokio::task::yield_now().await;
    assert!(!scene.shared.is_stopped());
    scene.shared.stop();
    assert!(!waiter.join_next().await.unwrap().unwrap());
    assert!(scene.shared.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn mappings_can_be_told_of_everything_again() {
    let mut scene = Scene::new(Config::default());
    scene.source.apply(pod("a", "n1"));
    let mut mapped = scene.mapped();
    scene.start();
    assert_eq!(next(&mut mapped).await, "initial a");
    scene.shared.resync();
    assert_eq!(next(&mut mapped).await, "resync a");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_harms_nobody_else() {
    let mut scene = Scene::new(Config::default());
    let panics = |_: Event<Placed>| panic!("as this test wants");
    let panicked = scene.informer.add_handler(panics, None);
    let (_, mut handled) = scene.handled(None);
    scene.start();
    scene.informer.synced().await;
    scene.source.apply(pod("a", "n1"));
    scene.source.apply(pod("b", "n1"));
    assert_eq!(next(&mut handled).await, "+a@n1");
    assert_eq!(next(&mut handled).await, "+b@n1");
    assert!(
        panicked.removed.is_cancelled(),
        "or its mailbox would grow for as long as the registration is held"
    );
}

#[tokio::test(start_paused = true)]
async fn a_selection_that_comes_after_the_start_gets_no_fields_that_were_not_kept() {
    let mut scene = Scene::new(Config::default());
    scene.start();
    scene.informer.synced().await;
    assert!(scene.shared.select::<Placed>().is_ok());
    assert_eq!(
        scene.shared.select::<Phased>().err(),
        Some(NotKept(GroupVersionResource::new("", "v1", "pods")))
    );
}

#[tokio::test(start_paused = true)]
async fn every_failed_list_is_told_to_the_hook() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&told);
    let on_watch_error: WatchErrorHook =
        Arc::new(move |_, error: &Error| hook.lock().push(error.to_string()));
    let mut scene = Scene::new(Config { on_watch_error: Some(on_watch_error), ..Config::default() });
    scene.source.fail_list(Status::failure(403, "Forbidden", "no").into());
    scene.start();
    scene.informer.synced().await;
    assert_eq!(*told.lock(), ["the API server answered: no (403 Forbidden)"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_every_task_and_leaves_the_cache_readable() {
    let mut scene = Scene::new(Config::default());
    scene.source.apply(pod("a", "n1"));
    let (_, mut handled) = scene.handled(None);
    scene.start();
    assert_eq!(next(&mut handled).await, "initial a@n1");
    scene.stop.cancel();
    scene.tasks.join_next().await.unwrap().unwrap();
    assert_eq!(handled.recv().await, None);
    assert_eq!(scene.informer.lister().len(), 1);
    scene.start();
    scene.tasks.join_next().await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn keys_and_owners_can_be_asked_for_whatever_the_kind() {
    let mut scene = Scene::new(Config::default());
    let mut owned = pod("a", "n1");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Job", "name": "j", "uid": "j1"}]);
    scene.source.apply(owned);
    let any: Arc<dyn AnyInformer> = scene.informer.any();
    let (sender, mut keys) = mpsc::unbounded_channel();
    any.map_meta(Box::new(move |change| _ = sender.send(change.key().to_string())));
    scene.start();
    assert_eq!(next(&mut keys).await, "default/a");
    assert_eq!(any.owned_by(&"j1".into()).len(), 1);
    assert_eq!(any.meta(&key("a")).unwrap().uid, "a".into());
    assert_eq!(any.meta_by_uid(&"a".into()).unwrap().key, key("a"));
}

#[tokio::test(start_paused = true)]
async fn mappings_by_metadata_see_the_old_and_the_new_metadata() {
    let mut scene = Scene::new(Config::default());
    let owned_by = |owner: &str| {
        let mut pod = pod("a", "n1");
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Job", "name": owner, "uid": owner}]);
        pod
    };
    scene.source.apply(owned_by("one"));
    let (sender, mut told) = mpsc::unbounded_channel();
    scene.shared.map_meta(Box::new(move |change| {
        let owner = |meta: &Meta| format!("{} of {}", meta.uid, meta.owners[0].uid);
        _ = sender.send(match change {
            MetaChange::Added { meta, initial } => format!("+{} initial {initial}", owner(meta)),
            MetaChange::Updated { old, new } => format!("{} > {}", owner(old), owner(new)),
            MetaChange::Deleted { last } => format!("-{}", owner(last)),
            MetaChange::Resync { meta } => format!("resync {}", owner(meta)),
        });
    }));
    scene.start();
    assert_eq!(next(&mut told).await, "+a of one initial true");
    scene.source.apply(owned_by("two"));
    assert_eq!(next(&mut told).await, "a of one > a of two");
    scene.shared.resync();
    assert_eq!(next(&mut told).await, "resync a of two");
    scene.source.delete(&key("a"));
    assert_eq!(next(&mut told).await, "-a of two");
}

#[tokio::test(start_paused = true)]
async fn a_removed_mapping_is_never_called_again_and_is_dropped() {
    let mut scene = Scene::new(Config::default());
    let (sender, mut told) = mpsc::unbounded_channel();
    let registration = scene.informer.map(move |change| _ = sender.send(in_words(change)));
    let (sender, mut never) = mpsc::unbounded_channel();
    scene.informer.map(move |change| _ = sender.send(in_words(change))).remove();
    let mut other = scene.mapped();
    assert!(!registration.has_synced());
    scene.start();
    scene.informer.synced().await;
    assert!(registration.has_synced());
    scene.source.apply(pod("a", "n1"));
    assert_eq!((next(&mut told).await, next(&mut other).await), ("+a".to_owned(), "+a".to_owned()));
    registration.remove();
    registration.remove();
    assert!(!registration.has_synced());
    scene.source.apply(pod("b", "n1"));
    assert_eq!(next(&mut other).await, "+b");
    assert_eq!(told.recv().await, None, "the mapping itself is gone");
    assert_eq!(never.recv().await, None, "one that was removed before the start is gone as well");
}

#[tokio::test(start_paused = true)]
async fn a_mapping_can_remove_itself() {
    let mut scene = Scene::new(Config::default());
    let (own, (sender, mut told)) =
        (Arc::new(Mutex::new(None::<MappingRegistration>)), mpsc::unbounded_channel());
    let registration = Arc::clone(&own);
    *own.lock() = Some(scene.informer.map(move |change| {
        _ = sender.send(in_words(change));
        registration.lock().take().expect("it must be called once").remove();
    }));
    let mut other = scene.mapped();
    scene.start();
    scene.source.apply(pod("a", "n1"));
    scene.source.apply(pod("b", "n1"));
    while !next(&mut other).await.ends_with('b') {}
    assert!(next(&mut told).await.ends_with('a'));
    assert_eq!(told.recv().await, None);
}

/// A call that is running holds `remove` up; afterwards no other begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_of_a_mapping_runs_once_its_removal_has_returned() {
    let mut scene = Scene::new(Config::default());
    let (running, calls) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (enter, mut entered) = mpsc::unbounded_channel();
    let (inside, called) = (Arc::clone(&running), Arc::clone(&calls));
    let registration = scene.informer.map(move |_| {
        inside.fetch_add(1, Ordering::SeqCst);
        called.fetch_add(1, Ordering::SeqCst);
        let _ = enter.send(());
        // Time for `remove` to come while this runs.
        (0..1000).for_each(|_| std::thread::yield_now());
        inside.fetch_sub(1, Ordering::SeqCst);
    });
    scene.start();
    for i in 0..100 {
        scene.source.apply(pod(&format!("pod-{i}"), "n1"));
    }
    entered.recv().await.expect("the mapping must be called");
    tokio::task::block_in_place(|| registration.remove());
    assert_eq!(running.load(Ordering::SeqCst), 0, "no call is running");
    let before = calls.load(Ordering::SeqCst);
    scene.until_seen().await;
    assert_eq!(scene.informer.lister().len(), 100);
    assert_eq!(calls.load(Ordering::SeqCst), before, "no call has begun since");
}

/// A mapping may wait for a lock whose holder asks whether the mapping has synced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_tells_whether_it_has_synced_while_its_mapping_runs() {
    let mut scene = Scene::new(Config::default());
    let lock = Arc::new(Mutex::new(()));
    let (enter, mut entered) = mpsc::unbounded_channel();
    let taken = Arc::clone(&lock);
    let registration = Arc::new(scene.informer.map(move |_| {
        let _ = enter.send(());
        drop(taken.lock());
    }));
    scene.source.apply(pod("a", "n1"));
    let (asked, is_asked) = (Arc::clone(&registration), std::sync::mpsc::channel());
    {
        let held = lock.lock();
        scene.start();
        tokio::task::block_in_place(|| entered.blocking_recv()).expect("the mapping must be called");
        std::thread::spawn(move || is_asked.0.send(asked.has_synced()));
        let answer = is_asked.1.recv_timeout(Duration::from_secs(60));
        drop(held);
        assert_eq!(answer, Ok(false), "the mapping has not ended");
    }
    scene.informer.synced().await;
    assert!(registration.has_synced());
}

/// A kind whose decoder panics.
#[derive(Debug)]
struct Trap;

impl Object for Trap {
    const REPRESENTATION: crate::wire::object::Representation = crate::wire::object::Representation::Json;

    fn resource() -> Option<GroupVersionResource> {
        None
    }
    fn meta(&self) -> &Meta {
        unreachable!("there never is one")
    }
    fn decode(_: &bytes::Bytes, _: crate::wire::Encoding, _: u64) -> Result<Self, crate::wire::DecodeError> {
        panic!("as this test wants")
    }
    fn unreadable(_: Meta) -> Self {
        Self
    }
    fn with_meta(&self, _: Meta) -> Self {
        Self
    }
}

impl Selection for Trap {
    type Kind = Self;
    const GROUPS: u64 = 0;
}

#[tokio::test(start_paused = true)]
async fn a_cache_whose_informer_panicked_has_not_synced() {
    let source = ScriptedSource::<Trap>::default();
    let resource = GroupVersionResource::new("", "v1", "traps");
    let shared = SharedInformer::new(Arc::new(source.clone()), resource, Config::default());
    let informer = shared.select::<Trap>().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&shared).run(CancellationToken::new()));
    assert!(informer.synced().await);
    let mut synced = AnyInformer::watch_synced(&*shared);
    source.apply(json!({ "metadata": { "name": "a" } }));
    assert!(tasks.join_next().await.unwrap().unwrap_err().is_panic());
    assert!(shared.is_stopped() && shared.has_panicked());
    assert!(!informer.has_synced());
    assert!(!*synced.borrow_and_update(), "waiting callers are notified");
}

#[tokio::test(start_paused = true)]
async fn an_index_function_that_panics_harms_only_reads_of_its_index() {
    let mut scene = Scene::new(Config::default());
    let by_node = scene.informer.add_index("node", |pod| {
        let node = &pod.get::<Spec>().node;
        assert_ne!(node.as_arc().as_str(), "trap", "as this test wants");
        vec![node.as_arc().clone().into()]
    });
    scene.start();
    scene.source.apply(pod("a", "n1"));
    scene.source.apply(pod("b", "trap"));
    scene.source.apply(pod("c", "n1"));
    scene.until_seen().await;
    assert!(scene.informer.has_synced());
    let lister = scene.informer.lister();
    assert_eq!(lister.len(), 3);
    assert_eq!(lister.by_index(&by_node, &"n1".into()).unwrap_err().key, key("b"));
    scene.source.apply(pod("b", "n1"));
    scene.until_seen().await;
    assert_eq!(lister.by_index(&by_node, &"n1".into()).unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_harms_nobody() {
    let on_watch_error: WatchErrorHook = Arc::new(|_, _| panic!("as this test wants"));
    let mut scene = Scene::new(Config { on_watch_error: Some(on_watch_error), ..Config::default() });
    scene.source.fail_list(Status::failure(403, "Forbidden", "no").into());
    scene.start();
    assert!(scene.informer.synced().await);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_update_has_the_newest_metadata_and_the_last_body_that_could_be_read() {
    let mut scene = Scene::new(Config::default());
    scene.source.apply(pod("a", "n1"));
    let mut told = scene.mapped();
    scene.start();
    scene.informer.synced().await;
    assert_eq!(next(&mut told).await, "initial a");
    let (_, mut handled) = scene.handled(None);
    let mut damaged = pod("a", "n2");
    damaged["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    damaged["metadata"]["labels"] = json!({ "app": "web" });
    damaged["spec"] = json!("nonsense");
    scene.source.apply(damaged);
    assert_eq!(next(&mut told).await, "~a");
    let meta = scene.shared.meta(&key("a")).unwrap();
    assert!(meta.is_deleting() && meta.labels.get("app").is_some(), "{meta:?}");
    assert_eq!(meta.resource_version, scene.source.version());
    assert!(scene.informer.lister().get(&key("a")).is_err());
    assert_eq!(next(&mut handled).await, "initial a@n1");
}
