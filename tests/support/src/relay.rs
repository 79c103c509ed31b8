//! A network between a manager and its API server, which a test can cut.

use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Relays TCP connections to an API server.
///
/// While it is cut, no byte passes, and each end sees only that nothing comes, as with lost packets. When it heals, the
/// connections of the time before end without another byte; new ones pass.
pub struct Relay {
    /// Its address, in place of the API server's.
    pub address: String,
    state: Arc<watch::Sender<State>>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    is_cut: bool,
    /// How often it has healed. A connection belongs to the time in which it was made.
    healed: u32,
}

impl Relay {
    /// One to the server at this address.
    pub async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port of the loopback must be free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let state = Arc::new(watch::Sender::new(State { is_cut: false, healed: 0 }));
        let (mut tasks, states) = (JoinSet::new(), state.subscribe());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(relay(stream, server.clone(), states.clone()));
            }
        });
        Self { address, state, _tasks: tasks }
    }

    /// Lets nothing pass.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.is_cut = true);
    }

    /// Lets new connections pass, and ends the others.
    pub fn heal(&self) {
        self.state.send_modify(|state| *state = State { is_cut: false, healed: state.healed + 1 });
    }
}

/// Relays one connection until either side ends it, or until it is cut and healed.
async fn relay(mut client: TcpStream, server: String, mut states: watch::Receiver<State>) {
    let born = states.borrow_and_update().healed;
    if states.borrow().is_cut {
        let _ = states.wait_for(|state| state.healed != born).await;
        return;
    }
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    tokio::select! {
        biased;
        _ = states.wait_for(|state| state.is_cut || state.healed != born) => {}
        _ = copy_bidirectional(&mut client, &mut server) => return,
    }
    let _ = states.wait_for(|state| state.healed != born).await;
}
