mod cluster;
mod policy;
mod simulation;
mod world;
