//! Whole syncs over a model of an API server, step by step.

mod conditions;
mod discovering;
mod order;
mod world;
