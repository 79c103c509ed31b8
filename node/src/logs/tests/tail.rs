use std::io::Cursor;

use super::*;

#[test]
fn the_last_lines_are_found_from_the_end() {
    let long = "z".repeat(40_000);
    let long = format!("a\n{long}\nb\n");
    for (text, lines, start) in [
        ("", 3, 0),
        ("one\n", 0, 4),
        ("one\n", 1, 0),
        ("one\ntwo\nthree\n", 0, 14),
        ("one\ntwo\nthree\n", 1, 8),
        ("one\ntwo\nthree\n", 2, 4),
        ("one\ntwo\nthree\n", 3, 0),
        ("one\ntwo\nthree\n", 9, 0),
        // Upstream: what has no end is no line yet.
        ("one\ntwo\nthr", 1, 4),
        ("one\ntwo\nthr", 0, 8),
        (&long, 1, 40_003),
        (&long, 2, 2),
        (&long, 3, 0),
    ] {
        assert_eq!(tail_start(&mut Cursor::new(text), lines).unwrap(), start, "{lines} of {}", text.len());
    }
}

#[tokio::test]
async fn a_tail_ends_where_the_file_ended_when_it_was_opened() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("0.log");
    append(&log, &(1..=5).map(|n| line(n, "stdout", "F", &n.to_string())).collect::<String>());
    for (lines, shown) in [(0, ""), (2, "4\n5\n"), (9, "1\n2\n3\n4\n5\n")] {
        let options = LogOptions { tail_lines: Some(lines), ..Default::default() };
        assert_eq!(read(&log, options).await.unwrap(), shown);
    }
    let options = LogOptions { tail_lines: Some(2), ..Default::default() };
    let mut reader = LogReader::open(&log, options, None).await.unwrap();
    append(&log, &line(6, "stdout", "F", "6"));
    assert_eq!(rest(&mut reader).await, "4\n5\n");
}

#[tokio::test]
async fn a_log_that_is_gone_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = read(&folder.path().join("7.log"), LogOptions::default()).await.unwrap_err().to_string();
    assert!(
        error.starts_with("failed to open log file ") && error.contains("7.log\": No such file"),
        "{error}"
    );
}

#[test]
fn the_end_of_a_log_is_of_so_many_lines_and_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("0.log");
    append(&log, &(1..=20_000).map(|n| line(n % 60, "stderr", "F", &n.to_string())).collect::<String>());
    assert_eq!(read_last(&log, 3, 2048).unwrap(), b"19998\n19999\n20000\n");
    assert_eq!(read_last(&log, 3, 8).unwrap(), b"9\n20000\n");
    assert_eq!(read_last(&log, 10_000, 7).unwrap(), b"\n20000\n");
    assert_eq!(read_last(&log, 0, 7).unwrap(), b"");
    assert!(read_last(&folder.path().join("none"), 1, 1).is_err());
}
