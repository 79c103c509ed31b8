//! What happens between the steps of a write. The clock is asked between them, so a clock that does something else as well
//! makes each interleaving happen for sure.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::clock::Clock;
use crate::rest::options::DeleteOptions;
use crate::rest::{Outbound, Settings};

/// A server with a namespace `shop`, whose clock calls `asked` each time it is asked from then on.
fn server_with(asked: impl Fn(&ApiServer) + Send + Sync + 'static) -> ApiServer {
    let known: Arc<OnceLock<ApiServer>> = Arc::default();
    let server = Arc::clone(&known);
    let clock = Clock::from_fn(move || {
        if let Some(server) = server.get() {
            asked(server);
        }
        Timestamp::UNIX_EPOCH
    });
    let settings = Settings { clock: Some(clock), ..Settings::default() };
    let server = ApiServer::new(settings, Outbound::new(None, None).unwrap());
    let shop = json!({"metadata": {"name": "shop"}});
    server.add_named(None, &resource(&server, "namespaces"), "", shop, Commit::Write).unwrap();
    assert!(known.set(server.clone()).is_ok());
    server
}

fn resource(server: &ApiServer, plural: &str) -> Arc<Resource> {
    Arc::clone(server.resources().get("", "v1", plural).unwrap())
}

#[test]
fn nothing_is_made_in_a_namespace_that_ends_meanwhile() {
    for ends_at in 0.. {
        let count = AtomicUsize::new(0);
        let server = server_with(move |server| {
            if count.fetch_add(1, Ordering::Relaxed) == ends_at {
                let shop = server.store().get(&"namespaces".into(), &ObjectKey::cluster("shop")).unwrap();
                server.store().remove(&shop).unwrap();
            }
        });
        let maps = resource(&server, "configmaps");
        let map = json!({"metadata": {"name": "late"}});
        let added = server.add_named(None, &maps, "shop", map, Commit::Write);
        if server.store().get(&"namespaces".into(), &ObjectKey::cluster("shop")).is_some() {
            assert!(added.is_ok() && ends_at > 0, "the clock must be asked, or nothing is shown");
            return;
        }
        assert_eq!(
            server.store().len(&maps.table),
            0,
            "its namespace ended when the clock was asked {ends_at} times"
        );
        let refusal = added.err().unwrap().status;
        assert_eq!((refusal.code, refusal.message.as_str()), (404, "namespaces \"shop\" not found"));
    }
}

#[test]
fn a_namespace_is_marked_in_its_turn_so_that_no_create_is_half_way_through() {
    let in_turn = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&in_turn);
    let server = server_with(move |server| seen.store(server.turn().try_lock().is_none(), Ordering::Relaxed));
    let namespaces = resource(&server, "namespaces");
    server.remove(&namespaces, "", "shop", &DeleteOptions::default()).unwrap();
    assert!(in_turn.load(Ordering::Relaxed), "the delete did not wait for its turn");
}
