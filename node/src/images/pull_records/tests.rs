//! Who must pull what is at hand.

use std::convert::Infallible;

use tempfile::TempDir;

use super::*;
use crate::images::credentials::{Login, SecretCoordinates};

const IMAGE: &str = "reg.io/app:1";
const REF: &str = "sha256:1";

fn credential(name: &str) -> Credential {
    let secret =
        SecretCoordinates { namespace: "shop".into(), name: name.into(), uid: format!("uid-{name}") };
    let login = Login { username: name.into(), ..Login::default() };
    Credential { login, secret: Some(secret) }
}

fn records(folder: &TempDir) -> PullRecords {
    PullRecords::open(folder.path(), VerificationPolicy::default(), Metrics::new()).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn must_pull(records: &PullRecords, credentials: &[Credential]) -> bool {
    let credentials = || Ok::<_, Infallible>(credentials.to_vec());
    records.must_pull(IMAGE, REF, credentials, at(100)).unwrap()
}

fn image(id: &str, tag: &str) -> v1::Image {
    v1::Image { id: id.into(), repo_tags: vec![tag.into()], ..Default::default() }
}

#[test]
fn what_the_node_did_not_pull_may_be_used_by_all() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!must_pull(&records(&folder), &[]));
}

#[test]
fn what_was_pulled_with_a_secret_is_for_those_who_have_it_even_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let pulling = records(&folder);
    pulling.begin(IMAGE).unwrap();
    pulling.pulled(IMAGE, REF, Some(&credential("a")), at(1));
    for records in [pulling, records(&folder)] {
        assert!(!must_pull(&records, &[credential("a")]));
        assert!(must_pull(&records, &[credential("b")]));
        assert!(must_pull(&records, &[]));
    }
}

#[test]
fn what_was_pulled_without_a_secret_is_for_all_and_their_secrets_are_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(&folder);
    records.begin(IMAGE).unwrap();
    records.pulled(IMAGE, REF, None, at(1));
    assert_eq!(records.must_pull(IMAGE, REF, || Err("broken"), at(2)), Ok(false));
}

#[test]
fn broken_credentials_fail_where_they_matter() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(&folder);
    records.begin(IMAGE).unwrap();
    records.pulled(IMAGE, REF, Some(&credential("a")), at(1));
    assert_eq!(records.must_pull(IMAGE, REF, || Err("broken"), at(2)), Err("broken"));
}

#[test]
fn while_a_pull_is_under_way_others_must_pull_too() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(&folder);
    records.begin(IMAGE).unwrap();
    records.begin(IMAGE).unwrap();
    records.failed(IMAGE);
    assert!(must_pull(&records, &[]));
    records.failed(IMAGE);
    assert!(!must_pull(&records, &[]));
}

#[test]
fn a_pull_given_up_leaves_its_intent_until_the_next_one_ends() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(&folder);
    records.begin(IMAGE).unwrap();
    records.given_up(IMAGE);
    assert!(must_pull(&records, &[]));
    records.begin(IMAGE).unwrap();
    records.failed(IMAGE);
    assert!(!must_pull(&records, &[]));
}

#[test]
fn an_image_that_came_while_the_node_was_away_must_be_pulled_by_who_wants_it() {
    let folder = tempfile::tempdir().unwrap();
    records(&folder).begin(IMAGE).unwrap();
    records(&folder).begin("reg.io/never:1").unwrap();
    let records = records(&folder);
    records.settle(&[image(REF, IMAGE), image("sha256:2", "reg.io/other:1")], at(5)).unwrap();
    assert!(must_pull(&records, &[]));
    assert_eq!((records.intents.count().unwrap(), records.pulled.count().unwrap()), (1, 1));
}

#[test]
fn records_of_images_out_of_use_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(&folder);
    for (image, image_ref, updated) in [("a", "sha256:a", 10), ("b", "sha256:b", 10), ("c", "sha256:c", 30)] {
        records.begin(image).unwrap();
        records.pulled(image, image_ref, Some(&credential("a")), at(updated));
    }
    records.prune(&["sha256:a".to_owned()].into(), at(20)).unwrap();
    let mut left: Vec<_> =
        records.pulled.list::<Pulled>().unwrap().into_iter().map(|record| record.image_ref).collect();
    left.sort();
    assert_eq!(left, ["sha256:a", "sha256:c"]);
}

#[test]
fn a_record_that_cannot_be_read_makes_who_wants_the_image_pull_it() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(&folder);
    records.begin(IMAGE).unwrap();
    records.pulled(IMAGE, REF, None, at(1));
    let pulled = folder.path().join("image_manager/pulled");
    let file = std::fs::read_dir(&pulled).unwrap().next().unwrap().unwrap().path();
    std::fs::write(file, "{").unwrap();
    assert!(must_pull(&records, &[]));
    records.begin(IMAGE).unwrap();
    records.pulled(IMAGE, REF, None, at(2));
    assert!(!must_pull(&records, &[]));
}
