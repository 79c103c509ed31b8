//! What signatures `cluster-info` should have.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::ArcStr;
use steersman_api::bootstrap_token::Expiry;
use steersman_controller::plan::Plan;

use super::super::token_cleaner::left;
use super::jws;

/// The key of the signed text in the ConfigMap's data.
const CONTENT: &str = "kubeconfig";
/// The prefix of the keys of signatures. The id of the token follows.
const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";

/// A token that may sign.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub id: ArcStr,
    /// The secret part. Never logged.
    pub secret: Vec<u8>,
    pub expiry: Expiry,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("id", &self.id).field("expiry", &self.expiry).finish_non_exhaustive()
    }
}

/// The newest state of the ConfigMap and of the tokens that sign it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observed {
    /// The ConfigMap.
    pub map: Value,
    pub tokens: Vec<Token>,
}

/// The ConfigMap as it should be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Update(pub Value);

/// Gives the ConfigMap a signature of each token that has not expired, and removes all others.
pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan<Update> {
    let Some(content) = observed.map["data"][CONTENT].as_str() else { return Plan::done() };
    let good: Vec<_> = observed.tokens.iter().filter(|token| !token.expiry.has_passed(now)).collect();
    let signature = |token: &&Token| {
        let signature = jws::detached(content.as_bytes(), &token.id, &token.secret);
        (format!("{SIGNATURE_PREFIX}{}", token.id), Value::from(signature))
    };
    let wanted: BTreeMap<String, Value> = good.iter().map(signature).collect();
    let data = observed.map["data"].as_object().into_iter().flatten();
    let found: BTreeMap<String, Value> = data
        .filter(|(key, _)| key.starts_with(SIGNATURE_PREFIX))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if found == wanted {
        let next = good.iter().filter_map(|token| left(token.expiry, now)).min();
        return Plan::Done { requeue_after: next };
    }
    let mut map = observed.map.clone();
    if let Some(data) = map["data"].as_object_mut() {
        data.retain(|key, _| !key.starts_with(SIGNATURE_PREFIX));
        data.extend(wanted);
    }
    Plan::step(Update(map))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-11-23T12:00:00Z".parse().unwrap()
    }

    fn token(id: &str, expiration: &str) -> Token {
        Token { id: id.into(), secret: b"secret".to_vec(), expiry: Expiry::parse(expiration) }
    }

    fn signed(id: &str) -> String {
        jws::detached(b"content", id, b"secret")
    }

    fn map(signatures: &[(&str, &str)]) -> Value {
        let mut map = json!({
            "metadata": {"name": "cluster-info", "resourceVersion": "7"},
            "data": {"kubeconfig": "content", "other": "o"}, "new": 1,
        });
        for (id, signature) in signatures {
            map["data"][format!("jws-kubeconfig-{id}")] = (*signature).into();
        }
        map
    }

    fn update(map: Value, tokens: Vec<Token>) -> Option<Value> {
        match plan(&Observed { map, tokens }, now()) {
            Plan::Act(mut batch) => batch.steps.pop().map(|Update(map)| map),
            Plan::Done { .. } => None,
        }
    }

    #[test]
    fn each_token_signs_and_other_signatures_go() {
        let (a, b) = (signed("aaaaaa"), signed("bbbbbb"));
        let both = || vec![token("aaaaaa", ""), token("bbbbbb", "2026-11-23T13:00:00Z")];
        let complete = || map(&[("aaaaaa", &a), ("bbbbbb", &b)]);
        for (name, found, tokens, expected) in [
            ("new tokens", map(&[]), both(), Some(complete())),
            ("a further token", map(&[("aaaaaa", &a)]), both(), Some(complete())),
            (
                "a signature of another text",
                map(&[("aaaaaa", "x"), ("bbbbbb", &b)]),
                both(),
                Some(complete()),
            ),
            ("signed already", complete(), both(), None),
            ("a token is gone", complete(), vec![token("aaaaaa", "")], Some(map(&[("aaaaaa", &a)]))),
            ("all tokens are gone", complete(), Vec::new(), Some(map(&[]))),
            (
                "a token has expired",
                complete(),
                vec![token("aaaaaa", "2026-11-23T12:00:00Z"), token("bbbbbb", "")],
                Some(map(&[("bbbbbb", &b)])),
            ),
            ("nothing to do", map(&[]), Vec::new(), None),
        ] {
            assert_eq!(update(found, tokens), expected, "{name}");
        }
    }

    #[test]
    fn a_map_without_content_is_left_alone() {
        for map in [json!({"data": {"jws-kubeconfig-aaaaaa": "x"}}), json!({"data": null}), json!({})] {
            assert_eq!(update(map, vec![token("aaaaaa", "")]), None);
        }
    }

    #[test]
    fn signatures_are_looked_at_again_when_the_first_token_expires() {
        let tokens = vec![token("aaaaaa", "2026-11-23T12:00:09Z"), token("bbbbbb", "2026-11-23T12:00:05Z")];
        let map = map(&[("aaaaaa", &signed("aaaaaa")), ("bbbbbb", &signed("bbbbbb"))]);
        let waits = Plan::Done { requeue_after: Some(Duration::from_secs(5)) };
        assert_eq!(plan(&Observed { map, tokens }, now()), waits);
    }

    #[test]
    fn the_secret_part_of_a_token_is_not_logged() {
        assert!(!format!("{:?}", token("aaaaaa", "")).contains("115"));
    }
}
