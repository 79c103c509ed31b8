//! The messages of D-Bus, as far as systemd's manager is spoken to: calls out; answers and signals in. That is little: a
//! library for all of D-Bus (zbus) brings two dozen crates along.

/// How long a message may be that systemd sends to us: what we ask for is short.
const LONGEST: usize = 1 << 20;
/// The part of a header whose length is known beforehand.
pub(super) const PREAMBLE: usize = 16;

const METHOD_CALL: u8 = 1;
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

/// What a property is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Flag(bool),
    Number(u64),
    Text(String),
    Texts(Vec<String>),
}

/// A call of a method.
pub(super) struct Call<'a> {
    pub(super) destination: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) member: &'a str,
    /// The types of what is in the body.
    pub(super) signature: &'a str,
    pub(super) body: Writer,
}

impl Call<'_> {
    /// Its bytes, as the message of that number.
    pub(super) fn message(self, serial: u32) -> Vec<u8> {
        let body = self.body.0;
        let mut header = Writer::default();
        header.0.extend([b'l', METHOD_CALL, 0, 1]);
        header.number(u32::try_from(body.len()).expect("a call must be short"));
        header.number(serial);
        header.array(8, |fields| {
            for (code, kind, text) in [
                (PATH, "o", self.path),
                (INTERFACE, "s", self.interface),
                (MEMBER, "s", self.member),
                (DESTINATION, "s", self.destination),
                (SIGNATURE, "g", self.signature),
            ] {
                if text.is_empty() {
                    continue;
                }
                fields.align(8);
                fields.0.push(code);
                fields.signature(kind);
                if kind == "g" { fields.signature(text) } else { fields.text(text) }
            }
        });
        header.align(8);
        header.0.extend(body);
        header.0
    }
}

/// What is in a message, in the order of its signature; little endian, each value at a multiple of its size.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.number(flag.into());
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(u32::try_from(text.len()).expect("a text must be short"));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, signature: &str) {
        self.0.push(u8::try_from(signature.len()).expect("a signature must be short"));
        self.0.extend(signature.as_bytes());
        self.0.push(0);
    }

    /// An array of what begins at multiples of `alignment`.
    fn array(&mut self, alignment: usize, write: impl FnOnce(&mut Self)) {
        self.number(0);
        let length = self.0.len() - 4;
        self.align(alignment);
        let begin = self.0.len();
        write(self);
        let bytes = u32::try_from(self.0.len() - begin).expect("an array must be short");
        self.0[length..length + 4].copy_from_slice(&bytes.to_le_bytes());
    }

    /// An array of `(sv)`: names with values.
    pub(super) fn properties<'a>(&mut self, properties: impl IntoIterator<Item = (&'a str, &'a Value)>) {
        self.array(8, |array| {
            for (name, value) in properties {
                array.align(8);
                array.text(name);
                match value {
                    Value::Flag(flag) => {
                        array.signature("b");
                        array.flag(*flag);
                    }
                    Value::Number(number) => {
                        array.signature("t");
                        array.align(8);
                        array.0.extend(number.to_le_bytes());
                    }
                    Value::Text(text) => {
                        array.signature("s");
                        array.text(text);
                    }
                    Value::Texts(texts) => {
                        array.signature("as");
                        array.array(4, |array| texts.iter().for_each(|text| array.text(text)));
                    }
                }
            }
        });
    }

    /// An array of structures that has none.
    pub(super) fn nothing(&mut self) {
        self.array(8, |_| {});
    }
}

/// A message that came.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Incoming {
    /// The number of the call that it answers; 0 for none.
    pub(super) answers: u32,
    /// The error that an answer is; empty for none.
    pub(super) error: String,
    /// The signal that it is.
    pub(super) member: String,
    /// The texts and numbers of its body, as far as its signature is of those.
    pub(super) body: Vec<Item>,
}

/// Something in a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    Number(u32),
    Text(String),
}

/// How many bytes follow the preamble; `None` where it is none, or announces more than anybody has to say.
pub(super) fn length_after(preamble: &[u8; PREAMBLE]) -> Option<usize> {
    let mut reader = Reader::new(preamble)?;
    reader.at = 4;
    let body = reader.length()?;
    reader.at = 12;
    let fields = reader.length()?;
    let length = fields.checked_next_multiple_of(8)?.checked_add(body)?;
    (length <= LONGEST).then_some(length)
}

impl Incoming {
    /// `None` for what is no message.
    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(message)?;
        let mut found = Self { answers: 0, error: String::new(), member: String::new(), body: Vec::new() };
        let mut signature = String::new();
        reader.at = 12;
        let fields = reader.length()?;
        let end = PREAMBLE.checked_add(fields)?;
        while reader.at < end {
            reader.align(8);
            let code = reader.byte()?;
            let kind = reader.signature()?;
            match (code, kind.as_str()) {
                (REPLY_SERIAL, "u") => found.answers = reader.number()?,
                (ERROR_NAME, "s") => found.error = reader.text()?,
                (MEMBER, "s") => found.member = reader.text()?,
                (SIGNATURE, "g") => signature = reader.signature()?,
                (_, "g") => drop(reader.signature()?),
                (_, "u") => drop(reader.number()?),
                (_, "s" | "o") => drop(reader.text()?),
                _ => return None,
            }
        }
        reader.align(8);
        for kind in signature.chars() {
            found.body.push(match kind {
                'u' => Item::Number(reader.number()?),
                's' | 'o' => Item::Text(reader.text()?),
                _ => break,
            });
        }
        Some(found)
    }

    /// The text at that place of its body.
    pub(super) fn text(&self, at: usize) -> &str {
        match self.body.get(at) {
            Some(Item::Text(text)) => text,
            _ => "",
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    is_big_endian: bool,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        let is_big_endian = match bytes.first()? {
            b'l' => false,
            b'B' => true,
            _ => return None,
        };
        Some(Self { bytes, at: 0, is_big_endian })
    }

    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn number(&mut self) -> Option<u32> {
        self.align(4);
        let bytes = self.take(4)?.try_into().ok()?;
        Some(if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn text(&mut self) -> Option<String> {
        let length = self.length()?;
        self.ended(length)
    }

    fn signature(&mut self) -> Option<String> {
        let length = self.byte()?;
        self.ended(length.into())
    }

    /// A text of that length, and the zero after it.
    fn ended(&mut self, length: usize) -> Option<String> {
        let text = std::str::from_utf8(self.take(length)?).ok()?;
        (self.byte()? == 0).then(|| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of that kind: its fields beside the signature, then its body.
    fn incoming(fields: &[(u8, &str, &str)], signature: &str, body: Writer) -> Vec<u8> {
        let mut message = Writer::default();
        message.0.extend([b'l', 4, 1, 1]);
        message.number(u32::try_from(body.0.len()).unwrap());
        message.number(7);
        message.array(8, |array| {
            for (code, kind, value) in fields.iter().copied().chain([(SIGNATURE, "g", signature)]) {
                array.align(8);
                array.0.push(code);
                array.signature(kind);
                match kind {
                    "u" => array.number(value.parse().unwrap()),
                    "g" => array.signature(value),
                    _ => array.text(value),
                }
            }
        });
        message.align(8);
        message.0.extend(body.0);
        message.0
    }

    #[test]
    fn a_call_has_the_bytes_that_the_protocol_asks_for() {
        let mut body = Writer::default();
        body.text("a.slice");
        body.properties([("T", &Value::Number(5))]);
        let call =
            Call { destination: "", path: "/o", interface: "", member: "Set", signature: "sa(sv)", body };
        let expected: &[u8] = &[
            b'l', 1, 0, 1, // little endian, a call, no flags, version 1
            40, 0, 0, 0, // bytes of the body
            9, 0, 0, 0, // its number
            44, 0, 0, 0, // bytes of the fields
            PATH, 1, b'o', 0, 2, 0, 0, 0, b'/', b'o', 0, 0, 0, 0, 0, 0, //
            MEMBER, 1, b's', 0, 3, 0, 0, 0, b'S', b'e', b't', 0, 0, 0, 0, 0, //
            SIGNATURE, 1, b'g', 0, 6, b's', b'a', b'(', b's', b'v', b')', 0, 0, 0, 0, 0, //
            7, 0, 0, 0, b'a', b'.', b's', b'l', b'i', b'c', b'e', 0, //
            24, 0, 0, 0, // bytes of the array, whose structures begin at multiples of eight
            1, 0, 0, 0, b'T', 0, 1, b't', 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
        ];
        let message = call.message(9);
        assert_eq!(message, expected);
    }

    #[test]
    fn answers_and_signals_are_read() {
        let mut body = Writer::default();
        body.number(3);
        body.text("/job/3");
        body.text("a.slice");
        body.text("done");
        let signal = incoming(&[(PATH, "o", "/m"), (MEMBER, "s", "JobRemoved")], "uoss", body);
        let read = Incoming::parse(&signal).unwrap();
        assert_eq!((read.answers, read.error.as_str(), read.member.as_str()), (0, "", "JobRemoved"));
        assert_eq!((read.text(0), read.text(1), read.text(3), read.text(4)), ("", "/job/3", "done", ""));

        let mut body = Writer::default();
        body.text("There already");
        let error = incoming(&[(REPLY_SERIAL, "u", "12"), (ERROR_NAME, "s", "x.UnitExists")], "s", body);
        let read = Incoming::parse(&error).unwrap();
        assert_eq!((read.answers, read.error.as_str(), read.text(0)), (12, "x.UnitExists", "There already"));
        let preamble = error[..PREAMBLE].try_into().unwrap();
        assert_eq!(length_after(&preamble), Some(error.len() - PREAMBLE));
    }

    #[test]
    fn what_is_no_message_is_none() {
        let mut body = Writer::default();
        body.text("There already");
        let good = incoming(&[(REPLY_SERIAL, "u", "12")], "s", body);
        assert!(Incoming::parse(&good).is_some());
        for cut in 0..good.len() {
            assert_eq!(Incoming::parse(&good[..cut]), None, "cut after {cut}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] = 0xff;
            let _whatever_it_says = Incoming::parse(&bad);
        }
        assert_eq!(length_after(&[0xff; PREAMBLE]), None);
        let mut endless = [0xff; PREAMBLE];
        endless[0] = b'l';
        assert_eq!(length_after(&endless), None);
    }
}
