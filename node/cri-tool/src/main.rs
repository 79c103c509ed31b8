//! Writes `node/src/cri/v1.rs`: the messages of the Container Runtime Interface, v1.
//!
//! ```text
//! cargo run -p steersman-cri-tool -- <k8s.io/cri-api>/pkg/apis/runtime/v1/api.proto node/src/cri/v1.rs
//! ```
//!
//! The definition is read by protox, so that neither this nor any build needs protoc. Its comments are left out. Maps
//! are `BTreeMap`s: equal messages print and encode equally. The messages of [`SECRETIVE`] get no `Debug`; the crate
//! writes one that keeps their secrets.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Messages that carry secrets; upstream marks fields `debug_redact`, or puts environment variables there.
const SECRETIVE: [&str; 2] = [".runtime.v1.AuthConfig", ".runtime.v1.KeyValue"];

#[derive(Debug, Parser)]
#[command(about = "Writes the CRI's messages from the published definition")]
struct Arguments {
    /// api.proto of k8s.io/cri-api, runtime/v1.
    definition: PathBuf,
    /// The file to write.
    output: PathBuf,
}

/// Why nothing was written; the arguments or the definition must change.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{} is not in a folder", .0.display())]
    Folder(PathBuf),
    #[error("cannot read the definition: {0}")]
    Compile(#[from] protox::Error),
    #[error("cannot generate: {0}")]
    Generate(#[source] io::Error),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

fn main() -> ExitCode {
    match write(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "a command's error belongs there")]
            {
                eprintln!("{error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn write(arguments: &Arguments) -> Result<(), Error> {
    let definition = &arguments.definition;
    let folder = definition.parent().ok_or_else(|| Error::Folder(definition.clone()))?;
    let mut descriptors = protox::compile([definition], [folder])?;
    for file in &mut descriptors.file {
        // Comments live here and nowhere else.
        file.source_code_info = None;
    }

    let scratch = arguments.output.with_extension("generated");
    fs::create_dir_all(&scratch).map_err(|source| Error::Write { path: scratch.clone(), source })?;
    prost_build::Config::new()
        .btree_map(["."])
        .skip_debug(SECRETIVE)
        .out_dir(&scratch)
        .compile_fds(descriptors)
        .map_err(Error::Generate)?;
    let generated = scratch.join("runtime.v1.rs");
    let code = fs::read_to_string(&generated).map_err(Error::Generate)?;
    fs::remove_dir_all(&scratch).map_err(|source| Error::Write { path: scratch, source })?;
    fs::write(&arguments.output, without_comments(&code))
        .map_err(|source| Error::Write { path: arguments.output.clone(), source })
}

/// The generator's own comments go as well; in its output a comment has its lines to itself.
fn without_comments(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = r#"
        syntax = "proto3";
        package runtime.v1;
        // Says who.
        message AuthConfig { string password = 1; map<string, string> labels = 2; }
        service RuntimeService { rpc Version(AuthConfig) returns (AuthConfig) {} }
    "#;

    #[test]
    fn a_definition_becomes_types_without_comments() {
        let folder = std::env::temp_dir().join(format!("cri-tool-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let arguments = Arguments { definition: folder.join("api.proto"), output: folder.join("v1.rs") };
        fs::write(&arguments.definition, DEFINITION).unwrap();
        write(&arguments).unwrap();
        let code = fs::read_to_string(&arguments.output).unwrap();
        fs::remove_dir_all(&folder).unwrap();

        assert!(code.contains("pub struct AuthConfig"));
        assert!(code.contains("BTreeMap"));
        assert!(!code.contains("//"), "{code}");
        assert!(code.contains("prost(skip_debug)"));
    }

    #[test]
    fn a_definition_that_is_not_there_is_named() {
        let arguments = Arguments { definition: "nowhere/api.proto".into(), output: "nowhere/v1.rs".into() };
        assert!(write(&arguments).unwrap_err().to_string().contains("api.proto"));
    }
}
