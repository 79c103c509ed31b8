//! What settings keep from starting.

use prometheus::Registry;

use super::Rig;
use crate::agent::Agent;
use crate::kernel::Kernel;

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
