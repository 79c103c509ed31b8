//! The global allocator of the process: the system's.
//!
//! Every budget of memory depends on it. Another one is set here, as a `#[global_allocator]`, for all builds alike.
