//! Writes `api/src/schema/table.txt`, the schema table of the built-in kinds.
//!
//! Three sources, each for what only it knows:
//! - a running API server, asked through kubectl: discovery (groups, resources, verbs) and `/openapi/v3` (required
//!   fields, defaults, enums, list types, patch strategies, which schema is which kind);
//! - `generated.proto`: the fields' protobuf types;
//! - the Go structs beside it: JSON names by field number, and whether a field is a pointer, inlined, `omitempty`.
//!
//! ```text
//! cargo run -p steersman-schema-tool -- --kubectl kubectl --out api/src/schema/table.txt \
//!   --module $GOMODCACHE/k8s.io/api@v0.36.3 --module $GOMODCACHE/k8s.io/apimachinery@v0.36.3 \
//!   --module $GOMODCACHE/k8s.io/apiextensions-apiserver@v0.36.3 --module $GOMODCACHE/k8s.io/kube-aggregator@v0.36.3
//! ```
//!
//! kubectl finds the server as it always does (`KUBECONFIG`); it must be a fresh one, since custom resources have no
//! protobuf definition. The output depends on nothing but the sources: the same
//! server gives the same bytes. The format is described on `steersman_api::schema::Table`.

mod go;
mod proto;
mod server;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Writes the schema table from a running API server and the published sources.
#[derive(Parser)]
struct Options {
    /// The kubectl that reaches the server whose schema is wanted.
    #[arg(long, default_value = "kubectl")]
    kubectl: PathBuf,
    /// A Go module's folder with `generated.proto` files; repeatable.
    #[arg(long = "module", required = true)]
    modules: Vec<PathBuf>,
    /// Where the table goes.
    #[arg(long)]
    out: PathBuf,
}

/// Why no table was written. None passes by itself: mend the named source and run again.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// A source or the output can't be read or written.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// kubectl does not run, or the server refused.
    #[error("kubectl get --raw {path}: {reason}")]
    Get { path: String, reason: String },
    /// The sources contradict each other, or say what the tool does not know.
    #[error("{what}: {reason}")]
    Source { what: String, reason: String },
}

impl Error {
    fn source(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Source { what: what.into(), reason: reason.into() }
    }
}

fn run(options: &Options) -> Result<(), Error> {
    let server = server::Server::ask(&options.kubectl)?;
    let mut messages = proto::Messages::new();
    let mut structs = go::Structs::new();
    for module in &options.modules {
        for file in proto::definitions(module)? {
            let package = proto::parse(&file, &mut messages)?;
            let folder = file.parent().unwrap_or(module);
            go::parse_folder(folder, &package, &mut structs)?;
        }
    }
    let text = table::render(&server, &messages, &structs)?;
    std::fs::write(&options.out, text).map_err(|source| Error::File { path: options.out.clone(), source })
}

#[allow(clippy::print_stderr)] // a tool's way to say what failed
fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
