//! Messages of protobuf that are broken in their structure: each one can still be decoded as a message, but its fields are
//! missing, doubled, exchanged or have values that no good sender gives them.

use prost::encoding::{decode_varint, encode_varint};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::LONGEST;

/// Deeper messages than this are taken for bytes.
const DEEPEST: usize = 12;

/// Numbers that calculations stumble over.
const NUMBERS: &[u64] = &[
    0,
    1,
    2,
    3,
    7,
    127,
    255,
    65_536,
    i32::MAX as u64,
    u32::MAX as u64,
    // The least number of 32 bits, as protobuf writes it.
    (i32::MIN as i64).cast_unsigned(),
    1_000_000_000,
    i64::MAX as u64,
    i64::MAX as u64 - 1,
    i64::MIN.cast_unsigned(),
    u64::MAX,
];

/// Text that readers of paths, numbers, JSON, addresses and names stumble over.
const TEXTS: &[&str] = &[
    "",
    " ",
    "/",
    ".",
    "..",
    "../..",
    "../../../../etc/hostname",
    "/proc/self/environ",
    "/dev/zero",
    "a/../../b",
    "a\0b",
    "\n",
    "\u{202e}",
    "\u{fffd}",
    "é",
    "NaN",
    "inf",
    "-1",
    "-9223372036854775808",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "4294967295",
    "1e400",
    "null",
    "{",
    "[]",
    "[null]",
    "{\"a\":\"\\ud800\"}",
    "::",
    "256.1.1.1",
    "fe80::1%eth0",
    "http://[::1",
    "@sha256:",
    "True",
];

/// A message, as far as its bytes tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message(Vec<Field>);

#[derive(Clone, Debug, PartialEq)]
struct Field {
    number: u32,
    value: Value,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Text(String),
    Bytes(Vec<u8>),
    Message(Message),
}

impl Message {
    /// Reads a message; `None` if the bytes are none. Bytes that may be text are taken for text, others that may be a message
    /// for a message.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Self::decode_at(bytes, 0)
    }

    fn decode_at(mut bytes: &[u8], depth: usize) -> Option<Self> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = decode_varint(&mut bytes).ok()?;
            let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0)?;
            let value = match key & 7 {
                0 => Value::Varint(decode_varint(&mut bytes).ok()?),
                1 => Value::Fixed64(taken(&mut bytes, 8)?.try_into().ok()?),
                2 => {
                    let length = usize::try_from(decode_varint(&mut bytes).ok()?).ok()?;
                    Value::of_bytes(taken(&mut bytes, length)?, depth)
                }
                5 => Value::Fixed32(taken(&mut bytes, 4)?.try_into().ok()?),
                _ => return None,
            };
            fields.push(Field { number, value });
        }
        Some(Self(fields))
    }

    /// Writes the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Field { number, value } in &self.0 {
            let kind = match value {
                Value::Varint(_) => 0,
                Value::Fixed64(_) => 1,
                Value::Text(_) | Value::Bytes(_) | Value::Message(_) => 2,
                Value::Fixed32(_) => 5,
            };
            encode_varint(u64::from(*number) << 3 | kind, &mut bytes);
            let mut put = |part: &[u8]| {
                encode_varint(part.len() as u64, &mut bytes);
                bytes.extend_from_slice(part);
            };
            match value {
                Value::Varint(number) => encode_varint(*number, &mut bytes),
                Value::Fixed64(fixed) => bytes.extend_from_slice(fixed),
                Value::Fixed32(fixed) => bytes.extend_from_slice(fixed),
                Value::Text(text) => put(text.as_bytes()),
                Value::Bytes(part) => put(part),
                Value::Message(message) => put(&message.encode()),
            }
        }
        bytes
    }

    /// Puts one text in the place of another wherever it occurs in a text of the message.
    pub fn replace(&mut self, from: &str, to: &str) {
        for field in &mut self.0 {
            match &mut field.value {
                Value::Text(text) if text.contains(from) => *text = text.replace(from, to),
                Value::Message(message) => message.replace(from, to),
                _ => {}
            }
        }
    }

    /// The number of fields, those of messages within it included.
    fn size(&self) -> usize {
        self.0.iter().map(|field| 1 + field.value.size()).sum()
    }

    /// Calls `act` with the fields among which the field number `at` is, counted through all messages, and its place there.
    fn at<T>(&mut self, mut at: usize, act: impl FnOnce(&mut Vec<Field>, usize) -> T) -> Option<T> {
        for place in 0..self.0.len() {
            if at == 0 {
                return Some(act(&mut self.0, place));
            }
            at -= 1;
            let size = self.0[place].value.size();
            if at < size {
                let Value::Message(message) = &mut self.0[place].value else { return None };
                return message.at(at, act);
            }
            at -= size;
        }
        None
    }

    /// One of its fields, at any depth.
    fn any(&mut self, random: &mut StdRng) -> Option<Field> {
        let size = self.size();
        let at = (size > 0).then(|| random.random_range(0..size))?;
        self.at(at, |fields, place| fields[place].clone())
    }

    /// Breaks it in some places: anywhere or, as often, all of them in one message within it, since faults are likely where several
    /// fields of one object are wrong.
    fn break_some(&mut self, other: &mut Self, texts: &[&str], random: &mut StdRng) {
        let (size, times) = (self.size(), random.random_range(1..=4));
        let at = random.random_range(0..=size);
        let whole = random.random() || size == 0;
        let part = |fields: &mut Vec<Field>, place: usize| match &mut fields[place].value {
            Value::Message(part) if !whole && part.size() > 2 => {
                (0..times).for_each(|_| part.break_once(other, texts, random));
                true
            }
            _ => false,
        };
        if self.at(at, part) != Some(true) {
            self.break_once(other, texts, random);
        }
    }

    /// Puts another text in the place of one of its texts, wherever that occurs.
    fn rename(&mut self, texts: &[&str], random: &mut StdRng) {
        if let Some(Field { value: Value::Text(from), .. }) = self.any(random)
            && !from.is_empty()
        {
            let mut to = from.clone();
            spoil_text(&mut to, texts, random);
            self.replace(&from, &to);
        }
    }

    /// Breaks it in one place. `other` is a good message; `texts` are texts that this kind of message may stumble over.
    fn break_once(&mut self, other: &mut Self, texts: &[&str], random: &mut StdRng) {
        let size = self.size();
        if size == 0 {
            *self = other.clone();
            return;
        }
        let (at, stranger) = (random.random_range(0..size), other.any(random));
        let act = random.random_range(0..14);
        if act == 13 {
            self.rename(texts, random);
            return;
        }
        self.at(at, |fields, place| match act {
            0 | 1 => drop(fields.remove(place)),
            2 => {
                // As many as make a list longer than expected, or as long as an input may be.
                let times = 1 << random.random_range(0..10);
                let copies = std::iter::repeat_n(fields[place].clone(), times);
                fields.splice(place..place, copies).for_each(drop);
            }
            3 => {
                let other = random.random_range(0..fields.len());
                let value = fields[other].value.clone();
                fields[other].value = std::mem::replace(&mut fields[place].value, value);
            }
            4 => fields[place].value = stranger.map_or(Value::Bytes(Vec::new()), |stranger| stranger.value),
            5 => fields.extend(stranger),
            6 => fields[place].number = random.random_range(1..24),
            _ => fields[place].value.spoil(texts, random),
        });
    }
}

impl Value {
    fn of_bytes(bytes: &[u8], depth: usize) -> Self {
        let is_text = |text: &&str| !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t');
        let text = std::str::from_utf8(bytes).ok().filter(is_text);
        match text.filter(|text| !text.starts_with('\n')) {
            Some(text) => Self::Text(text.to_owned()),
            None if depth < DEEPEST => Message::decode_at(bytes, depth + 1)
                .map_or_else(|| Self::Bytes(bytes.to_vec()), Self::Message),
            None => Self::Bytes(bytes.to_vec()),
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Message(message) => message.size(),
            _ => 0,
        }
    }

    /// Gives it a value of its kind that it should not have.
    fn spoil(&mut self, texts: &[&str], random: &mut StdRng) {
        match self {
            Self::Varint(number) => {
                *number = match random.random_range(0..4) {
                    0 => number.wrapping_add(1),
                    1 => random.random(),
                    _ => *NUMBERS.choose(random).expect("there must be numbers"),
                }
            }
            Self::Fixed64(fixed) => *fixed = random.random(),
            Self::Fixed32(fixed) => *fixed = random.random(),
            Self::Text(text) => spoil_text(text, texts, random),
            Self::Bytes(bytes) => *bytes = bytes.repeat(random.random_range(0..64)),
            Self::Message(message) => *message = Message::default(),
        }
    }
}

fn spoil_text(text: &mut String, texts: &[&str], random: &mut StdRng) {
    let all = [TEXTS, texts].concat();
    let word = all.choose(random).expect("there must be texts").to_string();
    match random.random_range(0..6) {
        0 => *text = format!("{text}{word}"),
        1 => *text = format!("{word}{text}"),
        2 => *text = text.repeat(random.random_range(2..200)),
        3 => *text = text.chars().skip(1).collect(),
        _ => *text = word,
    }
}

/// An endless series of broken messages, made of good ones. `texts` are texts that this kind of message may stumble over; all
/// messages are such as `decodes` accepts.
///
/// # Panics
/// If one of the corpus is no message.
pub fn broken<D: Fn(&[u8]) -> bool>(
    corpus: &[Vec<u8>],
    texts: &'static [&'static str],
    decodes: D,
    mut random: StdRng,
) -> impl Iterator<Item = Vec<u8>> + use<D> {
    let good = |bytes: &Vec<u8>| Message::decode(bytes).expect("a sample must be a message");
    let corpus: Vec<Message> = corpus.iter().map(good).collect();
    std::iter::repeat_with(move || {
        let mut message = corpus.choose(&mut random).expect("there must be a corpus").clone();
        let mut other = corpus.choose(&mut random).expect("there must be a corpus").clone();
        let mut encoded = message.encode();
        for _ in 0..random.random_range(1..=8) {
            let mut next = message.clone();
            next.break_some(&mut other, texts, &mut random);
            let bytes = next.encode();
            if bytes.len() <= LONGEST && decodes(&bytes) {
                (message, encoded) = (next, bytes);
            }
        }
        encoded
    })
}

fn taken<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}
