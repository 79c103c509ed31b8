//! Builders of certificate requests and authorities, for tests.

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, IsCa, KeyPair, SanType,
};

use super::request::Request;

/// A request under construction.
#[derive(Clone)]
pub(super) struct Csr {
    common_name: String,
    organizations: Vec<String>,
    names: Vec<SanType>,
}

/// A request for this common name.
pub(super) fn csr(common_name: &str) -> Csr {
    Csr { common_name: common_name.to_owned(), organizations: Vec::new(), names: Vec::new() }
}

impl Csr {
    pub(super) fn organization(mut self, organization: &str) -> Self {
        self.organizations.push(organization.to_owned());
        self
    }

    pub(super) fn dns(self, name: &str) -> Self {
        self.named(SanType::DnsName(ia5(name)))
    }

    pub(super) fn email(self, address: &str) -> Self {
        self.named(SanType::Rfc822Name(ia5(address)))
    }

    pub(super) fn uri(self, uri: &str) -> Self {
        self.named(SanType::URI(ia5(uri)))
    }

    pub(super) fn ip(self, address: &str) -> Self {
        self.named(SanType::IpAddress(address.parse().unwrap()))
    }

    fn named(mut self, name: SanType) -> Self {
        self.names.push(name);
        self
    }

    /// The request in PEM, for a new key.
    pub(super) fn pem(&self) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        if !self.common_name.is_empty() {
            params.distinguished_name.push(DnType::CommonName, self.common_name.as_str());
        }
        // rcgen keeps one value of each type: a second organization has the type by its number.
        for (at, organization) in self.organizations.iter().enumerate() {
            let kind =
                if at == 0 { DnType::OrganizationName } else { DnType::CustomDnType(vec![2, 5, 4, 10]) };
            params.distinguished_name.push(kind, DnValue::Utf8String(organization.clone()));
        }
        params.subject_alt_names.clone_from(&self.names);
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    }

    /// The request as the controllers read it.
    pub(super) fn request(&self) -> Request {
        Request::from_pem(self.pem().as_bytes()).unwrap()
    }
}

fn ia5(text: &str) -> Ia5String {
    text.try_into().unwrap()
}

/// The certificate and the key of a new authority, both in PEM.
pub(super) fn authority(common_name: &str) -> (String, String) {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}
