//! The global allocator of the process: the system's, by measurement.
//!
//! Every budget of memory depends on it. With 20,000 pods cached, glibc's held 33 MB where mimalloc held 41 to 47 MB (10,000
//! pods: 22 MB, and 25 to 29 MB); jemalloc held as much as glibc's, and needs more to build. Another one is set here, as a
//! `#[global_allocator]`, for all builds alike.
