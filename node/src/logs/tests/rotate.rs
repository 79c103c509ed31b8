use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use flate2::read::GzDecoder;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::regular_file::make_pipe;
use crate::runtime::simulated::Fault;
use crate::runtime::{Code, Operation};

fn rotator(container: &Running, max_files: u32) -> LogRotator {
    let policy = RotatePolicy { max_size: 50, max_files, ..Default::default() };
    let folder = container.log.parent().unwrap();
    LogRotator::new(Arc::new(container.runtime.clone()), folder, policy).unwrap()
}

async fn rotate_and_compress(rotator: &LogRotator) {
    rotator.rotate_logs().await;
    rotator.compress_rotated().await;
}

fn names(container: &Running) -> Vec<String> {
    let folder = container.log.parent().unwrap();
    let mut names: Vec<_> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_policy_that_can_not_be_followed_is_refused() {
    let runtime = |policy| {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = tokio.enter();
        LogRotator::new(Arc::new(SimulatedRuntime::new(SimulatedConfig::default())), "/", policy).err()
    };
    let policy = RotatePolicy::default();
    assert_eq!(runtime(policy.clone()), None);
    assert_eq!(runtime(RotatePolicy { max_files: 1, ..policy.clone() }), Some(InvalidPolicy::MaxFiles(1)));
    assert_eq!(runtime(RotatePolicy { max_workers: 0, ..policy.clone() }), Some(InvalidPolicy::MaxWorkers));
    let often = RotatePolicy { interval: Duration::from_secs(2), ..policy };
    assert_eq!(runtime(often), Some(InvalidPolicy::Interval));
}

#[tokio::test]
async fn a_log_is_rotated_once_it_is_large() {
    let container = Running::start().await;
    let rotator = rotator(&container, 3);
    append(&container.log, &line(1, "stdout", "F", ""));
    rotator.rotate_logs().await;
    assert_eq!(names(&container), ["0.log"]);
    append(&container.log, &line(2, "stdout", "F", "two"));
    rotator.rotate_logs().await;
    assert_eq!(fs::metadata(&container.log).unwrap().len(), 0, "the runtime has opened a new one");
    let logs = all_logs(&container.log).unwrap();
    assert_eq!(logs.len(), 2);
    assert!(fs::read_to_string(&logs[0]).unwrap().ends_with(" two\n"));
}

#[tokio::test]
async fn earlier_files_are_compressed_the_oldest_and_leftovers_go() {
    let container = Running::start().await;
    let at = |suffix: &str| container.log.with_extension(format!("log.{suffix}"));
    for (suffix, text) in [
        ("20250101-000000.gz", "oldest"),
        ("20250102-000000.gz", "old"),
        ("20250103-000000", "plain"),
        // Left by a rotation that broke off.
        ("20250102-000000", "compressed already"),
        ("20250104-000000.gz.tmp", "half"),
    ] {
        fs::write(at(suffix), text).unwrap();
    }
    append(&container.log, &line(1, "stdout", "F", &"x".repeat(60)));
    assert_eq!(all_logs(&container.log).unwrap().len(), 4);
    rotate_and_compress(&rotator(&container, 4)).await;
    let names = names(&container);
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(names[..3], ["0.log", "0.log.20250102-000000.gz", "0.log.20250103-000000.gz"]);
    let mut text = String::new();
    GzDecoder::new(fs::File::open(at("20250103-000000.gz")).unwrap()).read_to_string(&mut text).unwrap();
    assert_eq!(text, "plain");
    tokio::task::spawn_blocking({
        let log = container.log.clone();
        move || remove_logs(&log).unwrap()
    })
    .await
    .unwrap();
    assert_eq!(all_logs(&container.log).unwrap(), std::slice::from_ref(&container.log));
    assert!(!container.log.exists());
}

#[tokio::test]
async fn a_log_goes_back_to_its_name_when_the_runtime_does_not_open_a_new_one() {
    let container = Running::start().await;
    append(&container.log, &line(1, "stdout", "F", &"x".repeat(60)));
    let fault = Fault::Fails { code: Code::Internal, message: "no".into() };
    container.runtime.inject(Operation::ReopenContainerLog, 1, fault);
    let rotator = rotator(&container, 3);
    rotator.rotate_logs().await;
    assert_eq!(names(&container), ["0.log"]);
    rotator.rotate_logs().await;
    assert_eq!(names(&container).len(), 2);
}

#[tokio::test]
async fn a_log_that_was_taken_away_is_made_again() {
    let container = Running::start().await;
    fs::remove_file(&container.log).unwrap();
    rotator(&container, 3).rotate_logs().await;
    assert_eq!(names(&container), ["0.log"]);
}

#[tokio::test]
async fn what_is_not_in_the_folder_of_logs_stays_as_it_is() {
    let container = Running::start().await;
    append(&container.log, &line(1, "stdout", "F", &"x".repeat(60)));
    let policy = RotatePolicy { max_size: 50, ..Default::default() };
    let rotator = LogRotator::new(Arc::new(container.runtime.clone()), "/var/log/pods", policy).unwrap();
    rotator.rotate_logs().await;
    assert_eq!(names(&container), ["0.log"]);
}

#[tokio::test]
async fn a_container_that_ended_keeps_its_log_whole() {
    let container = Running::start().await;
    append(&container.log, &line(1, "stdout", "F", &"x".repeat(60)));
    container.end();
    rotator(&container, 3).rotate_logs().await;
    assert_eq!(names(&container), ["0.log"]);
}

#[tokio::test]
async fn rotation_and_compression_run_until_they_are_stopped() {
    let container = Running::start().await;
    fs::write(container.log.with_extension("log.20250103-000000"), "plain").unwrap();
    append(&container.log, &line(1, "stdout", "F", &"x".repeat(60)));
    let (rotator, stop) = (rotator(&container, 3), CancellationToken::new());
    let rotated = async {
        while !names(&container).contains(&"0.log.20250103-000000.gz".to_owned()) {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let both = async { tokio::join!(rotator.run(stop.clone()), rotated) };
    tokio::time::timeout(Duration::from_secs(10), both).await.expect("a stopped rotator must return");
}

#[tokio::test]
async fn a_log_is_rotated_before_earlier_ones_are_compressed() {
    let container = Running::start().await;
    let earlier = container.log.with_extension("log.20250103-000000");
    fs::write(&earlier, "plain").unwrap();
    append(&container.log, &line(1, "stdout", "F", &"x".repeat(60)));
    container.runtime.inject(Operation::ReopenContainerLog, 1, Fault::Hangs);
    let rotator = rotator(&container, 4);
    let reopens = async {
        while !container.runtime.calls().iter().any(|call| call.operation == Operation::ReopenContainerLog) {
            tokio::task::yield_now().await;
        }
    };
    let deadline = Duration::from_secs(20);
    tokio::select! {
        () = rotator.rotate_logs() => panic!("the runtime hangs"),
        reached = tokio::time::timeout(deadline, reopens) => reached.expect("the runtime must be asked"),
    }
    assert!(earlier.exists(), "compressed before the log was out of the way: {:?}", names(&container));
}

#[tokio::test]
async fn a_log_is_rotated_though_an_earlier_one_can_not_be_compressed() {
    let container = Running::start().await;
    let earlier = container.log.with_extension("log.20250103-000000");
    fs::write(&earlier, "plain").unwrap();
    fs::create_dir(container.log.with_extension("log.20250103-000000.tmp")).unwrap();
    append(&container.log, &line(1, "stdout", "F", &"x".repeat(60)));
    rotate_and_compress(&rotator(&container, 4)).await;
    assert_eq!(fs::metadata(&container.log).unwrap().len(), 0, "the log grows on");
    assert_eq!(fs::read(&earlier).unwrap(), b"plain");
}

#[tokio::test]
async fn neither_links_nor_pipes_are_followed_by_rotation() {
    let container = Running::start().await;
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious".repeat(10)).unwrap();
    let at = |suffix: &str| container.log.with_extension(format!("log.{suffix}"));
    symlink(&precious, at("20250101-000000")).unwrap();
    make_pipe(&at("20250102-000000"));
    fs::write(at("20250103-000000"), "plain").unwrap();
    symlink(&precious, at("20250103-000000.tmp")).unwrap();
    append(&container.log, &line(1, "stdout", "F", &"x".repeat(60)));
    let rotator = rotator(&container, 5);
    let rotated = tokio::time::timeout(Duration::from_secs(20), rotate_and_compress(&rotator)).await;
    rotated.expect("nobody writes to the pipe");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious".repeat(10));
    assert!(!at("20250101-000000.gz").exists(), "somebody else's file was copied");
    assert!(at("20250103-000000.gz").symlink_metadata().unwrap().is_file());
    assert_eq!(fs::metadata(&container.log).unwrap().len(), 0);
    // Nor does a link make a log large.
    fs::remove_file(&container.log).unwrap();
    symlink(&precious, &container.log).unwrap();
    let before = names(&container);
    rotator.rotate_logs().await;
    assert_eq!(names(&container), before);
}
