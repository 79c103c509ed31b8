//! What a node makes of the answers of a container runtime that are good protobuf and wrong in all else.
//!
//! A whole agent runs on paused time, with an API server in the same process. For each input, the runtime first tells the truth,
//! then answers for a while what the input says, then tells the truth again. The agent must not panic, must not end, must not cost
//! more memory than it may, and must show its pod as it is in the end.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it did"
)]

mod answers;
mod cases;
mod hostile_runtime;
mod world;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hostile::{Effort, MEMORY, Surface, panics, protobuf};
use parking_lot::{Mutex, MutexGuard};
use peak_alloc::PeakAlloc;
use prost::Message as _;
use tokio::runtime::{Builder, Runtime};

use self::answers::Answers;
use self::cases::CASES;
use self::world::World;

#[global_allocator]
static ALLOCATOR: PeakAlloc = MEMORY;

/// The API server, the runtime and the agent are in it.
const CEILING: usize = 64 << 20;

/// How many inputs a node lives through. A new one costs as much as some inputs.
const INPUTS: u32 = 32;

/// What is hostile in these messages.
const TEXTS: &[&str] = &[
    "$root/precious",
    "$root/logs/../precious",
    "../../../precious",
    "$uid-of-web",
    "$uid-of-job",
    "$uid-of-crashing",
    "$sandbox-of-web.0",
    "$app.0-of-web",
    "$helper.0-of-web",
    "io.kubernetes.pod.uid",
    "io.kubernetes.container.name",
    "io.kubernetes.container.restartCount",
    "web",
    "app",
    "default",
    "FallbackToLogsOnError",
    "{\"exec\":{\"command\":[]}}",
    "{\"httpGet\":{\"port\":-1}}",
    "{\"httpGet\":{\"port\":\"99999999999\",\"host\":\"\\u0000\"}}",
    "{\"sleep\":{\"seconds\":9223372036854775807}}",
    "{\"sleep\":{\"seconds\":-1}}",
];

/// One test at a time: the memory and the panics of the whole process are counted.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

/// A runtime whose clock is paused.
fn paused() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// A node for some inputs, one after the other.
struct Node {
    runtime: Runtime,
    world: World,
    inputs: u32,
}

impl Node {
    fn start() -> Self {
        let runtime = paused();
        let world = runtime.block_on(World::start());
        Self { runtime, world, inputs: 0 }
    }

    /// How many inputs it has lived through.
    fn inputs(&self) -> u32 {
        self.inputs
    }

    fn suffer(&mut self, input: &[u8]) {
        self.inputs += 1;
        self.runtime.block_on(self.world.suffer(input));
    }

    fn stop(self) {
        self.runtime.block_on(self.world.stop());
    }
}

/// What is wrong with a node after an input, in words.
fn judge(node: Node, input: &[u8]) -> Result<Node, String> {
    let end = catch_unwind(AssertUnwindSafe(|| {
        let mut node = node;
        node.suffer(input);
        node
    }));
    let panics = panics::take();
    match end {
        Ok(node) if panics.is_empty() => Ok(node),
        _ => Err(panics.join("\n")),
    }
}

#[test]
fn answers_that_are_wrong_in_a_way_that_one_thinks_of() {
    let _turn = turn();
    panics::watch();
    let mut node = Node::start();
    let samples = node.runtime.block_on(node.world.samples(CASES));
    let mut failed = Vec::new();
    for ((name, _), input) in CASES.iter().zip(&samples[1..]) {
        node = judge(node, input).unwrap_or_else(|why| {
            failed.push(format!("{name}: {why}"));
            Node::start()
        });
    }
    node.stop();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn answers_that_are_broken_by_chance() {
    let _turn = turn();
    panics::watch();
    let node = Node::start();
    let samples = node.runtime.block_on(node.world.samples(CASES));
    node.stop();
    let surface = Surface { name: "runtime", ceiling: CEILING, samples: samples[..1].to_vec() };
    let decodes = |input: &[u8]| Answers::decode(input).is_ok();
    // The other test shows what becomes of the cases as they are.
    let broken =
        |corpus: &[Vec<u8>], random| protobuf::broken(&[corpus, &samples].concat(), TEXTS, decodes, random);
    let current = RefCell::new(None);
    let report = hostile::attack_with(&surface, Effort::wanted(), broken, |input| {
        let node = match current.take() {
            Some(old) if Node::inputs(&old) >= INPUTS => {
                old.stop();
                Node::start()
            }
            Some(node) => node,
            None => Node::start(),
        };
        current.replace(Some(judge(node, input).unwrap_or_else(|why| panic!("{why}"))));
    });
    println!("runtime: {} inputs, at most {} KiB for one", report.inputs, report.most / 1024);
}
