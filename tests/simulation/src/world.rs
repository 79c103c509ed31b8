//! One run, from the first object to the last.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use steersman_apiserver::{Clock, TestServer};
use steersman_informer::AnyInformer;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::invariants::Invariants;
use crate::network::{Flow, Link, Weather};
use crate::nodes::Nodes;
use crate::process::{Process, versions};
use crate::users::Users;

/// How many faults there are, and as many acts of users.
const FAULTS: usize = 12;
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

struct World {
    server: Arc<TestServer>,
    clock: Clock,
    random: StdRng,
    invariants: Arc<Invariants>,
    nodes: Nodes,
    managers: Vec<Process>,
    started: usize,
}

/// Runs the cluster with the faults of a seed. To be called on a runtime of one thread whose time is paused.
///
/// # Errors
/// What was broken, with the story.
pub async fn run(seed: u64) -> Result<Summary, String> {
    let (mut world, mut users) = World::new(seed).await;
    let mut nodes = JoinSet::new();
    nodes.spawn(world.nodes.clone().live());
    nodes.spawn(world.nodes.clone().run_pods(Arc::clone(&world.invariants)));
    let invariants = Arc::clone(&world.invariants);
    let ran = AssertUnwindSafe(timeout(A_DAY, world.go(&mut users))).catch_unwind();
    let ran = tokio::select! {
        ran = ran => match ran {
            Ok(Ok(ran)) => ran,
            Ok(Err(_)) => Err("it does not end".to_owned()),
            Err(_) => Err("it panics, see above".to_owned()),
        },
        ended = nodes.join_next() => Err(format!("the nodes have ended: {ended:?}")),
    };
    let (story, mut broken) = (invariants.story(), invariants.broken());
    broken.extend(ran.as_ref().err().cloned());
    match ran {
        Ok((lasted, settled)) if broken.is_empty() => Ok(Summary { lasted, settled, story }),
        _ => Err(format!("{}\n{story}", broken.join("\n"))),
    }
}

impl World {
    async fn new(seed: u64) -> (Self, Users) {
        let clock = Clock::following_tokio();
        let server = Arc::new(TestServer::builder().clock(clock.clone()).start().await);
        let invariants = Arc::new(Invariants::new(Arc::clone(&server)));
        let client = server.in_memory_client();
        let nodes = Nodes::new(client.clone(), clock.clone(), seed ^ 1);
        let users = Users::new(client, seed ^ 2, Arc::clone(&invariants));
        nodes.register().await;
        let random = StdRng::seed_from_u64(seed);
        (Self { server, clock, random, invariants, nodes, managers: Vec::new(), started: 0 }, users)
    }

    /// Returns how long it lasted, and how long users waited after the last fault.
    async fn go(&mut self, users: &mut Users) -> Result<(Duration, Duration), String> {
        let began = Instant::now();
        self.start_manager();
        self.start_manager();
        users.begin().await;
        let acts = async {
            for _ in 0..FAULTS {
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

    async fn faults(&mut self) -> Result<(), String> {
        for _ in 0..FAULTS {
            self.pause(0.1, 20.0).await;
            self.look()?;
            self.fault().await;
        }
        self.look()
    }

    async fn pause(&mut self, least: f64, most: f64) {
        sleep(Duration::from_secs_f64(self.random.random_range(least..most))).await;
    }

    fn start_manager(&mut self) {
        self.started += 1;
        let name = format!("manager-{}", self.started);
        let random = StdRng::seed_from_u64(self.random.random());
        let link = Link::new(&name, self.server.in_memory(), random, Arc::clone(&self.invariants));
        self.invariants.tell(format_args!("{name} starts"));
        self.managers.push(Process::start(&name, link, self.clock.clone()));
    }

    fn any_manager(&mut self) -> usize {
        self.random.random_range(0..self.managers.len())
    }

    async fn fault(&mut self) {
        let at = self.any_manager();
        let name = self.managers[at].name.clone();
        match self.random.random_range(0..10) {
            0 | 1 => {
                self.invariants.tell(format_args!("{name} is killed"));
                self.managers.remove(at).kill();
                self.pause(0.0, 5.0).await;
                self.start_manager();
            }
            2 => {
                self.invariants.tell(format_args!("{name} is asked to end"));
                let stopped = self.managers.remove(at);
                self.start_manager();
                stopped.stop().await;
            }
            3 | 4 => {
                let held = Duration::from_secs_f64(self.random.random_range(0.5..40.0));
                let flow = if self.random.random() { Flow::Held } else { Flow::Stopped };
                self.invariants.tell(format_args!("{name} is {flow:?} for {held:.1?}"));
                let link = self.managers[at].link.clone();
                link.set_flow(flow);
                sleep(held).await;
                link.set_flow(Flow::All);
                self.invariants.tell(format_args!("{name} goes on"));
            }
            5 => {
                self.invariants.tell(format_args!("the connections of {name} break"));
                self.managers[at].link.break_all();
            }
            6 => {
                let weather = Weather {
                    delay: Duration::from_millis(self.random.random_range(0..400)),
                    loses_one_in: self.random.random_bool(0.6).then(|| self.random.random_range(4..40)),
                    doubles_one_in: self.random.random_bool(0.4).then(|| self.random.random_range(3..30)),
                };
                self.invariants.tell(format_args!("around {name}: {weather:?}"));
                self.managers[at].link.set_weather(weather);
            }
            7 => {
                let away = Duration::from_secs_f64(self.random.random_range(0.1..20.0));
                self.invariants.tell(format_args!("the API server is away for {away:.1?}"));
                self.server.suspend();
                sleep(away).await;
                self.server.resume();
                self.invariants.tell("the API server is back");
            }
            8 => {
                let ahead = self.random.random_range(-7200..7200);
                self.invariants.tell(format_args!("the wall clock of {name} is {ahead} s ahead"));
                self.managers[at].set_ahead(ahead);
            }
            _ => {
                let silent = self.nodes.silence();
                self.invariants.tell(format_args!("node {silent} falls silent"));
                self.pause(10.0, 90.0).await;
                self.nodes.all_are_heard();
                self.invariants.tell(format_args!("node {silent} is heard again"));
            }
        }
    }

    fn calm(&self) {
        self.invariants.tell("the faults have ended");
        self.nodes.all_are_heard();
        for manager in &self.managers {
            manager.link.set_weather(Weather::default());
            manager.set_ahead(0);
        }
    }

    /// Looks for what must never be.
    fn look(&mut self) -> Result<(), String> {
        if let Some(panicked) =
            self.managers.iter_mut().find_map(|one| one.has_panicked().then(|| one.name.clone()))
        {
            return Err(format!("{panicked} has panicked"));
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
