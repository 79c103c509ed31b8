//! Requests that nobody would think of: bad bytes, words in the wrong places, good requests with something broken.
//! The fuzz target goes the same ways, for longer.

#[path = "../fuzz/attack.rs"]
mod attack;

use std::sync::OnceLock;

use attack::WAYS;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use steersman_apiserver::TestServer;
use tokio::runtime::{Builder, Runtime};

/// What the fuzz target is given to build with: words of requests.
fn words() -> Vec<Vec<u8>> {
    let lines = include_str!("../fuzz/requests.dict").lines();
    let quoted = lines.filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'));
    quoted.map(|word| unescape(word.as_bytes())).collect()
}

/// A word as libFuzzer reads it: `\\`, `\"` and `\xAB` are escapes.
fn unescape(word: &[u8]) -> Vec<u8> {
    match word {
        [b'\\', b'x', high, low, rest @ ..] => {
            let digits = [*high, *low];
            let digits = std::str::from_utf8(&digits).expect("an escape must be of letters");
            let byte = u8::from_str_radix(digits, 16).expect("an escape must have two hexadecimal digits");
            [vec![byte], unescape(rest)].concat()
        }
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => [vec![*byte], unescape(rest)].concat(),
        [] => Vec::new(),
    }
}

/// Words, and what stands between them.
fn word() -> impl Strategy<Value = Vec<u8>> {
    const SIGNS: &[&str] = &[
        "{", "}", "[", "]", ",", ":", "\"", "0", "-1", "null", "true", "1e400", "\\ud800", "\u{e4}", " ",
        "\n- ",
    ];
    prop_oneof![select(words()), select(SIGNS).prop_map(|sign| sign.as_bytes().to_vec())]
}

/// One thing that goes wrong with a payload.
#[derive(Debug, Clone)]
enum Break {
    Cut(Index, Index),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Repeat(Index, Index),
    /// In the place of one of its JSON values.
    Replace(Index, serde_json::Value),
}

fn breaks() -> impl Strategy<Value = Vec<Break>> {
    let value = prop_oneof![
        Just(serde_json::json!(null)),
        Just(serde_json::json!({})),
        Just(serde_json::json!([])),
        Just(serde_json::json!([null, {}])),
        Just(serde_json::json!("")),
        Just(serde_json::json!(-1)),
        Just(serde_json::json!(1.5)),
        Just(serde_json::json!(u64::MAX)),
        Just(serde_json::json!(true)),
        ".{0,20}".prop_map(serde_json::Value::String),
    ];
    let one = prop_oneof![
        1 => any::<(Index, Index)>().prop_map(|(from, to)| Break::Cut(from, to)),
        1 => any::<(Index, u8)>().prop_map(|(at, bits)| Break::Flip(at, bits)),
        1 => (any::<Index>(), word()).prop_map(|(at, word)| Break::Insert(at, word)),
        1 => any::<(Index, Index)>().prop_map(|(from, to)| Break::Repeat(from, to)),
        4 => (any::<Index>(), value).prop_map(|(at, value)| Break::Replace(at, value)),
    ];
    proptest::collection::vec(one, 1..4)
}

impl Break {
    fn act(&self, payload: &mut Vec<u8>) {
        let span = |from: &Index, to: &Index, len: usize| {
            let (a, b) = (from.index(len + 1), to.index(len + 1));
            a.min(b)..a.max(b)
        };
        match self {
            Self::Cut(from, to) => drop(payload.drain(span(from, to, payload.len()))),
            Self::Flip(at, bits) => {
                if !payload.is_empty() {
                    let at = at.index(payload.len());
                    payload[at] ^= bits;
                }
            }
            Self::Insert(at, word) => {
                let at = at.index(payload.len() + 1);
                payload.splice(at..at, word.iter().copied());
            }
            Self::Repeat(from, to) => {
                let span = span(from, to, payload.len());
                let again = payload[span.clone()].to_vec();
                payload.splice(span.end..span.end, again);
            }
            Self::Replace(at, value) => {
                if let Ok(mut whole) = serde_json::from_slice::<serde_json::Value>(payload) {
                    let mut values = Vec::new();
                    pointers(&whole, String::new(), &mut values);
                    let pointer = &values[at.index(values.len())];
                    *whole.pointer_mut(pointer).expect("a pointer must lead to its value") = value.clone();
                    *payload = whole.to_string().into_bytes();
                }
            }
        }
    }
}

/// Where values are.
fn pointers(value: &serde_json::Value, at: String, found: &mut Vec<String>) {
    let escape = |name: &str| name.replace('~', "~0").replace('/', "~1");
    match value {
        serde_json::Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| pointers(item, format!("{at}/{n}"), found));
        }
        serde_json::Value::Object(members) => {
            members
                .iter()
                .for_each(|(name, member)| pointers(member, format!("{at}/{}", escape(name)), found));
        }
        _ => {}
    }
    found.push(at);
}

/// A server that all cases share, since no request changes anything; its clock is paused.
fn world() -> &'static (Runtime, TestServer) {
    static WORLD: OnceLock<(Runtime, TestServer)> = OnceLock::new();
    WORLD.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.expect("a runtime must be had");
        let server = runtime.block_on(attack::server());
        (runtime, server)
    })
}

#[test]
fn what_the_attacks_begin_with_is_taken() {
    let (runtime, server) = world();
    for way in WAYS {
        let code = runtime.block_on(attack::carry_out(server, way, &way.sample()));
        assert!(matches!(code, Some(200 | 201 | 409 | 410)), "{code:?} for {way:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bytes_and_words_break_nothing(
        way in select(WAYS.iter().collect::<Vec<_>>()),
        payload in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..60),
            proptest::collection::vec(word(), 0..40).prop_map(|words| words.concat()),
            "\\PC{0,40}".prop_map(String::into_bytes),
        ],
    ) {
        let (runtime, server) = world();
        runtime.block_on(attack::carry_out(server, way, &payload));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_good_request_with_something_broken_breaks_nothing(way in select(WAYS.iter().collect::<Vec<_>>()), breaks in breaks()) {
        let mut payload = way.sample();
        breaks.iter().for_each(|one| one.act(&mut payload));
        let (runtime, server) = world();
        runtime.block_on(attack::carry_out(server, way, &payload));
    }
}
