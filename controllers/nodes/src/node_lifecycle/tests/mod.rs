mod cluster;
mod failures;
mod policy;
mod process;
mod simulation;
mod world;
