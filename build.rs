//! Tells the program which compiler made it, and which commit it is made from.
//!
//! The commit comes from `STEERSMAN_GIT_COMMIT`, else from the file that cargo adds to published crates, else, in optimized
//! builds, from git. Other builds have none, so that a commit does not rebuild the program.

#![allow(clippy::print_stdout, reason = "cargo reads a build script's settings from its standard output")]

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// What cargo adds to a published crate. It names the commit.
const VCS_INFO: &str = ".cargo_vcs_info.json";

/// The order of the published program's functions.
const LAYOUT: &str = ".cargo/layout.ld";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A linker script of the published program. Cargo knows nothing of it otherwise. It is no part of the published crate, and a file
    // that is absent counts as changed.
    if Path::new(LAYOUT).exists() {
        println!("cargo::rerun-if-changed={LAYOUT}");
    }
    println!("cargo::rerun-if-env-changed=STEERSMAN_GIT_COMMIT");
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output(&compiler, &["--version"]).unwrap_or_default();
    let version = version.strip_prefix("rustc ").unwrap_or(&version);
    println!("cargo::rustc-env=STEERSMAN_RUSTC={version}");
    println!("cargo::rustc-env=STEERSMAN_COMMIT={}", commit().unwrap_or_default());
}

/// The commit, if it is known.
fn commit() -> Option<String> {
    if let Some(given) = env::var_os("STEERSMAN_GIT_COMMIT").filter(|given| !given.is_empty()) {
        return given.into_string().ok();
    }
    if let Ok(info) = fs::read_to_string(VCS_INFO) {
        let (_, rest) = info.split_once("\"sha1\":")?;
        return rest.split('"').nth(1).map(str::to_owned);
    }
    let optimized = env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    // Not the commit of a repository that merely contains this folder.
    if !optimized || !Path::new(".git").exists() {
        return None;
    }
    let git = OsString::from("git");
    // Each commit and each checkout adds a line to this file.
    if let Some(log) = output(&git, &["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    output(&git, &["rev-parse", "HEAD"])
}

/// The standard output of a program, if it succeeds.
fn output(program: &OsString, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
