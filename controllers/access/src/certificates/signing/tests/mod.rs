mod files;
mod flags;
mod plans;
mod vectors;
