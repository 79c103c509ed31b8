//! That faults are found which are there.

use std::time::Duration;

use hostile::{Effort, MEMORY, Surface};
use parking_lot::Mutex;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = MEMORY;

/// Attacks a made-up surface, one at a time.
fn attack(take: impl Fn(&[u8])) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    let samples = vec![b"{\"a\": [1, 22, 333]}".to_vec()];
    let surface = Surface { name: "made-up", ceiling: 1 << 20, samples };
    hostile::attack(&surface, Effort { time: Duration::from_secs(2), seed: 1 }, take);
}

#[test]
#[should_panic(expected = "made-up: it panics: a byte that is no text")]
fn a_panic() {
    attack(|input| assert!(!input.contains(&0xff), "a byte that is no text"));
}

#[test]
#[should_panic(expected = "made-up: it costs")]
fn memory_that_grows_faster_than_its_input() {
    attack(|input| drop(vec![1_u8; input.len() * input.len() / 64]));
}

#[test]
#[should_panic(expected = "bytes are kept after")]
fn memory_that_is_not_given_back() {
    let kept = Mutex::new(Vec::new());
    attack(|input| {
        if kept.lock().len() < 1000 {
            kept.lock().push(vec![1_u8; 2000 + input.len() % 7]);
        }
    });
}
