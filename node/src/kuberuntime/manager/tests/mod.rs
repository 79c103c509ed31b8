//! Pods taken through their lives on the simulated runtime.

mod back_off;
mod deaths;
mod failures;
mod garbage;
mod hooks;
mod listing;
mod real;
mod resizing;
mod starts;
mod world;
