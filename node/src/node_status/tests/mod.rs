//! A machine, a runtime that can be told how it is, and builders.

mod live_node;
mod registration;
mod runtime;
mod setters;
mod statuses;

use k8s_openapi::api::core::v1::Node;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Inventory, Settings};
use crate::configuration::KubeletConfiguration;
use crate::cri::v1;
use crate::machine::{CgroupVersion, Facts};
use crate::sync_loop::RuntimeState;

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn node(value: Value) -> Node {
    read(value)
}

/// The node is called by its address: nobody need look that up.
const NAME: &str = "192.0.2.10";

/// Of a node that watches its memory alone.
fn settings() -> Settings {
    let eviction_hard = [("memory.available".to_owned(), "100Mi".to_owned())].into();
    let configuration = KubeletConfiguration { eviction_hard, ..KubeletConfiguration::default() };
    Settings::new(NAME, "v1.36.3", &configuration).unwrap()
}

fn facts() -> Facts {
    Facts {
        cpus: 4,
        memory: 8 << 30,
        swap: 0,
        huge_pages: Vec::new(),
        ephemeral_storage: 100 << 30,
        machine_id: "m-1".to_owned(),
        system_uuid: "u-1".to_owned(),
        boot_id: "b-1".to_owned(),
        boot_time: Some(1_700_000_000),
        kernel_version: "6.1.0".to_owned(),
        os_image: "Debian".to_owned(),
        architecture: "amd64",
        cgroup_version: CgroupVersion::V2,
    }
}

/// What a runtime that is well says of itself.
fn well_status() -> v1::RuntimeStatus {
    let conditions = ["RuntimeReady", "NetworkReady"].map(|kind| v1::RuntimeCondition {
        r#type: kind.to_owned(),
        status: true,
        ..v1::RuntimeCondition::default()
    });
    v1::RuntimeStatus { conditions: conditions.into() }
}

/// A runtime that is well.
fn well() -> (RuntimeState, Inventory) {
    let (state, inventory) = (RuntimeState::new(), Inventory::new());
    state.observe(&well_status(), Instant::now());
    inventory.change(|known| {
        known.said_how_it_is = true;
        known.version = Some(("containerd".to_owned(), "1.6.20~ds1".to_owned()));
    });
    (state, inventory)
}

fn status_of(node: &Node) -> Value {
    json!(node.status)
}
