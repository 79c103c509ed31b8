mod claims;
mod invariants;
mod matching;
mod provisioning;
mod volumes;
mod world;
