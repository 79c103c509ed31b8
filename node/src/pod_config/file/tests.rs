//! Folders in, pods out; and the source at work.

use std::fs;
use std::path::Path;

use super::manifests::Manifests;
use super::*;
use crate::pod_config::{PodConfig, PodOperation, PodUpdate, Source, SourcePod};

fn manifest(name: &str, image: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: {image}}}]}}}}"
    )
}

fn names(pods: &[SourcePod]) -> Vec<String> {
    pods.iter().map(|pod| pod.pod().unwrap().metadata.name.clone().unwrap()).collect()
}

fn read(manifests: &mut Manifests) -> Vec<String> {
    names(&manifests.read().unwrap())
}

#[test]
fn a_folder_gives_the_pods_of_its_files_but_not_of_hidden_ones_and_folders() {
    let folder = tempfile::tempdir().unwrap();
    let mut manifests = Manifests::new(folder.path().into(), "n");
    assert_eq!(read(&mut manifests), [""; 0]);
    fs::write(folder.path().join("b.yaml"), manifest("b", "i")).unwrap();
    fs::write(folder.path().join("a.json"), manifest("a", "i")).unwrap();
    fs::write(folder.path().join(".c.yaml"), manifest("c", "i")).unwrap();
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::write(folder.path().join("d/d.yaml"), manifest("d", "i")).unwrap();
    assert_eq!(read(&mut manifests), ["a-n", "b-n"]);
}

#[test]
fn a_path_may_be_a_file_and_one_that_is_not_there_has_no_pods() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.yaml");
    let mut manifests = Manifests::new(path.clone(), "n");
    assert_eq!(read(&mut manifests), [""; 0]);
    fs::write(&path, manifest("a", "i")).unwrap();
    assert_eq!(read(&mut manifests), ["a-n"]);
    fs::remove_file(&path).unwrap();
    assert_eq!(read(&mut manifests), [""; 0]);
}

#[test]
fn a_bad_manifest_hurts_no_other_and_keeps_what_it_gave_before() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good.yaml"), folder.path().join("bad.yaml"));
    let mut manifests = Manifests::new(folder.path().into(), "n");
    fs::write(&good, manifest("good", "i")).unwrap();
    fs::write(&bad, "{kind: Pod, apiVersion: v1}").unwrap();
    assert_eq!(read(&mut manifests), ["good-n"]);
    fs::write(&bad, manifest("bad", "i")).unwrap();
    assert_eq!(read(&mut manifests), ["bad-n", "good-n"]);
    for broken in ["{", "", "{apiVersion: v1, kind: Pod, metadata: {name: bad}}"] {
        fs::write(&bad, broken).unwrap();
        assert_eq!(read(&mut manifests), ["bad-n", "good-n"], "{broken:?} is not absence");
    }
    fs::remove_file(&bad).unwrap();
    assert_eq!(read(&mut manifests), ["good-n"]);
}

#[test]
fn files_that_did_not_change_give_the_very_same_pods() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.yaml");
    let mut manifests = Manifests::new(folder.path().into(), "n");
    fs::write(&path, manifest("a", "one")).unwrap();
    let first = manifests.read().unwrap();
    assert!(first[0].is(&manifests.read().unwrap()[0]));
    fs::write(&path, manifest("a", "two")).unwrap();
    let second = manifests.read().unwrap();
    assert_ne!(first[0].uid(), second[0].uid(), "another manifest is another pod");
    // The state before, put back after a broken one, is taken in again.
    fs::write(&path, "{").unwrap();
    manifests.read().unwrap();
    fs::write(&path, manifest("a", "two")).unwrap();
    assert_eq!(manifests.read().unwrap()[0].uid(), second[0].uid());
}

#[test]
fn of_two_files_that_name_a_pod_the_later_counts() {
    let folder = tempfile::tempdir().unwrap();
    let mut manifests = Manifests::new(folder.path().into(), "n");
    fs::write(folder.path().join("1.yaml"), manifest("a", "one")).unwrap();
    fs::write(folder.path().join("2.yaml"), manifest("a", "two")).unwrap();
    let pods = manifests.read().unwrap();
    assert_eq!(pods.len(), 1);
    let image = pods[0].pod().unwrap().spec.as_ref().unwrap().containers[0].image.clone();
    assert_eq!(image.as_deref(), Some("two"));
}

#[test]
fn a_slash_at_the_end_of_the_path_changes_no_uid() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), manifest("a", "i")).unwrap();
    let slashed = format!("{}/", folder.path().display());
    let uid = |path: &Path| Manifests::new(path.into(), "n").read().unwrap()[0].uid();
    assert_eq!(uid(folder.path()), uid(Path::new(&slashed)));
}

/// What comes next, within a time that only a broken source needs.
async fn next(updates: &mut tokio::sync::mpsc::Receiver<PodUpdate>) -> (PodOperation, Vec<String>) {
    let update = tokio::time::timeout(Duration::from_secs(10), updates.recv()).await;
    let update = update.expect("an update must come").expect("the source must be alive");
    (update.op, update.pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect())
}

#[tokio::test]
async fn changes_are_told_as_they_happen() {
    let folder = tempfile::tempdir().unwrap();
    let (config, mut updates) = PodConfig::new(None);
    let stop = CancellationToken::new();
    let source = tokio::task::JoinSet::from_iter([run(
        folder.path().into(),
        "n",
        Duration::from_secs(3600),
        config.source(Source::File),
        stop.clone(),
    )]);
    assert_eq!(next(&mut updates).await, (PodOperation::Add, vec![]), "an empty folder was heard");
    let path = folder.path().join("a.yaml");
    fs::write(&path, manifest("a", "one")).unwrap();
    assert_eq!(next(&mut updates).await, (PodOperation::Add, vec!["a-n".to_owned()]));
    fs::write(folder.path().join(".b"), manifest("a", "two")).unwrap();
    fs::rename(folder.path().join(".b"), &path).unwrap();
    assert_eq!(next(&mut updates).await, (PodOperation::Remove, vec!["a-n".to_owned()]));
    assert_eq!(next(&mut updates).await, (PodOperation::Add, vec!["a-n".to_owned()]));
    fs::remove_file(&path).unwrap();
    assert_eq!(next(&mut updates).await, (PodOperation::Remove, vec!["a-n".to_owned()]));
    stop.cancel();
    source.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_comes_later_is_found_and_everything_is_read_again_each_period() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("manifests");
    let (config, mut updates) = PodConfig::new(None);
    let stop = CancellationToken::new();
    let source = tokio::task::JoinSet::from_iter([run(
        folder.clone(),
        "n",
        CHECK_FREQUENCY,
        config.source(Source::File),
        stop.clone(),
    )]);
    assert_eq!(next(&mut updates).await, (PodOperation::Add, vec![]));
    // What the folder links to is not watched: only the next reading finds what is written there.
    let real = parent.path().join("real.yaml");
    fs::write(&real, manifest("a", "one")).unwrap();
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&real, folder.join("a.yaml")).unwrap();
    assert_eq!(next(&mut updates).await, (PodOperation::Add, vec!["a-n".to_owned()]));
    fs::write(&real, manifest("b", "one")).unwrap();
    let before = Instant::now();
    let update = updates.recv().await.unwrap();
    assert_eq!(update.op, PodOperation::Remove);
    assert!(before.elapsed() <= CHECK_FREQUENCY + Duration::from_secs(1), "{:?}", before.elapsed());
    stop.cancel();
    source.join_all().await;
}
