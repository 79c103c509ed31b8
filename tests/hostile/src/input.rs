//! Broken input, made of good input.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// The greatest length of an input in bytes.
pub const LONGEST: usize = 64 << 10;

/// What parsers stumble over.
const WORDS: &[&[u8]] = &[
    b"\0",
    b"\n",
    b"\r\n",
    b"\t",
    b"\"",
    b"'",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\xc0\x80",
    b"\xef\xbb\xbf",
    b"%00",
    b"%",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"-",
    b"-0",
    b"-1",
    b"1e400",
    b"1e-400",
    b"0x7fffffff",
    b"0777",
    b"2147483648",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551616",
    b"1.7976931348623157e308",
    b"NaN",
    b".inf",
    b"---\n",
    b"...\n",
    b"&a ",
    b"*a ",
    b"<<: *a\n",
    b"!!binary ",
    b"!!python/object ",
    b"? ",
    b": ",
    b"- ",
    b"#",
    b"|\n",
    b">-\n",
    b"{{",
    b"}}",
    b"=",
    b"!=",
    b"==",
    b",",
    b"(",
    b")",
    b" in ",
    b" notin ",
    b"!",
    b"/",
    b"//",
    b"..",
    b"../",
    b"@",
    b"@sha256:",
    b":",
    b"::",
    b"Ki",
    b"Mi",
    b"Ei",
    b"n",
    b"u",
    b"m",
    b"h",
    b"ns",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\xff\xff\xff\xff\x0f",
    b"\x0a",
    b"\x12",
    b"\x1a",
    b"k8s\0",
];

/// What opens a level of nesting.
const OPENERS: &[&[u8]] = &[b"[", b"{\"a\":", b"{a: ", b"- ", b"(", b"\x0a\x02", b"\x0b"];

/// An endless series of inputs.
pub(crate) struct Inputs {
    corpus: Vec<Vec<u8>>,
    random: StdRng,
}

impl Inputs {
    pub(crate) fn new(corpus: Vec<Vec<u8>>, random: StdRng) -> Self {
        Self { corpus, random }
    }

    /// A part of an input, as its beginning and end.
    fn span(&mut self, length: usize) -> (usize, usize) {
        let (one, other) = (self.random.random_range(0..=length), self.random.random_range(0..=length));
        (one.min(other), one.max(other))
    }

    fn break_once(&mut self, input: &mut Vec<u8>) {
        let at = self.random.random_range(0..=input.len());
        match self.random.random_range(0..10) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.random.random_range(0..8);
                }
            }
            1 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = self.random.random();
                }
            }
            2 => {
                let (from, to) = self.span(input.len());
                input.drain(from..to);
            }
            3 => {
                let (from, to) = self.span(input.len());
                let times = self.random.random_range(1..=16);
                let part = input[from..to].repeat(times);
                input.splice(to..to, part);
            }
            4 | 5 => {
                let word = WORDS.choose(&mut self.random).expect("there must be words");
                input.splice(at..at, word.iter().copied());
            }
            6 => {
                let word = WORDS.choose(&mut self.random).expect("there must be words");
                let end = (at + word.len()).min(input.len());
                input.splice(at..end, word.iter().copied());
            }
            7 => {
                let other = self.corpus.choose(&mut self.random).expect("there must be a corpus").clone();
                let (from, to) = self.span(other.len());
                input.splice(at..at, other[from..to].iter().copied());
            }
            8 => {
                let opener = OPENERS.choose(&mut self.random).expect("there must be openers");
                let times = 1 << self.random.random_range(0..13);
                input.splice(at..at, opener.repeat(times));
            }
            _ => self.change_number(input),
        }
    }

    /// Puts another number in the place of one.
    fn change_number(&mut self, input: &mut Vec<u8>) {
        let begins: Vec<usize> = (0..input.len())
            .filter(|at| input[*at].is_ascii_digit() && (*at == 0 || !input[*at - 1].is_ascii_digit()))
            .collect();
        let Some(&begin) = begins.choose(&mut self.random) else { return };
        let digits = input[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = match self.random.random_range(0..4) {
            0 => self.random.random_range(0..300_u64).to_string(),
            1 => self.random.random::<u64>().to_string(),
            2 => format!("-{}", self.random.random::<u32>()),
            _ => "9".repeat(self.random.random_range(1..400)),
        };
        input.splice(begin..begin + digits, number.into_bytes());
    }
}

impl Iterator for Inputs {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut input = self.corpus.choose(&mut self.random)?.clone();
        for _ in 0..self.random.random_range(1..=5) {
            self.break_once(&mut input);
            input.truncate(LONGEST);
        }
        Some(input)
    }
}
