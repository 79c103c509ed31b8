//! Machines of the cluster: each runs its tasks by itself, on the one thread, and may be frozen or lose its power.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{Instant, advance, sleep_until};

/// Hosts run one after the other, each for this much of the cluster's time. A message is late by up to one step.
const STEP: Duration = Duration::from_millis(5);
/// While hosts send each other nothing, each step is twice as long as the one before, up to this.
const LONGEST_STEP: Duration = Duration::from_millis(80);

/// Something that runs tasks, with a clock of its own that is paused: it jumps to the next moment at which something is to happen.
pub(crate) struct Host {
    runtime: Runtime,
    /// Until when it is frozen.
    thaws_at: Option<Instant>,
    /// By how many seconds its wall clock is ahead.
    ahead: i64,
}

/// The hosts of a cluster beside the first one, which the others depend on.
#[derive(Clone, Default)]
pub(crate) struct Hosts {
    all: Arc<Mutex<All>>,
    traffic: Traffic,
}

/// Whether hosts have sent each other anything since the last step.
#[derive(Clone, Default)]
pub(crate) struct Traffic(Arc<AtomicBool>);

#[derive(Default)]
struct All {
    /// With their names.
    running: Vec<(String, Host)>,
    /// Those without power. A runtime can't be dropped by a task of another one.
    dead: Vec<Host>,
}

impl Host {
    pub(crate) fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        Self { runtime: runtime.expect("a runtime without I/O can be made"), thaws_at: None, ahead: 0 }
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    fn run_until(&mut self, now: Instant) {
        replay::set_wall_clock_ahead(self.ahead);
        match self.thaws_at {
            Some(thaws_at) if now < thaws_at => {}
            // Time has gone on: all timers that were to go off meanwhile do so at once.
            Some(_) => {
                self.thaws_at = None;
                self.runtime.block_on(async { advance(now - Instant::now()).await });
            }
            None => self.runtime.block_on(async { sleep_until(now).await }),
        }
    }
}

impl Traffic {
    /// Something was sent from one host to another.
    pub(crate) fn sent(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn was_there(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Hosts {
    /// To be called with each message between hosts.
    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic.clone()
    }

    /// Adds a host that is on.
    pub(crate) fn add(&self, name: &str, host: Host) {
        self.all.lock().running.push((name.to_owned(), host));
    }

    /// Stops a host in the middle of what it does, for good.
    pub(crate) fn cut_power(&self, name: &str) {
        let mut all = self.all.lock();
        let (dead, running) = mem::take(&mut all.running).into_iter().partition(|(other, _)| other == name);
        all.running = running;
        let dead: Vec<(String, Host)> = dead;
        all.dead.extend(dead.into_iter().map(|(_, host)| host));
    }

    /// Freezes a host for a while, as SIGSTOP does.
    pub(crate) fn freeze(&self, name: &str, how_long: Duration) {
        self.change(name, |host| host.thaws_at = Some(Instant::now() + how_long));
    }

    /// Sets the wall clock of a host ahead by so many seconds, or back where they are negative.
    pub(crate) fn set_wall_clock_ahead(&self, name: &str, seconds: i64) {
        self.change(name, |host| host.ahead = seconds);
    }

    fn change(&self, name: &str, mut change: impl FnMut(&mut Host)) {
        let mut all = self.all.lock();
        let hosts = all.running.iter_mut().filter(|(other, _)| other == name);
        hosts.for_each(|(_, host)| change(host));
    }

    fn run_until(&self, now: Instant) {
        // No task of theirs adds hosts or freezes them.
        let mut running = mem::take(&mut self.all.lock().running);
        running.iter_mut().for_each(|(_, host)| host.run_until(now));
        let dead = {
            let mut all = self.all.lock();
            all.running = running;
            mem::take(&mut all.dead)
        };
        drop(dead);
    }
}

/// Runs the first host and then the others, step by step, until a task of the first one has ended. Returns what it does.
///
/// # Panics
/// If the task does.
pub(crate) fn run<T: Send + 'static>(
    mut first: Host,
    hosts: &Hosts,
    task: impl Future<Output = T> + Send + 'static,
) -> T {
    let task = first.handle().spawn(task);
    let (mut passed, mut step) = (Duration::ZERO, STEP);
    while !task.is_finished() {
        step = if hosts.traffic.was_there() { STEP } else { (step * 2).min(LONGEST_STEP) };
        passed += step;
        replay::set_time(passed);
        // Outside of runtimes it is the time of the machine's clock, and that one was set.
        let now = Instant::now();
        first.run_until(now);
        hosts.run_until(now);
    }
    first.runtime.block_on(task).expect("the first task of a cluster must not panic")
}
