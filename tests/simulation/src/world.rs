//! One run, from the first object to the last.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use steersman_apiserver::Clock;
use steersman_informer::AnyInformer;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::api_server::ApiServer;
use crate::hosts::{self, Host, Hosts};
use crate::invariants::Invariants;
use crate::network::Link;
use crate::nodes::Nodes;
use crate::process::{Process, versions};
use crate::users::Users;

/// How many acts of users there are.
const ACTS: usize = 12;
/// How long the cluster gets to do what users want once the faults have ended. A node that was silent is trusted again within it,
/// and each back-off has ended.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// No run lasts that long.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// What a run was like.
#[derive(Debug)]
pub struct Summary {
    /// How much time passed in the cluster.
    pub lasted: Duration,
    /// How long it took from the last fault until users had what they wanted.
    pub settled: Duration,
    /// What happened, a line each.
    pub story: String,
}

pub(crate) struct World {
    pub(crate) api_server: ApiServer,
    hosts: Hosts,
    pub(crate) random: StdRng,
    pub(crate) invariants: Arc<Invariants>,
    pub(crate) nodes: Nodes,
    pub(crate) managers: Vec<Process>,
    started: usize,
    /// To end all that is on its way.
    end: CancellationToken,
}

/// Runs the cluster with the faults of a seed. To be called once in a process, after [`replay::begin`], by a thread that was started
/// since then. Where `tells_requests`, each request of a manager is part of the story.
///
/// # Errors
/// What was broken, with the story.
pub fn run(seed: u64, tells_requests: bool) -> Result<Summary, String> {
    let hosts = Hosts::default();
    hosts::run(Host::new(), &hosts.clone(), live(seed, tells_requests, hosts))
}

async fn live(seed: u64, tells_requests: bool, hosts: Hosts) -> Result<Summary, String> {
    let (mut world, mut users) = World::new(seed, tells_requests, hosts).await;
    let mut nodes = JoinSet::new();
    nodes.spawn(world.nodes.clone().live());
    nodes.spawn(world.nodes.clone().run_pods());
    let (invariants, end) = (Arc::clone(&world.invariants), world.end.clone());
    let ran = AssertUnwindSafe(timeout(A_DAY, world.go(&mut users))).catch_unwind();
    let ran = tokio::select! {
        biased;
        ran = ran => match ran {
            Ok(Ok(ran)) => ran,
            Ok(Err(_)) => Err("it does not end".to_owned()),
            Err(_) => Err("it panics, see above".to_owned()),
        },
        ended = nodes.join_next() => Err(format!("the nodes have ended: {ended:?}")),
    };
    end.cancel();
    let (story, mut broken) = (invariants.story(), invariants.broken());
    broken.extend(ran.as_ref().err().cloned());
    match ran {
        Ok((lasted, settled)) if broken.is_empty() => Ok(Summary { lasted, settled, story }),
        _ => Err(format!("{}\n{story}", broken.join("\n"))),
    }
}

impl World {
    async fn new(seed: u64, tells_requests: bool, hosts: Hosts) -> (Self, Users) {
        let clock = Clock::following_tokio();
        let api_server = ApiServer::start(clock.clone()).await;
        let address = api_server.address();
        let invariants = Arc::new(Invariants::new(address.clone(), tells_requests));
        let client = address.client();
        let nodes = Nodes::new(client.clone(), clock, seed ^ 1, Arc::clone(&invariants));
        let users = Users::new(client, seed ^ 2, Arc::clone(&invariants));
        nodes.register().await;
        let random = StdRng::seed_from_u64(seed);
        let (managers, started, end) = (Vec::new(), 0, CancellationToken::new());
        (Self { api_server, hosts, random, invariants, nodes, managers, started, end }, users)
    }

    /// Returns how long it lasted, and how long users waited after the last fault.
    async fn go(&mut self, users: &mut Users) -> Result<(Duration, Duration), String> {
        let began = Instant::now();
        self.start_manager();
        self.start_manager();
        users.begin().await;
        let acts = async {
            for _ in 0..ACTS {
                users.act().await;
            }
        };
        let ((), faults) = tokio::join!(acts, self.faults());
        faults?;
        self.calm();
        let calm = Instant::now();
        self.wait_for_users(users).await?;
        let settled = calm.elapsed();
        self.wait_for_caches(users).await?;
        users.leave().await;
        self.wait_until_users_have_left(users).await?;
        self.wait_for_caches(users).await?;
        for manager in std::mem::take(&mut self.managers) {
            manager.stop().await;
        }
        match self.invariants.have_seen_something() {
            true => Ok((began.elapsed(), settled)),
            false => Err("nobody has done anything".to_owned()),
        }
    }

    pub(crate) fn start_manager(&mut self) {
        self.started += 1;
        let name = format!("manager-{}", self.started);
        let random = StdRng::seed_from_u64(self.random.random());
        let (address, end) = (self.api_server.address(), self.end.clone());
        let link = Link::new(&name, address, random, end, self.hosts.traffic(), Arc::clone(&self.invariants));
        self.invariants.tell(format_args!("{name} starts"));
        self.managers.push(Process::start(&name, link, &self.hosts));
    }

    /// Looks for what must never be.
    pub(crate) fn look(&mut self) -> Result<(), String> {
        if let Some(failed) = self.managers.iter().find(|one| one.has_failed()) {
            return Err(format!("{} has ended", failed.name));
        }
        match self.invariants.broken().is_empty() {
            true => Ok(()),
            false => Err("see above".to_owned()),
        }
    }

    async fn wait_for_users(&mut self, users: &Users) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.look()?;
            let missing = users.missing().await;
            match missing.is_empty() {
                true => break,
                false if Instant::now() > end => return Err(missing.join("\n")),
                false => sleep(Duration::from_secs(1)).await,
            }
        }
        self.invariants.tell("users have what they want");
        Ok(())
    }

    async fn wait_until_users_have_left(&mut self, users: &Users) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        while !users.have_left().await {
            self.look()?;
            if Instant::now() > end {
                return Err("the namespace is still there".to_owned());
            }
            sleep(Duration::from_secs(1)).await;
        }
        self.invariants.tell("the namespace is gone");
        Ok(())
    }

    /// Waits until all caches equal the server at the same time.
    async fn wait_for_caches(&mut self, users: &Users) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.look()?;
            let mut different = None;
            for manager in &self.managers {
                for cache in manager.caches() {
                    if !equals_server(&*cache, users).await {
                        different = Some(format!(
                            "{}'s cache of {} differs from the server",
                            manager.name,
                            cache.resource()
                        ));
                    }
                }
            }
            match different {
                None => return Ok(()),
                Some(different) if Instant::now() > end => return Err(different),
                Some(_) => sleep(Duration::from_secs(1)).await,
            }
        }
    }
}

/// Whether a cache holds what the server does, in the same versions.
async fn equals_server(cache: &dyn AnyInformer, users: &Users) -> bool {
    let resource = cache.resource();
    let path = match resource.group.as_str() {
        "" => format!("/api/{}/{}", resource.version, resource.resource),
        group => format!("/apis/{group}/{}/{}", resource.version, resource.resource),
    };
    let server = users.versions(&path).await;
    let cached = versions(cache);
    let cached =
        cached.into_iter().map(|(key, version)| ((key.namespace.to_string(), key.name.to_string()), version));
    cached.eq(server)
}
