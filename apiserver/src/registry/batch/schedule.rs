//! What is wrong with a cron schedule, in the words of upstream's parser.

/// The names of a field's numbers, in their order.
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// One of the five fields: its least and greatest number, and the names of its numbers from the least on.
struct Bounds {
    least: u64,
    greatest: u64,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { least: 0, greatest: 59, names: &[] },
    Bounds { least: 0, greatest: 23, names: &[] },
    Bounds { least: 1, greatest: 31, names: &[] },
    Bounds { least: 1, greatest: 12, names: &MONTHS },
    Bounds { least: 0, greatest: 6, names: &DAYS },
];

/// Why a schedule is none; `None` if it is one.
pub(super) fn fault(schedule: &str) -> Option<String> {
    if let Some(descriptor) = schedule.strip_prefix('@') {
        let known = matches!(
            descriptor,
            "yearly" | "annually" | "monthly" | "weekly" | "daily" | "midnight" | "hourly"
        ) || descriptor.starts_with("every ");
        return (!known).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    fields.iter().zip(&FIELDS).find_map(|(field, bounds)| {
        field.split(',').filter(|part| !part.is_empty()).find_map(|part| range(part, bounds).err())
    })
}

fn range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let mut halves = text.split('/');
    let (numbers, step) = (halves.next().unwrap_or_default(), halves.next());
    if halves.next().is_some() {
        return Err(format!("too many slashes: {text}"));
    }
    let ends: Vec<&str> = numbers.split('-').collect();
    let (start, mut end) = match ends[..] {
        ["*" | "?", ..] => (bounds.least, bounds.greatest),
        [one] => (number(one, bounds)?, number(one, bounds)?),
        [start, end] => (number(start, bounds)?, number(end, bounds)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match step {
        None => 1,
        Some(step) => {
            if ends.len() == 1 {
                end = bounds.greatest;
            }
            number(step, &Bounds { names: &[], ..*bounds })?
        }
    };
    let Bounds { least, greatest, .. } = bounds;
    if start < *least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {text}"));
    }
    if end > *greatest {
        return Err(format!("end of range ({end}) above maximum ({greatest}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number(text: &str, bounds: &Bounds) -> Result<u64, String> {
    if let Some(at) = bounds.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        return Ok(bounds.least + at as u64);
    }
    text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_judged_field_by_field() {
        for (schedule, expected) in [
            ("*/5 0-23/2 1,15 JAN-dec Mon", None),
            ("@hourly", None),
            ("@every 1h30m", None),
            ("? * * * *", None),
            ("@never", Some("unrecognized descriptor: @never")),
            ("1 2 3", Some("expected exactly 5 fields, found 3: [1 2 3]")),
            ("60 * * * *", Some("end of range (60) above maximum (59): 60")),
            ("* * 0 * *", Some("beginning of range (0) below minimum (1): 0")),
            ("9-5 * * * *", Some("beginning of range (9) beyond end of range (5): 9-5")),
            ("*/0 * * * *", Some("step of range should be a positive number: */0")),
            ("1-2-3 * * * *", Some("too many hyphens: 1-2-3")),
            ("1/2/3 * * * *", Some("too many slashes: 1/2/3")),
            ("x * * * *", Some("failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax")),
        ] {
            assert_eq!(fault(schedule).as_deref(), expected, "{schedule}");
        }
    }
}
