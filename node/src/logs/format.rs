//! From the bytes of a log file to what is shown of it.

use super::error::Error;
use super::line::{self, Head, LONGEST_HEAD, Stream};
use super::options::{LogOptions, Streams};

/// Takes a log file's bytes in pieces of any size and gives what the options let through. Keeps no more than the head of
/// one line; texts pass through as they come, so a line may be of any length.
#[derive(Debug)]
pub(super) struct Formatter {
    options: LogOptions,
    /// Bytes that may still be shown.
    left: u64,
    /// Lines that may still be taken; each line of the file counts, shown or not.
    lines_left: Option<u64>,
    position: Position,
    /// What is shown next begins a line, so it gets its stamp.
    at_line_start: bool,
    /// One line could be read: from here on others that can't are passed over.
    recognized: bool,
}

/// Where in a line the next byte is.
#[derive(Debug)]
enum Position {
    /// In the head, of which these bytes came already.
    Head(Vec<u8>),
    /// In the text, which is shown or not. Left at the line's end.
    Text { shown: bool, partial: bool },
    /// In a line that can't be read. Left at its end.
    Unreadable,
}

impl Formatter {
    /// For the whole file, or for what follows a line's end in it.
    pub(super) fn new(options: LogOptions) -> Self {
        Self {
            left: options.limit_bytes.unwrap_or(u64::MAX),
            options,
            lines_left: None,
            position: Position::Head(Vec::new()),
            at_line_start: true,
            recognized: false,
        }
    }

    /// Ends after that many lines of the file.
    pub(super) fn stop_after_lines(&mut self, lines: u64) {
        self.lines_left = Some(lines);
    }

    /// Nothing more will be shown, whatever comes.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0 || self.lines_left == Some(0)
    }

    /// What comes next is the beginning of another file.
    pub(super) fn begin_file(&mut self) {
        self.position = Position::Head(Vec::new());
    }

    /// Takes the next bytes; what is to be shown is appended to `out`.
    ///
    /// # Errors
    /// The first line of all is of another format.
    pub(super) fn push(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        while !input.is_empty() && !self.is_done() {
            let line_end = input.iter().position(|byte| *byte == b'\n');
            let taken = match &mut self.position {
                Position::Head(_) => self.push_head(input, line_end, out)?,
                Position::Text { shown, partial } => {
                    let (shown, partial) = (*shown, *partial);
                    self.push_text(input, line_end, shown, partial, out)
                }
                Position::Unreadable => match line_end {
                    Some(end) => {
                        self.end_line();
                        end + 1
                    }
                    None => input.len(),
                },
            };
            input = &input[taken..];
        }
        Ok(())
    }

    fn push_head(
        &mut self,
        input: &[u8],
        line_end: Option<usize>,
        out: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        let Position::Head(before) = &mut self.position else { return Ok(0) };
        let known = before.len();
        let longest = LONGEST_HEAD - known;
        let piece = &input[..line_end.unwrap_or(input.len()).min(longest)];
        before.extend_from_slice(piece);
        if let Some(length) = line::head_length(before) {
            let head = line::parse(&before[..length]);
            let Some(head) = head else { return self.unreadable(piece.len()) };
            self.recognized = true;
            self.begin_text(&head, out);
            return Ok(length + 1 - known);
        }
        if line_end == Some(piece.len()) || before.len() == LONGEST_HEAD {
            return self.unreadable(piece.len());
        }
        Ok(piece.len())
    }

    /// The line that begins with what the head holds is of another format; `taken` bytes of the input were looked at.
    fn unreadable(&mut self, taken: usize) -> Result<usize, Error> {
        let Position::Head(bytes) = std::mem::replace(&mut self.position, Position::Unreadable) else {
            return Ok(taken);
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if !self.recognized {
            return Err(Error::Format(text));
        }
        tracing::error!(line = text, "Failed when parsing line in log file");
        Ok(taken)
    }

    fn begin_text(&mut self, head: &Head, out: &mut Vec<u8>) {
        let wanted = matches!(
            (self.options.streams, head.stream),
            (Streams::All, _) | (Streams::Stdout, Stream::Stdout) | (Streams::Stderr, Stream::Stderr)
        );
        let shown = wanted && self.options.since.is_none_or(|since| head.at >= since);
        if shown && self.options.timestamps && self.at_line_start {
            self.show(format!("{} ", head.stamp()).as_bytes(), out);
        }
        self.position = Position::Text { shown, partial: head.partial };
    }

    fn push_text(
        &mut self,
        input: &[u8],
        line_end: Option<usize>,
        shown: bool,
        partial: bool,
        out: &mut Vec<u8>,
    ) -> usize {
        let Some(end) = line_end else {
            if shown {
                self.show(input, out);
            }
            return input.len();
        };
        if shown {
            // The end of a part is the runtime's, not the container's.
            self.show(if partial { &input[..end] } else { &input[..=end] }, out);
        }
        self.at_line_start = !partial;
        self.end_line();
        end + 1
    }

    fn end_line(&mut self) {
        self.position = Position::Head(Vec::new());
        if let Some(lines) = &mut self.lines_left {
            *lines = lines.saturating_sub(1);
        }
    }

    fn show(&mut self, text: &[u8], out: &mut Vec<u8>) {
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(text.len());
        out.extend_from_slice(&text[..length]);
        self.left -= length as u64;
    }
}
