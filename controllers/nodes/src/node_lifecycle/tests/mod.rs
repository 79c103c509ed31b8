mod cluster;
mod failures;
mod policy;
mod process;
mod referee;
mod simulation;
mod world;
