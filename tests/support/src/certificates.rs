//! CertificateSigningRequests, and authorities that sign them.

use std::path::PathBuf;
use std::process::Command;

use http::{HeaderName, HeaderValue};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose, SanType,
};
use serde_json::{Value, json};
use steersman_api::Time;
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

use super::{Cluster, eventually};

pub const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
pub const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// The files of an authority.
pub struct Authority {
    folder: tempfile::TempDir,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let authority = Self { folder: tempfile::tempdir().unwrap() };
        authority.renew(name);
        authority
    }

    /// Replaces the authority by another one of this name.
    pub fn renew(&self, name: &str) {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        std::fs::write(self.file("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(self.file("ca.key"), key.serialize_pem()).unwrap();
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The flags that give this authority to one signer, which `infix` names, or to all signers if it is empty.
    pub fn flags(&self, infix: &str) -> [String; 2] {
        ["cert", "key"].map(|kind| {
            let file = self.file(if kind == "cert" { "ca.crt" } else { "ca.key" });
            format!("--cluster-signing-{infix}{kind}-file={}", file.display())
        })
    }

    /// Whether OpenSSL believes a certificate because of this authority.
    pub fn has_issued(&self, certificate: &[u8], purpose: &str) -> bool {
        let issued = self.file("issued.crt");
        std::fs::write(&issued, certificate).unwrap();
        let mut openssl = Command::new("openssl");
        openssl.args(["verify", "-purpose", purpose, "-CAfile"]);
        let output = openssl.arg(self.file("ca.crt")).arg(&issued).output().expect("openssl must start");
        println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        output.status.success()
    }
}

/// The requests of a cluster.
pub struct Requests {
    pub api: Api<CertificateSigningRequest>,
    /// Makes the names of this test's requests.
    prefix: String,
}

/// What a request asks for.
pub struct Asked<'a> {
    pub signer: &'a str,
    pub user: &'a str,
    pub groups: &'a [&'a str],
    pub names: &'a [&'a str],
    pub usages: &'a [&'a str],
    pub expiration_seconds: Option<i32>,
}

/// A kubelet's request for the API server.
pub const OF_KUBELET: Asked<'static> = Asked {
    signer: KUBELET_CLIENT,
    user: "system:node:n1",
    groups: &["system:nodes"],
    names: &[],
    usages: &["digital signature", "client auth"],
    expiration_seconds: None,
};

impl Requests {
    pub fn of(cluster: &Cluster) -> Self {
        Self { api: Api::all(cluster.client()), prefix: cluster.namespace.clone() }
    }

    /// The requests as another user makes them.
    pub fn by(cluster: &Cluster, user: &str, groups: &[&str]) -> Self {
        let mut config = cluster.config();
        let header = |name: &'static str, value: &str| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        config.headers.push(header("impersonate-user", user));
        config.headers.extend(groups.iter().map(|group| header("impersonate-group", group)));
        let client = kube::Client::try_from(config).unwrap();
        Self { api: Api::all(client), prefix: cluster.namespace.clone() }
    }

    pub fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    pub async fn ask(&self, name: &str, asked: &Asked<'_>) -> CertificateSigningRequest {
        let request = serde_json::from_value(self.manifest(name, asked)).unwrap();
        self.api.create(&PostParams::default(), &request).await.unwrap()
    }

    pub fn manifest(&self, name: &str, asked: &Asked<'_>) -> Value {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for group in asked.groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.distinguished_name.push(DnType::CommonName, asked.user);
        params.subject_alt_names = asked
            .names
            .iter()
            .map(|name| match name.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName((*name).try_into().unwrap()),
            })
            .collect();
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        json!({
            "metadata": {"name": self.name(name)},
            "spec": {
                "request": k8s_openapi::ByteString(pem.into_bytes()), "signerName": asked.signer,
                "usages": asked.usages, "expirationSeconds": asked.expiration_seconds,
            },
        })
    }

    /// Adds a condition, which was last written then.
    pub async fn decide(&self, name: &str, kind: &str, written: Option<Time>) {
        let condition = json!({"type": kind, "status": "True", "reason": "Test", "lastUpdateTime": written});
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        self.api.patch_approval(&self.name(name), &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn ask_and_approve(&self, name: &str, asked: &Asked<'_>) {
        self.ask(name, asked).await;
        self.decide(name, "Approved", None).await;
    }

    pub async fn get(&self, name: &str) -> CertificateSigningRequest {
        self.api.get(&self.name(name)).await.unwrap()
    }

    /// Waits for a certificate, and returns it in PEM.
    pub async fn issued(&self, name: &str) -> Vec<u8> {
        eventually(&format!("{name} gets its certificate"), || async {
            self.get(name).await.status?.certificate.map(|certificate| certificate.0)
        })
        .await
    }

    /// Waits for a condition, and returns its reason and message.
    pub async fn condition(&self, name: &str, kind: &str) -> (String, String) {
        eventually(&format!("{name} gets the condition {kind}"), || async {
            let conditions = self.get(name).await.status?.conditions?;
            let condition = conditions.into_iter().find(|condition| condition.type_ == kind)?;
            assert_eq!(condition.status, "True");
            assert!(condition.last_update_time.is_some() && condition.last_transition_time.is_some());
            Some((condition.reason.unwrap_or_default(), condition.message.unwrap_or_default()))
        })
        .await
    }

    pub async fn is_untouched(&self, name: &str) -> bool {
        let status = self.get(name).await.status.unwrap_or_default();
        status.certificate.is_none() && status.conditions.unwrap_or_default().is_empty()
    }
}

/// Calls `look` with the certificate in PEM.
pub fn with_certificate<T>(pem: &[u8], look: impl FnOnce(&X509Certificate<'_>) -> T) -> T {
    let block = Pem::iter_from_buffer(pem).next().unwrap().unwrap();
    let (_, certificate) = X509Certificate::from_der(&block.contents).unwrap();
    look(&certificate)
}

pub fn issuer(pem: &[u8]) -> String {
    with_certificate(pem, |certificate| certificate.issuer().to_string())
}
