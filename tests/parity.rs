//! The embedded API server answers as the real one does.
//!
//! The scripts in `parity/cases` are sent to both, and the answers are compared after masking of what can't be equal: uids, times,
//! versions (their order is kept), generated names and addresses. What is meant to differ stands in `parity/meant.rs`, with its
//! reason; whatever else differs fails the test, and so does an entry of that table that has become untrue.
//!
//! The real server runs where `KUBEBUILDER_ASSETS` names its folder. Elsewhere the requests are sent to the embedded one
//! alone, which may not fail on any, and the test says that it compared nothing.
#![allow(
    clippy::explicit_write,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on fails, nobody uses it, and what it did not do is said past the capture"
)]

#[path = "parity/compare.rs"]
mod compare;
#[path = "parity/mask.rs"]
mod mask;
#[path = "parity/meant.rs"]
mod meant;
#[allow(dead_code, reason = "other tests need more of it")]
#[path = "parity/run.rs"]
mod run;
#[path = "parity/script.rs"]
mod script;

use std::io::Write as _;
use std::path::Path;

use compare::{Difference, Pairs};
use script::Script;
use steersman_apiserver::TestServer;
use support::real;

macro_rules! scripts {
    ($($name:ident)*) => {
        /// All scripts, so that none lies in the folder unused.
        const SCRIPTS: &[&str] = &[$(stringify!($name)),*];

        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                hold_to_the_real_one(stringify!($name)).await;
            }
        )*
    };
}

scripts! {
    apply
    batch
    deletes
    discovery
    field_validation
    fields
    limits
    lists
    metadata
    objects
    others
    patches
    pods
    protocol
    quotas
    services
    subresources
    watches
    workloads
}

async fn hold_to_the_real_one(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/parity/cases/{name}.http"));
    let script = Script::parse(name, &std::fs::read_to_string(path).unwrap());
    let embedded = TestServer::start().await;
    let ours = run::run(&script, embedded.config());
    let Some(assets) = real::assets() else {
        // Past the capture of a test's output: that nothing was compared must be seen.
        writeln!(std::io::stderr(), "{name}: not compared, KUBEBUILDER_ASSETS names no real server").unwrap();
        for (step, answer) in script.steps.iter().zip(ours.await) {
            assert_ne!(answer.body["reason"], "InternalError", "{}: {answer:#?}", step.title);
        }
        return;
    };
    let real = real::shared(&assets).await;
    let (ours, theirs) = tokio::join!(ours, run::run(&script, real.config()));
    let (ours, theirs) = (mask::mask(&script, ours), mask::mask(&script, theirs));
    let mut report = String::new();
    let mut pairs = Pairs::default();
    let mut used = meant::Used::default();
    for ((step, ours), theirs) in script.steps.iter().zip(&ours).zip(&theirs) {
        let mut differences = pairs.differences(theirs, ours);
        differences.retain(|difference| !used.excuses(name, &step.title, &difference.at));
        report += &Difference::report(name, step, &differences);
    }
    for (step, why) in used.unused(name) {
        report += &format!("no longer differs, take it out of the table: {step} ({why})\n");
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn every_script_is_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/cases");
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        assert!(SCRIPTS.contains(&file.trim_end_matches(".http")), "{file} is not in the list");
    }
    for script in meant::scripts() {
        assert!(SCRIPTS.contains(&script), "no such script: {script}");
    }
}
