//! A chain of certificates that costs its verifier all it is willing to spend.
//!
//! All certificates have the same subject and issuer, and each has its own key. A verifier that builds a path from the first
//! certificate to an authority must therefore try all the others at each place, in any order.

use bytes::Bytes;
use clap::Args;
use futures::future::join_all;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::task::JoinSet;

use super::Answers;
use crate::Error;
use crate::connect::Target;

#[derive(Args, Debug)]
pub(crate) struct Certificates {
    /// Certificates in the chain besides the client's own.
    #[arg(long, default_value_t = 12)]
    chain: usize,
    /// Connections at a time, each with one request at a time.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    #[arg(skip)]
    pub(super) answers: Answers,
}

impl Certificates {
    pub(super) async fn run(&self, target: &Target) -> Result<(), Error> {
        let (chain, key) = chain(self.chain)?;
        let target = target.with_certificate(chain, key)?;
        let connections = (0..self.connections).map(|_| async {
            loop {
                if self.ask(&target).await.is_none() {
                    self.answers.count("connection ended");
                    tokio::task::yield_now().await;
                }
            }
        });
        join_all(connections).await;
        Ok(())
    }

    /// Sends one request after another on one connection, until the server ends it.
    async fn ask(&self, target: &Target) -> Option<()> {
        let stream = target.connect().await.ok()?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        loop {
            sender.ready().await.ok()?;
            let request =
                Request::get("/pods").header("host", target.host()).body(Empty::<Bytes>::new()).ok()?;
            let answer = sender.send_request(request).await.ok()?;
            self.answers.count(answer.status().as_str());
            answer.into_body().collect().await.ok()?;
        }
    }
}

/// A client's certificate and as many others that might have issued it, all under one name.
fn chain(others: usize) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, "stranger");
    let mut authority = CertificateParams::default();
    authority.distinguished_name = name.clone();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut client = CertificateParams::default();
    client.distinguished_name = name;
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];

    let key = KeyPair::generate()?;
    let issuer = KeyPair::generate()?;
    let mut chain = vec![client.signed_by(&key, &Issuer::from_params(&authority, &issuer))?.der().clone()];
    for _ in 0..others {
        chain.push(authority.self_signed(&KeyPair::generate()?)?.der().clone());
    }
    let key =
        PrivateKeyDer::try_from(key.serialize_der()).map_err(|why| rustls::Error::General(why.to_owned()))?;
    Ok((chain, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_one_name_and_as_many_keys_as_certificates() {
        let (chain, _) = chain(12).unwrap();
        assert_eq!(chain.len(), 13);
        let name = b"stranger";
        for certificate in &chain {
            let names = certificate.windows(name.len()).filter(|window| window == name).count();
            assert_eq!(names, 2, "subject and issuer");
        }
    }
}
