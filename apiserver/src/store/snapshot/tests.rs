use std::fs;
use std::io::Write;

use super::*;

/// A file with these lines and the right digest.
fn file(lines: &[&str]) -> tempfile::NamedTempFile {
    let mut text: Vec<u8> = lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
    let mut digest = Context::new(&SHA256);
    digest.update(&text);
    text.extend(super::text(&Foot { sha256: hexadecimal(digest) }));
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&text).unwrap();
    file
}

const HEAD: &str = r#"{"snapshot":1,"revision":7,"objects":1}"#;
const MAP: &str = r#"{"table":"configmaps","namespace":"a","name":"b","state":{"metadata":{"name":"b","namespace":"a","resourceVersion":"5"}}}"#;

fn why(file: &tempfile::NamedTempFile) -> String {
    let error = SavedSnapshot::check(file.path()).unwrap_err().to_string();
    error.split_once(", ").map_or(error.clone(), |(_, why)| why.to_owned())
}

#[test]
fn a_snapshot_is_taken_as_a_whole_or_not_at_all() {
    let good = file(&[HEAD, MAP]);
    let checked = SavedSnapshot::check(good.path()).unwrap();
    assert_eq!((checked.objects(), checked.revision()), (1, 7));
    let text = fs::read(good.path()).unwrap();
    for cut in 0..text.len() {
        let mut part = tempfile::NamedTempFile::new().unwrap();
        part.write_all(&text[..cut]).unwrap();
        assert!(SavedSnapshot::check(part.path()).is_err(), "cut off after {cut} bytes");
    }
    for (at, byte) in text.iter().enumerate() {
        let mut changed = text.clone();
        changed[at] = byte ^ 1;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&changed).unwrap();
        assert!(SavedSnapshot::check(file.path()).is_err(), "byte {at} is changed");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let one = |head: &str, line: &str| why(&file(&[head, line]));
    assert_eq!(one(HEAD, "{}"), "line 2: missing field `table`");
    assert!(one("x", MAP).starts_with("line 1: expected value"));
    let none = r#"{"table":"a","namespace":"","name":"b"}"#;
    assert_eq!(one(HEAD, none), "line 2: an object has either a state or an encrypted one");
    let garbled = r#"{"table":"secrets","namespace":"","name":"b","sealed":"!"}"#;
    assert!(one(HEAD, garbled).starts_with("line 2: Invalid symbol"), "{}", one(HEAD, garbled));
    assert!(why(&file(&[HEAD])).starts_with("line 2: missing field"));
    assert!(why(&file(&[HEAD, MAP, MAP])).starts_with("line 3: missing field `sha256`"));
    for (state, part) in [
        ("5", "line 2: invalid type"),
        (r#"{"metadata":{"name":"b","namespace":"a"}}"#, "line 2: missing field `resourceVersion`"),
        (
            r#"{"metadata":{"name":"c","namespace":"a","resourceVersion":"5"}}"#,
            "line 2: it is the state of a/c",
        ),
        (
            r#"{"metadata":{"name":"b","namespace":"a","resourceVersion":"8"}}"#,
            "line 2: it has the version \"8\"",
        ),
    ] {
        let line = format!(r#"{{"table":"configmaps","namespace":"a","name":"b","state":{state}}}"#);
        assert!(one(HEAD, &line).starts_with(part), "{}", one(HEAD, &line));
    }
    let two = HEAD.replace("\"objects\":1", "\"objects\":2");
    assert!(why(&file(&[&two, MAP, MAP])).starts_with("line 3: the object is there twice"));
    for head in [
        r#"{"snapshot":0,"revision":7,"objects":1}"#,
        r#"{"snapshot":1,"revision":18446744073709551615,"objects":1}"#,
    ] {
        assert_eq!(one(head, MAP), "line 1: it is no first line of a snapshot");
    }
    let newer = file(&[r#"{"snapshot":2,"revision":7,"objects":1}"#, MAP]);
    let error = SavedSnapshot::check(newer.path()).unwrap_err().to_string();
    assert!(error.ends_with("written by a newer version (format 2, this one knows 1)"), "{error}");
    let mut longer = file(&[HEAD, MAP]);
    longer.write_all(b"\n").unwrap();
    assert_eq!(why(&longer), "line 3: something follows the last line");
}

#[test]
fn a_line_without_end_is_not_read_into_memory() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&vec![b' '; usize::try_from(LINE).unwrap() + 1]).unwrap();
    assert_eq!(why(&file), "line 1: the line is too long");
}
