//! What crates.io and the readers of a crate need of each crate that is published.

#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::fs;
use std::path::Path;

#[test]
fn each_published_crate_brings_its_licence_and_readme() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let licence = fs::read(root.join("LICENSE")).unwrap();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = [")).unwrap();
    let members = members.trim_end_matches(']').split(", ").map(|member| member.trim_matches('"'));
    let mut published = 0;
    for folder in members.map(|member| root.join(member)) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        if manifest.contains("\npublish = false\n") {
            continue;
        }
        published += 1;
        let folder_name = folder.display();
        assert_eq!(fs::read(folder.join("LICENSE")).unwrap(), licence, "{folder_name}");
        let readme = fs::read_to_string(folder.join("README.md")).unwrap();
        assert!(readme.starts_with("# steersman-") && readme.contains("```rust"), "{folder_name}");
        for field in ["description = ", "repository.", "rust-version.", "keywords = ", "categories = "] {
            assert!(manifest.contains(&format!("\n{field}")), "{field} in {folder_name}");
        }
    }
    assert!(published > 15, "{published} crates");
}
