//! The global allocator of the process, by measurement: every budget of memory depends on it.
//!
//! With the GNU C library it is the library's own. With 20,000 pods cached that holds 23 MB where mimalloc 3 held 41 to 47 of
//! the same build.
//!
//! What is published is linked with musl, whose allocator takes half as much processor time again for the API server's load.
//! There it is jemalloc, with the settings of `.cargo/dist.toml`: one arena, since each more keeps what its threads gave back
//! (50 pods on a node: 19.2 MB with two, 18.2 MB with one, 16.4 MB with musl's own), small caches of the threads, and
//! what is free goes back to the system after 3 s: after 0.2 s, the controllers of Jobs took two and a half times as many page
//! faults and a tenth more processor time, and no less memory at their peak (`benches/batch.sh`).

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
