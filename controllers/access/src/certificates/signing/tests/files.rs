//! Authorities in files.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::super::super::testing::authority;
use super::super::authority::{Authority, Files};

fn files(folder: &Path) -> Files {
    let file = |flag: &str, name: &str| (flag.to_owned(), folder.join(name));
    Files {
        certificate: file("cluster-signing-cert-file", "ca.crt"),
        key: file("cluster-signing-key-file", "ca.key"),
    }
}

fn write(folder: &Path, certificate: &str, key: &str) {
    fs::write(folder.join("ca.crt"), certificate).unwrap();
    fs::write(folder.join("ca.key"), key).unwrap();
}

#[test]
fn an_error_names_the_flag_and_the_file() {
    let (certificate, key) = authority("a");
    let (_, other_key) = authority("b");
    let not_a_key = "data does not contain a valid RSA, ECDSA or Ed25519 private key";
    for (name, certificate, key, flag, file, why) in [
        ("no certificate", "", key.as_str(), "cert", "ca.crt", "expected 1 certificate, found 0"),
        (
            "two certificates",
            &(certificate.clone() + &certificate),
            &key,
            "cert",
            "ca.crt",
            "expected 1 certificate, found 2",
        ),
        ("a key as certificate", &key, &key, "cert", "ca.crt", "expected 1 certificate, found 0"),
        (
            "no DER",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            &key,
            "cert",
            "ca.crt",
            "the certificate is malformed",
        ),
        ("no key", &certificate, "", "key", "ca.key", not_a_key),
        ("a certificate as key", &certificate, &certificate, "key", "ca.key", not_a_key),
        (
            "another key",
            &certificate,
            &other_key,
            "key",
            "ca.key",
            "the private key does not match the certificate's public key",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), certificate, key);
        let error = Authority::load(files(folder.path())).err().unwrap().to_string();
        let path = folder.path().join(file);
        let expected = format!("--cluster-signing-{flag}-file: {}: {why}", path.display());
        assert!(error.starts_with(&expected), "{name}: {error}");
    }
    let missing = Authority::load(files(Path::new("/nowhere"))).err().unwrap().to_string();
    assert!(missing.starts_with("--cluster-signing-cert-file: /nowhere/ca.crt: "), "{missing}");
}

/// Waits until a reader has opened a named pipe.
fn open_for_reader(pipe: &Path) -> fs::File {
    fs::OpenOptions::new().write(true).open(pipe).unwrap()
}

#[tokio::test]
async fn a_file_that_does_not_answer_holds_up_no_other_signature() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = authority("a");
    write(folder.path(), &certificate, &key);
    let loaded = Arc::new(Authority::load(files(folder.path())).unwrap());
    let first = loaded.current().await;

    let path = folder.path().join("ca.crt");
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut slow = JoinSet::new();
    slow.spawn({
        let loaded = Arc::clone(&loaded);
        async move { loaded.current().await }
    });
    let pipe = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || open_for_reader(&path)).await.unwrap()
    };
    // A new file takes the place of the pipe, which is still being read.
    let (new_certificate, new_key) = authority("b");
    fs::remove_file(&path).unwrap();
    write(folder.path(), &new_certificate, &new_key);
    let second = tokio::time::timeout(Duration::from_secs(30), loaded.current()).await.expect("no wait");
    assert!(!Arc::ptr_eq(&first, &second));
    drop(pipe);
    assert!(
        Arc::ptr_eq(&second, &slow.join_next().await.unwrap().unwrap()),
        "an older read replaces no newer one"
    );
}

#[tokio::test]
async fn files_are_read_again_and_wrong_ones_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = authority("a");
    write(folder.path(), &certificate, &key);
    let loaded = Arc::new(Authority::load(files(folder.path())).unwrap());
    let first = loaded.current().await;
    assert!(Arc::ptr_eq(&first, &loaded.current().await), "files that do not change are not decoded again");

    let (new_certificate, new_key) = authority("b");
    fs::write(folder.path().join("ca.crt"), &new_certificate).unwrap();
    assert!(Arc::ptr_eq(&first, &loaded.current().await), "the key has not been replaced yet");
    fs::write(folder.path().join("ca.key"), &new_key).unwrap();
    let second = loaded.current().await;
    assert!(!Arc::ptr_eq(&first, &second));

    fs::remove_file(folder.path().join("ca.key")).unwrap();
    assert!(Arc::ptr_eq(&second, &loaded.current().await));
}
