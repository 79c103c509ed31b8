//! Arbitrary bytes as bodies, patches, selectors, tokens and paths of requests: the first byte says as what.
#![no_main]

#[path = "../attack.rs"]
mod attack;

use std::sync::OnceLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use steersman_apiserver::TestServer;
use tokio::runtime::{Builder, Runtime};

/// One server for all, since no request changes anything. Its clock is paused: what waits does not keep us.
fn world() -> &'static (Runtime, TestServer) {
    static WORLD: OnceLock<(Runtime, TestServer)> = OnceLock::new();
    WORLD.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.expect("a runtime must be had");
        let server = runtime.block_on(attack::server());
        (runtime, server)
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some((way, payload)) = bytes.split_first() else { return };
    let way = &attack::WAYS[usize::from(*way) % attack::WAYS.len()];
    let (runtime, server) = world();
    runtime.block_on(attack::carry_out(server, way, payload));
});

// Now and then a good request, for the usual changes to begin with.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let seed = seed as usize;
    if size < 2 || seed.is_multiple_of(64) {
        let at = (seed / 64) % attack::WAYS.len();
        let sample = attack::WAYS[at].sample();
        if sample.len() < max_size {
            data[0] = at as u8;
            data[1..=sample.len()].copy_from_slice(&sample);
            return sample.len() + 1;
        }
    }
    fuzzer_mutate(data, size, max_size)
});
