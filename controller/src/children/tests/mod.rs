//! The kit over an API server in memory, whose watches may lag.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::{Calls, TestServer, Verb};
use steersman_informer::keep;
use steersman_informer::wire::Group;
use steersman_kinds::pod::{Phase, Pod};
use steersman_kinds::replication_controller::{
    ReplicationController, ReplicationControllerSpec, ReplicationControllerStatus,
};

use super::*;
use crate::call::{Content, JSON};
use crate::client::{Created, Delete};
use crate::options::OptionSet;
use crate::testing::context;

mod claims;
mod first_look;
mod observing;
mod selecting;

keep! {
    /// An owner whose selector is its own labels, so that tests can give it any selector: the value `exists` demands the label
    /// with any value, dots separate several values, and no value demands nothing.
    struct Owner: ReplicationController => ReplicationControllerSpec, ReplicationControllerStatus
}

keep! {
    /// A child.
    struct Child: Pod => Phase
}

impl Owns for Owner {
    type Child = Child;

    const SETTLED: Option<Settled<Child>> = Some(Settled {
        index: "children that are not settled",
        is_settled: |child| child.meta().labels.get("settled").is_some(),
    });

    fn selector(owner: &ReplicationController) -> Result<LabelSelector, InvalidSelector> {
        let mut selector = LabelSelector::everything();
        for (key, value) in owner.meta().labels.iter() {
            match value.as_str() {
                "" => {}
                "exists" => selector.require(key, "Exists", [])?,
                values => selector.require(key, "In", values.split('.'))?,
            }
        }
        Ok(selector)
    }

    fn is_untouched(owner: &ReplicationController) -> bool {
        ReplicationControllerStatus::of(owner).expect("the group must be kept").observed_generation == 0
    }
}

/// The longest that the watches of these tests lag.
const LAG: Duration = Duration::from_secs(5);

/// A process that leads, and the API server.
struct Scene {
    server: TestServer,
    children: Children<Owner>,
}

/// Labels, with their values.
type Labels = &'static [(&'static str, &'static str)];

/// An owner that selects these labels.
fn owner(name: &str, selector: Labels) -> Value {
    let labels: std::collections::BTreeMap<_, _> = selector.iter().copied().collect();
    json!({
        "apiVersion": "v1", "kind": "ReplicationController",
        "metadata": {"namespace": "default", "name": name, "labels": labels},
        "spec": {"selector": {"app": "a"}, "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    })
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn pods() -> Calls {
    Calls::to("pods")
}

impl Scene {
    /// Starts with these owners, all of which another process may have acted on, and with these pods labelled `app=a`.
    async fn start(owners: &[Value], pods: &[&str]) -> Self {
        let clock = steersman_apiserver::Clock::following_tokio();
        let server = TestServer::builder().clock(clock).start().await;
        let (context, _writers) = context(&server, OptionSet::default());
        let children = Children::new(&context, &context.client_for("test")).unwrap();
        let scene = Self { server, children };
        for owner in owners {
            scene.create_owner(owner).await;
        }
        for pod in pods {
            scene.create_pod(pod).await;
        }
        context.informers.start();
        context.informers.wait_for_cache_sync(&scene.children.caches(), Duration::from_secs(60)).await;
        scene
    }

    /// Delays what the watches of pods tell from now on.
    fn lag(&self) {
        self.server.faults().delay_watches(pods().verb(Verb::Watch), LAG);
    }

    async fn create_owner(&self, owner: &Value) -> Arc<ReplicationController> {
        match self.children.owner_client.create("default", Content::json(JSON, owner)).await.unwrap() {
            Created::Now(owner) => owner,
            other => panic!("{other:?}"),
        }
    }

    /// Creates a pod labelled `app=a`, as a process would that the kit knows nothing of.
    async fn create_pod(&self, name: &str) -> Created<Pod> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        self.children.child_client.create("default", Content::json(JSON, &pod)).await.unwrap()
    }

    async fn delete_pod(&self, name: &str) {
        let at_once = Delete { grace_period_seconds: Some(0), ..Delete::default() };
        self.children.child_client.delete(&key(name), &at_once).await.unwrap();
    }

    /// Waits until the watches have told all.
    async fn catch_up(&self) {
        tokio::time::sleep(2 * LAG).await;
    }

    async fn family(&self, name: &str) -> Family<Owner> {
        self.children.observe(&key(name)).await.unwrap().family()
    }
}

impl Sight<Owner> {
    fn family(self) -> Family<Owner> {
        match self {
            Self::Family(family) => family,
            Self::Absent => panic!("the owner is absent"),
            Self::Behind { newly, .. } => panic!("the cache is behind: {newly:?}"),
        }
    }
}

impl Family<Owner> {
    /// The names of the children that the owner still holds.
    fn names(&self) -> Vec<&str> {
        let held = self.children.iter().filter(|(child, claim)| !self.has_gone(child.meta(), *claim));
        let mut names: Vec<_> = held.map(|(child, _)| child.meta().key.name.as_str()).collect();
        names.sort_unstable();
        names
    }
}
