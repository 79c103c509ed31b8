mod cluster;
mod policy;
