//! Tests of the plans: pods and claims in, steps out. Situations and their names are those of upstream's tests.

mod claims;
mod pods;
