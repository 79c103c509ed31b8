//! Splits a list's body in JSON: an object with the members `metadata` and `items`.

use bytes::Bytes;

use super::buffer::Buffer;
use super::{FrameError, ListPart, MAX_OBJECT, Splitter};

/// The splitter of such a body. It does not check the items: their decoder does.
#[derive(Debug, Default)]
pub struct JsonList {
    buffer: Buffer,
    /// The number of bytes of the body before the buffer, for error messages.
    consumed: usize,
    state: State,
    /// Where to continue the search for the end of the value at the buffer's start.
    scan: Scan,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the brace.
    #[default]
    Start,
    /// Before a member's name, or the closing brace.
    Name,
    /// Before the colon after that name.
    Colon(Member),
    /// Before the value of a member of that name.
    Value(Member),
    /// Before an item, or the closing bracket.
    Items,
    /// After the closing brace.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
    Metadata,
    Items,
    Other,
}

#[derive(Debug, Default, Clone, Copy)]
struct Scan {
    at: usize,
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Splitter for JsonList {
    type Part = ListPart;

    fn push(&mut self, piece: Bytes) {
        self.buffer.push(piece);
    }

    fn next(&mut self) -> Result<Option<ListPart>, FrameError> {
        loop {
            // Skips white space and commas before a token.
            if self.scan.at == 0 {
                let skip = |byte: &u8| byte.is_ascii_whitespace() || *byte == b',';
                let spaces = self.buffer.iter().take_while(|byte| skip(byte)).count();
                self.drop_front(spaces);
            }
            let Some(&first) = self.buffer.first() else { return Ok(None) };
            match self.state {
                State::Start if first == b'{' => self.enter(State::Name),
                State::Start => return Err(self.error("expected a list")),
                State::Name if first == b'}' => self.enter(State::End),
                State::Name => {
                    if first != b'"' {
                        return Err(self.error("expected a member's name"));
                    }
                    let Some(name) = self.take_value()? else { return Ok(None) };
                    self.state = State::Colon(match &*name {
                        b"\"metadata\"" => Member::Metadata,
                        b"\"items\"" => Member::Items,
                        _ => Member::Other,
                    });
                }
                State::Colon(member) if first == b':' => self.enter(State::Value(member)),
                State::Colon(_) => return Err(self.error("expected a colon")),
                State::Value(Member::Items) if first == b'[' => self.enter(State::Items),
                State::Value(member) => {
                    let Some(value) = self.take_value()? else { return Ok(None) };
                    self.state = State::Name;
                    if member == Member::Metadata {
                        return Ok(Some(ListPart::Meta(value)));
                    }
                }
                State::Items if first == b']' => self.enter(State::Name),
                State::Items => return Ok(self.take_value()?.map(ListPart::Item)),
                State::End => return Err(self.error("expected the end")),
            }
        }
    }

    fn finish(&self) -> Result<(), FrameError> {
        let rest = self.buffer.iter().any(|byte| !byte.is_ascii_whitespace());
        if self.state == State::End && !rest { Ok(()) } else { Err(FrameError::Truncated) }
    }
}

impl JsonList {
    fn enter(&mut self, state: State) {
        self.drop_front(1);
        self.state = state;
    }

    fn drop_front(&mut self, len: usize) {
        let _ = self.buffer.split_to(len);
        self.consumed += len;
        self.scan = Scan::default();
    }

    /// The number of buffered bytes that no part has used yet.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.buffer.len()
    }

    fn error(&self, what: &'static str) -> FrameError {
        FrameError::Json(what, self.consumed)
    }

    /// The value at the buffer's start, once all of it has arrived.
    fn take_value(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some(end) = self.value_end()? else { return Ok(None) };
        let value = self.buffer.split_to(end);
        self.consumed += end;
        self.scan = Scan::default();
        Ok(Some(value))
    }

    /// The end of the value at the buffer's start.
    fn value_end(&mut self) -> Result<Option<usize>, FrameError> {
        let (buffer, scan) = (&*self.buffer, &mut self.scan);
        while let Some(&byte) = buffer.get(scan.at) {
            if scan.in_text {
                match byte {
                    _ if scan.escaped => scan.escaped = false,
                    b'\\' => scan.escaped = true,
                    b'"' => {
                        scan.in_text = false;
                        if scan.depth == 0 {
                            return Ok(Some(scan.at + 1));
                        }
                    }
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => scan.in_text = true,
                    b'{' | b'[' => scan.depth += 1,
                    // A number or a word ends before the next character.
                    b'}' | b']' | b',' | b' ' | b'\n' | b'\r' | b'\t' if scan.depth == 0 => {
                        return if scan.at == 0 {
                            Err(self.error("expected a value"))
                        } else {
                            Ok(Some(scan.at))
                        };
                    }
                    b'}' | b']' => {
                        scan.depth -= 1;
                        if scan.depth == 0 {
                            return Ok(Some(scan.at + 1));
                        }
                    }
                    _ => {}
                }
            }
            scan.at += 1;
        }
        if self.buffer.len() > MAX_OBJECT { Err(FrameError::TooLarge(self.buffer.len())) } else { Ok(None) }
    }
}
