//! An HTTPS proxy in front of an API server that makes it look sick. KUBECONFIG names the API server.
//!
//! It writes a kubeconfig with its address, its certificate authority and a client certificate into a folder: the client
//! under test uses that. The control port switches from one fault to the next. `benches/sick.sh` measures controller
//! managers with it.

mod control;
mod fault;
mod identities;
mod listening;
mod proxy;
mod watching;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tokio::net::TcpListener;
use tokio::select;

use crate::identities::Identities;
use crate::proxy::Proxy;

#[derive(Debug, Parser)]
#[command(about = "Passes requests on to an API server, and makes it look sick")]
struct Arguments {
    /// Where clients connect
    #[arg(long)]
    address: SocketAddr,
    /// Where faults are switched, over plain HTTP
    #[arg(long)]
    control: SocketAddr,
    /// An existing folder for the certificates and the kubeconfig
    #[arg(long)]
    folder: PathBuf,
}

/// Why the proxy could not start, or ended.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("kubeconfig: {0}")]
    Config(#[from] kube::config::InferConfigError),
    #[error(transparent)]
    Client(#[from] kube::Error),
    #[error("making certificates: {0}")]
    Certificates(#[from] rcgen::Error),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("verifying clients: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    #[error("writing {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("listening at {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("signals: {0}")]
    Signals(#[source] io::Error),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "Error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let Arguments { address, control, folder } = arguments;
    let mut config = kube::Config::infer().await?;
    // What fails is told to the client, and a watch may be silent.
    (config.default_retry, config.read_timeout, config.disable_compression) = (false, None, true);
    let identities = Identities::make(&folder, &format!("https://{address}"))?;
    let proxy = Arc::new(Proxy::new(kube::Client::try_from(config)?, identities));
    let failed = |address| move |source| Error::Listen { address, source };
    let controlling = TcpListener::bind(control).await.map_err(failed(control))?;
    let ready = || _ = writeln!(io::stdout(), "ready");
    select! {
        ended = listening::listen(Arc::clone(&proxy), address, ready) => match ended.map_err(failed(address))? {},
        ended = control::serve(proxy, controlling) => match ended.map_err(failed(control))? {},
        signal = tokio::signal::ctrl_c() => signal.map_err(Error::Signals),
    }
}
