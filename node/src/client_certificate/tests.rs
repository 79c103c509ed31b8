//! Warnings of certificates that expire, as a table and at work.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::ClientCertificate;
use super::expiry::{Expiry, Validity, assess};
use crate::events::testing::Kept;
use crate::node_status::events::node_reference;

const HOURS: i64 = 60 * 60;
const DAYS: i64 = 24 * HOURS;

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Valid from the beginning of 2027 until the end of April 10, 2027: for 100 days.
fn certificate() -> String {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2027, 1, 1), date_time_ymd(2027, 4, 11));
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

#[test]
fn looks_come_closer_as_the_end_does() {
    let validity =
        Validity { not_before: time("2027-01-01T00:00:00Z"), not_after: time("2027-04-11T00:00:00Z") };
    for (left, expiry, next) in [
        (100 * DAYS, Expiry::Far, DAYS),
        (10 * DAYS + 3 * HOURS, Expiry::Far, 3 * HOURS),
        (10 * DAYS, Expiry::Near, DAYS),
        (DAYS, Expiry::Near, 12 * HOURS),
        (HOURS, Expiry::Near, HOURS / 2),
        (1, Expiry::Near, 600),
        (0, Expiry::Past, HOURS),
        (-DAYS, Expiry::Past, HOURS),
    ] {
        let now = validity.not_after - SignedDuration::from_secs(left);
        let next = Duration::from_secs(next.try_into().unwrap());
        assert_eq!(assess(validity, now), (expiry, next), "{left}");
    }
    // A certificate whose times are swapped has expired.
    let swapped = Validity { not_before: validity.not_after, not_after: validity.not_before };
    assert_eq!(assess(swapped, validity.not_after).0, Expiry::Past);
}

#[test]
fn a_kubeconfigs_own_certificate_wins_over_a_file() {
    let user = |json: serde_json::Value| ClientCertificate::of(&serde_json::from_value(json).unwrap());
    let both = json!({"client-certificate-data": "cGVt", "client-certificate": "/pki/client.pem"});
    assert!(matches!(user(both), Some(ClientCertificate::Inline(pem)) if pem == b"pem"));
    let file = json!({"client-certificate": "/pki/client.pem"});
    assert!(matches!(user(file), Some(ClientCertificate::File(path)) if path.ends_with("client.pem")));
    assert!(user(json!({"token": "t"})).is_none());
    assert!(user(json!({"client-certificate": ""})).is_none());
}

#[test]
fn validity_is_read_of_files_and_of_kubeconfigs() {
    let pem = certificate();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("client.pem");
    // As kubelets write it: with the key.
    std::fs::write(&path, format!("{}{pem}", KeyPair::generate().unwrap().serialize_pem())).unwrap();
    for certificate in [ClientCertificate::Inline(pem.into_bytes()), ClientCertificate::File(path)] {
        let validity = certificate.validity().unwrap();
        assert_eq!(validity.not_before, time("2027-01-01T00:00:00Z"));
        assert_eq!(validity.not_after, time("2027-04-11T00:00:00Z"));
    }
    let none = ClientCertificate::Inline(b"none".to_vec());
    assert!(none.validity().unwrap_err().to_string().starts_with("is no PEM certificate: "));
    assert!(ClientCertificate::File(folder.path().join("absent")).validity().is_err());
}

#[tokio::test(start_paused = true)]
async fn the_node_tells_of_a_certificate_that_expires_until_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("client.pem");
    std::fs::write(&path, certificate()).unwrap();
    let (events, stop) = (Arc::new(Kept::default()), CancellationToken::new());
    let (wall, began) = (time("2027-03-01T00:00:00Z"), Instant::now());
    let clock = move || wall + SignedDuration::try_from(began.elapsed()).unwrap();
    let watch = ClientCertificate::File(path.clone()).watch(
        node_reference("n"),
        Arc::<Kept>::clone(&events),
        clock,
        stop.clone(),
    );
    let mut watching = JoinSet::new();
    watching.spawn(watch);
    let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);

    // April 1 begins the last tenth.
    sleep(days(30)).await;
    assert_eq!(events.all(), []);
    sleep(days(5)).await;
    let early = events.all();
    assert!(matches!(early.len(), 4..=6), "{early:?}");
    assert_eq!((early[0].name.as_str(), early[0].reason), ("n", "ClientCertificateExpiring"));
    assert!(early[0].message.contains("client.pem) expires at 2027-04-11T00:00:00Z"), "{}", early[0].message);
    // One a day becomes many on the last day.
    sleep(days(5)).await;
    let before = events.all().len();
    sleep(days(1)).await;
    assert!(events.all().len() - before >= 6, "{before} of {}", events.all().len());
    sleep(days(1)).await;
    let all = events.reasons();
    assert_eq!(all.last(), Some(&"ClientCertificateExpired"));

    let mut params = CertificateParams::new(Vec::new()).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2027, 4, 1), date_time_ymd(2028, 4, 1));
    std::fs::write(&path, params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()).unwrap();
    sleep(days(1)).await;
    let told = events.all().len();
    sleep(days(200)).await;
    assert_eq!(events.all().len(), told);
    stop.cancel();
    watching.join_all().await;
}
