//! What settings and credentials of a node make known, and what they keep from starting.

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use prometheus::Registry;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::{Rig, SOON};
use crate::agent::Agent;
use crate::client_certificate::ClientCertificate;
use crate::kernel::Kernel;

/// The first event with that reason.
async fn event(rig: &Rig, reason: &str) -> Event {
    let events: Api<Event> = Api::namespaced(rig.server.client(), "default");
    let told = async {
        loop {
            let all = events.list(&ListParams::default()).await.unwrap();
            match all.items.into_iter().find(|event| event.reason.as_deref() == Some(reason)) {
                Some(event) => return event,
                None => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(SOON, told).await.unwrap_or_else(|_| panic!("no event {reason} came"))
}

#[tokio::test]
async fn the_node_tells_of_guarantees_that_it_does_not_give() {
    let mut rig = Rig::new().await;
    let setting = "file k: cpuManagerPolicy: \"static\" is not supported in this version and has no effect";
    rig.unmet_guarantees = vec![setting.to_owned()];
    rig.start_agent();
    let event = event(&rig, "UnsupportedSetting").await;
    assert_eq!(event.message.as_deref(), Some(setting));
    assert_eq!(
        (event.involved_object.kind.as_deref(), event.type_.as_deref()),
        (Some("Node"), Some("Warning"))
    );
    rig.stop_agent().await;
}

#[tokio::test]
async fn the_node_tells_of_a_client_certificate_that_expired() {
    let mut rig = Rig::new().await;
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    let pem = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
    rig.client_certificate = Some(ClientCertificate::Inline(pem.into_bytes()));
    rig.start_agent();
    let event = event(&rig, "ClientCertificateExpired").await;
    assert_eq!(event.involved_object.name.as_deref(), Some("n"));
    rig.stop_agent().await;
}

#[tokio::test]
async fn a_kernel_that_differs_ends_the_start_where_it_is_protected() {
    let rig = Rig::new().await;
    let machine = tempfile::tempdir().unwrap();
    for (path, value) in [
        ("vm/overcommit_memory", "0"),
        ("vm/panic_on_oom", "0"),
        ("kernel/panic", "10"),
        ("kernel/panic_on_oops", "1"),
        ("kernel/keys/root_maxkeys", "1000000"),
        ("kernel/keys/root_maxbytes", "25000000"),
    ] {
        let file = machine.path().join("proc/sys").join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, value).unwrap();
    }
    let overcommit =
        || std::fs::read_to_string(machine.path().join("proc/sys/vm/overcommit_memory")).unwrap();
    let started = |protect: bool| {
        let (mut options, connections) = rig.settings();
        options.kernel = Some(Kernel::at(machine.path()));
        options.configuration.protect_kernel_defaults = protect;
        Agent::new(options, connections, Registry::new()).map(|_| ()).map_err(|error| error.to_string())
    };
    let refused = started(true).unwrap_err();
    assert!(
        refused.starts_with("protectKernelDefaults: ") && refused.contains("vm.overcommit_memory"),
        "{refused}"
    );
    assert_eq!(overcommit(), "0");
    assert_eq!(started(false), Ok(()));
    assert_eq!(overcommit(), "1");
    assert_eq!(started(true), Ok(()));
}
