//! The end of a log.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::error::Error;
use super::format::Formatter;
use super::open::open_log;
use super::options::LogOptions;

/// How much is read at a time.
const BLOCK: usize = 16 * 1024;

/// Where the last `lines` lines of a file begin, in bytes from its start: 0 where it has fewer. A last line that has no
/// end yet is not counted, but follows those that are. Reads from the end, a block at a time.
///
/// # Errors
/// The file can't be read.
pub fn tail_start(file: &mut (impl Read + Seek), lines: u64) -> io::Result<u64> {
    let mut right = file.seek(SeekFrom::End(0))?;
    let mut block = vec![0; BLOCK];
    let mut ends = 0;
    while right > 0 {
        let left = right.saturating_sub(BLOCK as u64);
        let length = usize::try_from(right - left).unwrap_or(BLOCK);
        file.seek(SeekFrom::Start(left))?;
        file.read_exact(&mut block[..length])?;
        for (at, _) in block[..length].iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            ends += 1;
            if ends > lines {
                return Ok(left + at as u64 + 1);
            }
        }
        right = left;
    }
    Ok(0)
}

/// What a container said last: of its last `lines` lines the last `bytes` bytes (which may begin within a character, or a
/// line). Blocks; holds no more than that and a block of the file.
///
/// # Errors
/// The log can't be read, or is none.
pub fn read_last(path: &Path, lines: u64, bytes: usize) -> Result<Vec<u8>, Error> {
    let mut file = open_log(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    let start = tail_start(&mut file, lines)
        .and_then(|start| file.seek(SeekFrom::Start(start)))
        .map_err(|source| Error::Tail { lines, path: path.to_owned(), source });
    start?;
    let mut formatter = Formatter::new(LogOptions::default());
    formatter.stop_after_lines(lines);
    let (mut block, mut last) = (vec![0; BLOCK], Vec::new());
    while !formatter.is_done() {
        let length = file.read(&mut block).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        if length == 0 {
            break;
        }
        formatter.push(&block[..length], &mut last)?;
        last.drain(..last.len().saturating_sub(bytes));
    }
    Ok(last)
}
