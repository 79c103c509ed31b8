//! Understands files of `/proc`, `/sys` and `/etc`. Pure.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// How many processors a list such as `0-3,8` names; `None` if it is none.
pub fn cpu_count(list: &str) -> Option<u32> {
    let mut count = 0_u32;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

/// How many processors `/proc/cpuinfo` tells of.
pub fn processors(cpuinfo: &str) -> usize {
    cpuinfo
        .lines()
        .filter(|line| line.split_once(':').is_some_and(|(name, _)| name.trim() == "processor"))
        .count()
}

/// A row of `/proc/meminfo`, in bytes.
pub fn memory_info(meminfo: &str, row: &str) -> Option<i64> {
    let value = value_of(meminfo, ':', row)?;
    let kibibytes: i64 = value.strip_suffix("kB").unwrap_or(value).trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// A row of a cgroup's `memory.stat`, in bytes.
pub fn memory_stat(stat: &str, row: &str) -> Option<i64> {
    value_of(stat, ' ', row)?.parse().ok()
}

/// A row of a cgroup's `cpu.stat`, in its own unit.
pub fn cpu_stat(stat: &str, row: &str) -> Option<u64> {
    value_of(stat, ' ', row)?.parse().ok()
}

/// The name of the operating system by its `os-release`: `PRETTY_NAME`, or `Linux`.
pub fn os_image(os_release: &str) -> String {
    let name = value_of(os_release, '=', "PRETTY_NAME");
    name.map_or_else(|| "Linux".to_owned(), |name| name.trim_matches('"').to_owned())
}

/// The size of a page in bytes, by the name of its folder such as `hugepages-2048kB`.
pub fn huge_page_size(folder: &str) -> Option<i64> {
    let kibibytes: i64 = folder.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// How many tasks there are, by `/proc/loadavg`: `1.36 3.49 4.53 2/3518 3715089`.
pub fn task_count(loadavg: &str) -> Option<i64> {
    let (_, all) = loadavg.split_whitespace().nth(3)?.split_once('/')?;
    all.parse().ok()
}

/// When the machine was started, in seconds since 1970, by `/proc/stat`.
pub fn boot_time(stat: &str) -> Option<i64> {
    value_of(stat, ' ', "btime")?.parse().ok()
}

/// The value beside a name, of which each has a line of its own.
fn value_of<'a>(text: &'a str, separator: char, name: &str) -> Option<&'a str> {
    let rows = text.lines().filter_map(|line| line.split_once(separator));
    rows.into_iter().find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim())
}

/// The mount points that `/proc/self/mountinfo` tells of, in the order in which they were mounted.
pub fn mount_points(mountinfo: &[u8]) -> Vec<PathBuf> {
    // The fifth field of each line.
    let fields = |line: &[u8]| line.split(|byte| *byte == b' ').nth(4).map(<[u8]>::to_vec);
    let lines = mountinfo.split(|byte| *byte == b'\n').filter_map(fields);
    lines.map(|field| PathBuf::from(OsString::from_vec(unescaped(&field)))).collect()
}

/// Blanks and the like are written as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = (*first == b'\\').then(|| after.get(..3)).flatten();
        let octal = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_blanks() {
        let table =
            b"22 1 0:21 / /proc rw - proc proc rw\n23 1 0:22 / /a\\040b\\134c rw shared:1 - tmpfs tmpfs rw\n";
        assert_eq!(mount_points(table), [PathBuf::from("/proc"), PathBuf::from("/a b\\c")]);
    }

    #[test]
    fn lists_of_processors_are_counted() {
        for (list, count) in [
            ("0\n", Some(1)),
            ("0-1", Some(2)),
            ("0-3,8,10-11\n", Some(7)),
            ("", None),
            ("3-1", None),
            ("a", None),
            ("0-", None),
            ("0-4294967295", None),
        ] {
            assert_eq!(cpu_count(list), count, "{list:?}");
        }
        assert_eq!(processors("processor\t: 0\nmodel name\t: processor x\n\nprocessor\t: 1\n"), 2);
    }

    #[test]
    fn rows_of_memory_are_found_in_bytes() {
        let meminfo =
            "MemTotal:       24684100 kB\nMemFree:        10668028 kB\nSwapTotal:             0 kB\n";
        assert_eq!(memory_info(meminfo, "MemTotal"), Some(24_684_100 * 1024));
        assert_eq!(memory_info(meminfo, "SwapTotal"), Some(0));
        assert_eq!(memory_info(meminfo, "Mem"), None);
        assert_eq!(memory_info("MemTotal: much kB", "MemTotal"), None);
        let stat = "inactive_file 7\ntotal_inactive_file 12\n";
        assert_eq!(memory_stat(stat, "total_inactive_file"), Some(12));
        assert_eq!(memory_stat(stat, "inactive_file"), Some(7));
        assert_eq!(memory_stat(stat, "file"), None);
    }

    #[test]
    fn an_operating_system_is_called_by_its_pretty_name() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\n";
        assert_eq!(os_image(debian), "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(os_image("NAME=x\nPRETTY_NAME=Alpine\n"), "Alpine");
        assert_eq!(os_image("NAME=x"), "Linux");
    }

    #[test]
    fn sizes_of_huge_pages_are_in_their_folders_names() {
        assert_eq!(huge_page_size("hugepages-2048kB"), Some(2 << 20));
        assert_eq!(huge_page_size("hugepages-1048576kB"), Some(1 << 30));
        for wrong in ["hugepages-2048", "2048kB", "hugepages-xkB", "hugepages-9223372036854775807kB"] {
            assert_eq!(huge_page_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tasks_and_the_time_of_boot_are_read() {
        assert_eq!(task_count("1.36 3.49 4.53 2/3518 3715089"), Some(3518));
        assert_eq!(task_count("1.36 3.49 4.53"), None);
        assert_eq!(task_count("1.36 3.49 4.53 3518 3"), None);
        assert_eq!(boot_time("cpu  1 2\nbtime 1700000000\nprocesses 7\n"), Some(1_700_000_000));
        assert_eq!(boot_time("cpu 1"), None);
    }
}
