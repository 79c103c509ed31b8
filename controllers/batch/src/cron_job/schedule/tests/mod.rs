//! `runs.txt` and `errors.txt` are what Go's `robfig/cron` 3.0.1 answers (`TZ=<zone> <schedule>` to `ParseStandard`, then `Next`).

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use proptest::prelude::*;

use super::*;

fn zones() -> Zones {
    Zones::with_local(TimeZone::UTC)
}

fn schedule(text: &str, zone: &str) -> Schedule {
    let zones = zones();
    Schedule::parse(text, &zones.load(zone).unwrap(), &zones).unwrap()
}

fn at(text: &str) -> Time {
    text.parse::<Timestamp>().unwrap().into()
}

/// Each line: zone, schedule, a time in seconds since 1970, and the seconds from there to each of the next runs. The lines are a
/// sample of random ones, without those on which the library errs: see
/// `days_whose_clock_changes_at_midnight_or_by_half_an_hour_have_their_runs`.
#[test]
fn runs_are_those_of_the_go_library() {
    let mut wrong = Vec::new();
    for line in include_str!("runs.txt").lines() {
        let parts: Vec<&str> = line.split('|').collect();
        let [zone, text, start, waits @ ..] = &parts[..] else { panic!("{line}") };
        let (schedule, mut time) = (schedule(text, zone), Time::from_seconds(start.parse().unwrap()));
        for wait in waits {
            let next = schedule.next(time, time);
            let found = next.map_or("-".to_owned(), |next| (next.seconds() - time.seconds()).to_string());
            if found != *wait {
                wrong.push(format!("{line}: {found} instead of {wait}"));
                break;
            }
            time = next.unwrap_or(time);
        }
    }
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn errors_are_those_of_the_go_library() {
    let zones = zones();
    for line in include_str!("errors.txt").lines() {
        let (text, expected) = line.split_once('|').unwrap();
        let text: String = serde_json::from_str(text).unwrap();
        let parsed = Schedule::parse(&text, &TimeZone::UTC, &zones);
        let found = parsed.map_or_else(|error| error.to_string(), |_| "-".to_owned());
        assert_eq!(found, expected, "{text:?}");
    }
}

/// Zones whose offsets change by an hour, by half an hour or by two; at midnight, to either side; by a whole day; or never.
const ZONES: [&str; 12] = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "Africa/Cairo",
    "Asia/Kolkata",
    "America/Havana",
    "Pacific/Apia",
    "Asia/Amman",
    "Antarctica/Troll",
];

/// A field of a schedule, and the numbers that it stands for.
fn a_field(least: i8, greatest: i8) -> impl Strategy<Value = (String, Vec<i8>)> {
    let all = (least..=greatest).collect::<Vec<_>>();
    let one = (least..=greatest).prop_map(|number| (number.to_string(), vec![number]));
    let range = (least..=greatest, least..=greatest).prop_map(|(a, b)| {
        let (a, b) = (a.min(b), a.max(b));
        (format!("{a}-{b}"), (a..=b).collect())
    });
    let step = (2..=greatest / 2).prop_map(move |step| {
        let step_size = usize::try_from(step).unwrap();
        (format!("*/{step}"), (least..=greatest).step_by(step_size).collect())
    });
    prop_oneof![3 => Just(("*".to_owned(), all)), 2 => one, 1 => range, 1 => step]
}

/// Five fields: their texts and their numbers.
fn five() -> impl Strategy<Value = Vec<(String, Vec<i8>)>> {
    (a_field(0, 59), a_field(0, 23), a_field(1, 31), a_field(1, 12), a_field(0, 6))
        .prop_map(|(minute, hour, day, month, weekday)| vec![minute, hour, day, month, weekday])
}

/// Whether a wall clock with this offset shows a time of the schedule, by the plain words of the manual.
fn shows(fields: &[(String, Vec<i8>)], offset: Offset, time: Time) -> bool {
    let clock = offset.to_datetime(time.into());
    let has = |field: usize, number: i8| fields[field].1.contains(&number);
    let (of_month, of_week) = (has(2, clock.day()), has(4, clock.weekday().to_sunday_zero_offset()));
    let a_star = fields[2].0 == "*" || fields[4].0 == "*";
    let day = if a_star { of_month && of_week } else { of_month || of_week };
    clock.second() == 0 && has(0, clock.minute()) && has(1, clock.hour()) && has(3, clock.month()) && day
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Looks at each minute of 20 days; half of the searches begin shortly before a change of the offset.
    #[test]
    fn runs_are_the_minutes_whose_clock_shows_the_fields(
        fields in five(), zone in 0..ZONES.len(), start in 1_136_073_600_i64..1_893_456_000, near in any::<bool>(),
    ) {
        const DAYS: i64 = 20;
        let name = ZONES[zone];
        let zone = zones().load(name).unwrap();
        let text = fields.iter().map(|field| field.0.as_str()).collect::<Vec<_>>().join(" ");
        let schedule = schedule(&text, name);
        let change = zone.following(Time::from_seconds(start).into()).next().map(|change| change.timestamp());
        let start = change.filter(|_| near).map_or(start, |change| change.as_second() - 86_400);
        let start = Time::from_seconds(start - start.rem_euclid(60));
        let end = Time::from_seconds(start.seconds() + DAYS * 86_400);
        let minutes = (1..=DAYS * 1440).map(|minute| Time::from_seconds(start.seconds() + minute * 60));
        let plain: Vec<Time> = minutes
            .filter(|minute| shows(&fields, zone.to_offset((*minute).into()), *minute))
            .collect();
        let walk = std::iter::successors(schedule.next(start, start), |run| schedule.next(*run, *run));
        let walked: Vec<Time> = walk.take_while(|run| *run <= end).collect();
        prop_assert_eq!(&walked, &plain, "{} in {} from {}", text, name, start);
        let mut back: Vec<Time> = schedule.backwards(start, end).collect();
        back.reverse();
        prop_assert_eq!(back, plain, "backwards: {} in {} from {}", text, name, start);
    }
}

/// Ten years of each zone. All runs are at full half hours of UTC in each of these zones, so that it suffices to look at
/// those.
#[test]
fn ten_years_of_runs_are_the_minutes_whose_clock_shows_the_fields() {
    let (start, end) = (at("2006-01-01T00:00:00Z"), at("2016-01-01T00:00:00Z"));
    for name in ZONES {
        let zone = zones().load(name).unwrap();
        let numbers = |set: &[i8]| set.to_vec();
        let all = |least: i8, greatest: i8| ("*".to_owned(), (least..=greatest).collect::<Vec<_>>());
        let fields = [
            ("30".to_owned(), numbers(&[30])),
            ("*/2".to_owned(), (0..24).step_by(2).collect()),
            all(1, 31),
            all(1, 12),
            ("5,6,0".to_owned(), numbers(&[5, 6, 0])),
        ];
        let schedule = schedule("30 */2 * * 5,6,0", name);
        let mut run = schedule.next(start, start);
        for half_hour in 1..=(end.seconds() - start.seconds()) / 1800 {
            let minute = Time::from_seconds(start.seconds() + half_hour * 1800);
            if shows(&fields, zone.to_offset(minute.into()), minute) {
                assert_eq!(run, Some(minute), "{name}");
                assert_eq!(schedule.last(start, minute), run, "{name}");
                run = schedule.next(minute, minute);
            }
        }
        assert!(run > Some(end), "{name}");
    }
}

#[test]
fn a_time_that_the_clock_skips_does_not_come_and_one_that_it_repeats_comes_twice() {
    let daily = schedule("30 2 * * *", "Europe/Berlin");
    let runs = |from: &str| {
        let from = at(from);
        let first = daily.next(from, from).unwrap();
        [first, daily.next(first, first).unwrap()].map(|run| run.to_string())
    };
    assert_eq!(runs("2026-03-28T00:00:00Z"), ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]);
    assert_eq!(runs("2026-10-24T12:00:00Z"), ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]);
}

/// Go's library leaves out runs of days whose midnight the clock skips or shows twice, and of hours that begin at their half. In
/// Samoa, where the clock skipped a whole day, it never returns.
#[test]
fn days_whose_clock_changes_at_midnight_or_by_half_an_hour_have_their_runs() {
    for (text, zone, from, expected) in [
        ("0 12 * * sun", "Asia/Beirut", "2020-03-26T00:00:00Z", "2020-03-29T09:00:00Z"),
        ("0 0 * * fri", "Asia/Amman", "2020-10-28T00:00:00Z", "2020-10-29T21:00:00Z"),
        ("28 3 * * sun", "Australia/Lord_Howe", "2008-10-03T00:00:00Z", "2008-10-04T16:28:00Z"),
        ("@weekly", "Pacific/Apia", "2011-12-29T09:04:36Z", "2011-12-31T10:00:00Z"),
    ] {
        let from = at(from);
        assert_eq!(schedule(text, zone).next(from, from), Some(at(expected)), "{text} in {zone}");
    }
}

#[test]
fn a_fixed_delay_counts_from_its_base() {
    let base = at("2026-01-01T00:00:07Z");
    let every = schedule("@every 1m30s", "UTC");
    assert_eq!(every.next(base, base), Some(at("2026-01-01T00:01:37Z")));
    assert_eq!(every.next(base, at("2026-01-01T00:03:07Z")), Some(at("2026-01-01T00:04:37Z")));
    assert_eq!(every.last(base, at("2026-01-01T00:03:06Z")), Some(at("2026-01-01T00:01:37Z")));
    assert_eq!(every.last(base, at("2026-01-01T00:01:36Z")), None);
    assert_eq!(every.backwards(base, at("2026-01-01T01:00:00Z")).count(), 39);
}

#[test]
fn a_day_that_never_comes_ends_the_search() {
    let from = at("2026-01-01T00:00:00Z");
    for (text, expected) in
        [("0 0 31 2 *", None), (", * * * *", None), ("0 0 29 2 *", Some(at("2028-02-29T00:00:00Z")))]
    {
        assert_eq!(schedule(text, "UTC").next(from, from), expected, "{text}");
        assert_eq!(schedule(text, "UTC").last(from, at("2027-01-01T00:00:00Z")), None, "{text}");
    }
}

#[test]
fn zones_go_by_their_exact_names_and_an_empty_name_is_utc() {
    let zones = Zones::with_local(TimeZone::fixed(Offset::constant(3)));
    assert_eq!(zones.load("").unwrap(), TimeZone::UTC);
    assert_eq!(zones.load("Local").unwrap(), *zones.local());
    assert_eq!(zones.load("US/Eastern").unwrap().iana_name(), Some("US/Eastern"));
    for (name, why) in [
        ("europe/berlin", "unknown time zone europe/berlin"),
        ("Mars/Olympus", "unknown time zone Mars/Olympus"),
        ("/etc/localtime", "time: invalid location name"),
        ("../Europe/Berlin", "time: invalid location name"),
    ] {
        assert_eq!(zones.load(name).unwrap_err().to_string(), why);
    }
}
