//! Writes `api/src/schema/table.txt`, the schema table of the built-in kinds.
//!
//! It combines three sources:
//! - a running API server, through kubectl: discovery (groups, resources, verbs) and `/openapi/v3` (required fields,
//!   defaults, enums, list types, patch strategies, the kind of each schema);
//! - `generated.proto`: the protobuf types of fields;
//! - the Go structs beside it: JSON names by field number, and whether a field is a pointer, inlined or `omitempty`.
//!
//! ```text
//! cargo run -p steersman-schema-tool -- --kubectl kubectl --out api/src/schema/table.txt \
//!   --module $GOMODCACHE/k8s.io/api@v0.36.3 --module $GOMODCACHE/k8s.io/apimachinery@v0.36.3 \
//!   --module $GOMODCACHE/k8s.io/apiextensions-apiserver@v0.36.3 --module $GOMODCACHE/k8s.io/kube-aggregator@v0.36.3
//! ```
//!
//! kubectl takes the server from `KUBECONFIG`, as always. The server must have no custom resources, since these have no
//! protobuf definition. The same sources give the same output, byte for byte. `steersman_api::schema::Table` documents
//! the format.

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
    /// The kubectl program, configured for the API server.
    #[arg(long, default_value = "kubectl")]
    kubectl: PathBuf,
    /// The folder of a Go module with `generated.proto` files; repeatable.
    #[arg(long = "module", required = true)]
    modules: Vec<PathBuf>,
    /// The file to write.
    #[arg(long)]
    out: PathBuf,
}

/// The error if no table was written. The user must correct the named source, and run the program again.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// A source can't be read, or the output can't be written.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// kubectl does not start, or the server refused the request.
    #[error("kubectl get --raw {path}: {reason}")]
    Get { path: String, reason: String },
    /// The sources contradict each other, or have something that this program does not support.
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
