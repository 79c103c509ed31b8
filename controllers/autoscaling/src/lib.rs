#![doc = include_str!("../README.md")]

pub mod horizontal_pod;
