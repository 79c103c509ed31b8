use crate::logs::format::Formatter;

use super::*;

fn options() -> LogOptions {
    LogOptions::default()
}

/// What a formatter makes of `text` when it comes in pieces of `size` bytes.
fn in_pieces(options: LogOptions, text: &str, size: usize) -> Result<String, Error> {
    let (mut formatter, mut out) = (Formatter::new(options), Vec::new());
    for piece in text.as_bytes().chunks(size) {
        formatter.push(piece, &mut out)?;
    }
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn lines_are_shown_as_asked_however_they_come_in_pieces() {
    let log = [
        line(1, "stdout", "F", "one"),
        line(2, "stderr", "F", "two"),
        line(3, "stdout", "P", "thr"),
        line(4, "stdout", "F", "ee"),
        line(5, "stdout", "F:later", ""),
        line(6, "stdout", "F", "last"),
    ]
    .concat();
    let second = |second: u32| format!("2026-11-21T10:00:{second:02}.000000000Z");
    let since = Some(second(4).parse().unwrap());
    let cases = [
        (options(), "one\ntwo\nthree\n\nlast\n".to_owned()),
        (LogOptions { streams: Streams::Stdout, ..options() }, "one\nthree\n\nlast\n".into()),
        (LogOptions { streams: Streams::Stderr, ..options() }, "two\n".into()),
        (LogOptions { since, ..options() }, "ee\n\nlast\n".into()),
        (LogOptions { limit_bytes: Some(6), ..options() }, "one\ntw".into()),
        (LogOptions { limit_bytes: Some(2), streams: Streams::Stderr, ..options() }, "tw".into()),
        (
            LogOptions { timestamps: true, ..options() },
            format!(
                "{} one\n{} two\n{} three\n{} \n{} last\n",
                second(1),
                second(2),
                second(3),
                second(5),
                second(6)
            ),
        ),
        (LogOptions { timestamps: true, limit_bytes: Some(10), ..options() }, "2026-11-21".into()),
    ];
    for (options, shown) in cases {
        for size in [1, 7, 100, log.len()] {
            assert_eq!(in_pieces(options.clone(), &log, size).unwrap(), shown, "{options:?} by {size}");
        }
    }
}

#[test]
fn stamps_are_shown_as_written_to_the_nanosecond() {
    for (written, shown) in [
        ("2026-11-21T12:00:00.5+02:00", "2026-11-21T12:00:00.500000000+02:00"),
        ("2026-11-21T12:00:00-03:30", "2026-11-21T12:00:00.000000000-03:30"),
        ("2026-11-21T12:00:00.000000001-00:30", "2026-11-21T12:00:00.000000001-00:30"),
        ("2026-11-21T12:00:00+00:00", "2026-11-21T12:00:00.000000000Z"),
        ("2026-11-21T12:00:00.123456789Z", "2026-11-21T12:00:00.123456789Z"),
    ] {
        let options = LogOptions { timestamps: true, ..options() };
        let log = format!("{written} stdout F x\n");
        assert_eq!(in_pieces(options, &log, 100).unwrap(), format!("{shown} x\n"));
    }
    // It is the instant that counts.
    let options = LogOptions { since: Some("2026-11-21T10:30:00Z".parse().unwrap()), ..options() };
    let log = "2026-11-21T12:00:00+02:00 stdout F x\n2026-11-21T09:00:00-02:00 stdout F y\n";
    assert_eq!(in_pieces(options, log, 100).unwrap(), "y\n");
}

#[test]
fn a_line_without_end_is_shown_so_far() {
    let log = line(1, "stdout", "F", "one") + "2026-11-21T10:00:02Z stdout F tw";
    assert_eq!(in_pieces(options(), &log, 5).unwrap(), "one\ntw");
}

#[test]
fn a_line_that_can_not_be_read_is_passed_over() {
    let long = "x".repeat(1000);
    for bad in ["nonsense", "a b c d", "2026-11-21T10:00:02Z stdin F x", &long, ""] {
        let log = line(1, "stdout", "F", "one") + bad + "\n" + &line(3, "stdout", "F", "three");
        for size in [1, 50, 5000] {
            assert_eq!(in_pieces(options(), &log, size).unwrap(), "one\nthree\n", "{bad:?} by {size}");
        }
    }
}

#[test]
fn a_file_of_another_format_is_refused() {
    let error = in_pieces(options(), "{\"log\":\"x\\n\",\"stream\":\"stdout\"}\n", 9).unwrap_err();
    assert!(
        error.to_string().starts_with("failed to get parse function: unsupported log format: "),
        "{error}"
    );
}

#[test]
fn a_line_of_megabytes_passes_through() {
    let text = "y".repeat(3 << 20);
    let log = line(1, "stdout", "F", &text) + &line(2, "stdout", "F", "end");
    assert_eq!(in_pieces(options(), &log, 65536).unwrap().len(), text.len() + 1 + 4);
}
