//! What the two programs share: the allocator of the published program, and how they tell what memory they take.

#[path = "../../../src/alloc.rs"]
mod alloc;
pub mod memory;
