//! Tokens of service accounts: signed here, and checked here. JSON web tokens, signed with ES256.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};

use super::SecretClaims;

/// The issuer of tokens, and their audience if the request names none. Upstream's usual choice.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The header of every token.
const HEADER: &str = r#"{"alg":"ES256","typ":"JWT"}"#;

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    /// For whom it is good.
    pub(crate) aud: Vec<String>,
    /// Until when, in seconds since 1970.
    pub(crate) exp: i64,
    /// Since when.
    pub(crate) iat: i64,
    /// Who signed it.
    pub(crate) iss: String,
    /// Tells tokens apart.
    pub(crate) jti: String,
    /// What it is bound to.
    #[serde(rename = "kubernetes.io")]
    pub(crate) bound: Bound,
    /// Not before.
    pub(crate) nbf: i64,
    /// `system:serviceaccount:<namespace>:<name>`.
    pub(crate) sub: String,
}

/// What a token is bound to: it is good while these objects are there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bound {
    /// That of the service account and of the objects.
    pub(crate) namespace: String,
    /// The node of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Reference>,
    /// A pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Reference>,
    /// A secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Reference>,
    /// Whose token it is.
    pub(crate) serviceaccount: Reference,
}

/// An object by name and uid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reference {
    /// Its name.
    pub(crate) name: String,
    /// Its uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
}

/// Signs and checks. Its key never leaves it.
pub(crate) struct Signer {
    key: EcdsaKeyPair,
    random: SystemRandom,
}

/// A key that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key that signs tokens is not readable: {0}")]
pub struct KeyError(String);

impl Signer {
    /// With a key as PKCS#8.
    ///
    /// # Errors
    /// It is no key of this kind.
    pub(crate) fn new(pkcs8: &[u8]) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random);
        Ok(Self { key: key.map_err(|error| KeyError(error.to_string()))?, random })
    }

    /// With a new key of its own.
    #[cfg(test)]
    pub(crate) fn fleeting() -> Self {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let made = made.expect("the system must have randomness");
        Self::new(made.as_ref()).expect("a key that was just made must be good")
    }

    /// A token that says this.
    pub(crate) fn sign(&self, claims: &Claims) -> String {
        let claims = serde_json::to_vec(claims).expect("claims must have a JSON form");
        let mut token = URL_SAFE_NO_PAD.encode(HEADER);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims, &mut token);
        let signature =
            self.key.sign(&self.random, token.as_bytes()).expect("the system must have randomness");
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature.as_ref(), &mut token);
        token
    }

    /// What a token says, if it was signed here, is meant for one of `audiences`, and is good at `now` (seconds since 1970).
    /// The caller must check that the bound objects still exist.
    pub(crate) fn verify(&self, token: &str, audiences: &[String], now: i64) -> Option<Claims> {
        let claims: Claims = serde_json::from_slice(&self.signed(token)?).ok()?;
        let meant = claims.aud.iter().any(|audience| audiences.contains(audience));
        (claims.iss == ISSUER && meant && claims.nbf <= now && now < claims.exp).then_some(claims)
    }

    /// What a token says that a Secret keeps, if it was signed with this key. The caller must check that the Secret and the
    /// service account still exist.
    pub(crate) fn verify_of_secret(&self, token: &str) -> Option<SecretClaims> {
        let claims: SecretClaims = serde_json::from_slice(&self.signed(token)?).ok()?;
        claims.are_valid().then_some(claims)
    }

    /// The claims of a token that was signed with this key, in JSON.
    fn signed(&self, token: &str) -> Option<Vec<u8>> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        // The header is part of what is signed: one that is not ours was not signed by us.
        let header: BTreeMap<String, String> = serde_json::from_slice(&decode(header)?).ok()?;
        if header.get("alg").map(String::as_str) != Some("ES256") {
            return None;
        }
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key());
        key.verify(signed.as_bytes(), &decode(signature)?).ok()?;
        decode(claims)
    }
}

fn decode(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            aud: vec![ISSUER.into()],
            exp: 2000,
            iat: 1000,
            iss: ISSUER.into(),
            jti: "one".into(),
            bound: Bound {
                namespace: "shop".into(),
                serviceaccount: Reference { name: "web".into(), uid: "u-1".into() },
                ..Bound::default()
            },
            nbf: 1000,
            sub: "system:serviceaccount:shop:web".into(),
        }
    }

    fn ours() -> Vec<String> {
        vec![ISSUER.to_owned()]
    }

    #[test]
    fn a_token_says_what_was_signed_while_it_is_good() {
        let signer = Signer::fleeting();
        let token = signer.sign(&claims());
        assert_eq!(signer.verify(&token, &ours(), 1500), Some(claims()));
        assert_eq!(signer.verify(&token, &ours(), 999), None, "not yet");
        assert_eq!(signer.verify(&token, &ours(), 2000), None, "no more");
        assert_eq!(signer.verify(&token, &["vault".to_owned()], 1500), None, "for another");
        assert_eq!(Signer::fleeting().verify(&token, &ours(), 1500), None, "another key");
    }

    #[test]
    fn nothing_forged_is_believed() {
        let signer = Signer::fleeting();
        let token = signer.sign(&claims());
        let parts: Vec<&str> = token.split('.').collect();
        let other = Claims { sub: "system:serviceaccount:kube-system:root".into(), ..claims() };
        let other = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&other).unwrap());
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
        for forged in [
            format!("{}.{other}.{}", parts[0], parts[2]),
            format!("{none}.{}.", parts[1]),
            format!("{none}.{}.{}", parts[1], parts[2]),
            format!("{}.{}.", parts[0], parts[1]),
            format!("{}.{}", parts[0], parts[1]),
            "a.b.c".to_owned(),
            "..".to_owned(),
            String::new(),
        ] {
            assert_eq!(signer.verify(&forged, &ours(), 1500), None, "{forged}");
        }
    }
}
