//! Which files which signer uses.

use super::super::super::rules::{CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN};
use super::super::{CsrSigningOptions, FlagError};

/// The settings after these flags.
fn options(flags: &[&str]) -> CsrSigningOptions {
    use steersman_controller::options::Options;
    let mut options = CsrSigningOptions::default();
    for flag in flags {
        let (name, value) = flag.split_once('=').unwrap();
        let flag = CsrSigningOptions::flags().into_iter().find(|flag| flag.name == name).unwrap();
        (flag.set)(&mut options, value).unwrap();
    }
    options
}

fn signers(flags: &[&str]) -> Result<Vec<(&'static str, String)>, FlagError> {
    let files = options(flags).files()?;
    let show = |path: &std::path::Path| path.display().to_string();
    Ok(files
        .into_iter()
        .map(|(signer, files)| (signer, show(&files.certificate.1) + "+" + &show(&files.key.1)))
        .collect())
}

#[test]
fn one_pair_serves_all_signers() {
    let all = [CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN];
    let expected = all.map(|signer| (signer, "c+k".to_owned())).to_vec();
    assert_eq!(signers(&["cluster-signing-cert-file=c", "cluster-signing-key-file=k"]), Ok(expected));
}

#[test]
fn a_pair_of_its_own_serves_a_signer_and_no_other() {
    for (infix, signer) in [
        ("kubelet-serving", KUBELET_SERVING),
        ("kubelet-client", KUBELET_CLIENT),
        ("kube-apiserver-client", CLIENT),
        ("legacy-unknown", LEGACY_UNKNOWN),
    ] {
        let [certificate, key] = ["cert=c", "key=k"].map(|file| {
            let (file, path) = file.split_once('=').unwrap();
            format!("cluster-signing-{infix}-{file}-file={path}")
        });
        assert_eq!(signers(&[&certificate, &key]), Ok(vec![(signer, "c+k".to_owned())]));
        let error = signers(&[&key]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("--cluster-signing-{infix}-key-file is specified")), "{error}");
        assert!(signers(&[&certificate]).is_err());
        let both = ["cluster-signing-cert-file=c", "cluster-signing-key-file=k", &certificate, &key];
        assert_eq!(signers(&both), Err(FlagError::Both));
    }
}

#[test]
fn without_a_whole_pair_nothing_is_signed() {
    for flags in [&[][..], &["cluster-signing-cert-file=c"], &["cluster-signing-key-file=k"]] {
        assert_eq!(signers(flags), Ok(Vec::new()), "{flags:?}");
    }
}
