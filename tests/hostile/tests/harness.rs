//! That faults are found which are there.

use std::time::Duration;

use hostile::protobuf::{self, Message};
use hostile::{Effort, MEMORY, Surface};
use parking_lot::Mutex;
use peak_alloc::PeakAlloc;
use rand::SeedableRng;
use rand::rngs::StdRng;

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

#[test]
fn broken_messages_are_messages_and_the_same_for_a_seed() {
    // Field 1 is a text, field 2 a number, and field 3 a message whose field 1 is a text.
    let sample = b"\x0a\x03web\x10\x96\x01\x1a\x05\x0a\x03app".to_vec();
    assert_eq!(Message::decode(&sample).map(|message| message.encode()), Some(sample.clone()));
    let accepts = |bytes: &[u8]| Message::decode(bytes).is_some();
    let some = |seed| -> Vec<_> {
        let random = StdRng::seed_from_u64(seed);
        protobuf::broken(std::slice::from_ref(&sample), &["$uid"], accepts, random).take(500).collect()
    };
    let broken = some(1);
    assert!(broken.iter().all(|input| accepts(input)));
    assert_eq!(broken, some(1));
    assert_ne!(broken, some(2));
    let replaced = |input: &Vec<u8>| {
        let mut message = Message::decode(input).expect("it is a message");
        message.replace("$uid", "a-much-longer-uid");
        accepts(&message.encode())
    };
    assert!(broken.iter().all(replaced));
}
