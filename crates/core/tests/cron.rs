//! Compares cron expressions with an independent implementation, which steps through instants, minute by minute, and
//! converts each to local time. Slow, and too simple to have the same errors.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{collections::BTreeSet, ops::RangeInclusive, time::Duration};

use jiff::{
    SignedDuration, Timestamp as Instant,
    civil::{Date, DateTime},
    tz::{AmbiguousOffset, TimeZone},
};
use punctual_core::{Json, ScheduleSpec, Spec, Timestamp};

const CASES: usize = 10_000;
const DAYS: i64 = 40;
const ZONES: [&str; 14] = [
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Havana",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Africa/Casablanca",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Antarctica/Troll",
];

/// The values that a field allows, and its text.
#[derive(Debug, Clone)]
struct Field {
    text: String,
    allowed: BTreeSet<i8>,
}

impl Field {
    fn random(random: &mut fastrand::Rng, range: RangeInclusive<i8>, star: bool) -> Self {
        let (low, high) = (*range.start(), *range.end());
        let mut one = || random.i8(range.clone());
        let (a, b, c) = (one(), one(), one());
        let (first, last) = (a.min(b), a.max(b));
        let step = random.i8(2..=(high - low).clamp(2, 20));
        let every = |from: i8, to: i8, step: i8| (from..=to).step_by(step as usize).collect::<BTreeSet<i8>>();
        let (text, allowed) = match random.u8(if star { 0..7 } else { 2..7 }) {
            0 => ("*".to_owned(), every(low, high, 1)),
            1 => (format!("*/{step}"), every(low, high, step)),
            2 => (format!("{a}"), [a].into()),
            3 => (format!("{a},{b},{c}"), [a, b, c].into()),
            4 => (format!("{first}-{last}"), every(first, last, 1)),
            5 => (format!("{first}-{last}/{step}"), every(first, last, step)),
            _ => (format!("{c},{first}-{last}"), every(first, last, 1).into_iter().chain([c]).collect()),
        };
        Self { text, allowed }
    }
}

/// The days that an expression allows.
#[derive(Debug, Clone)]
enum Days {
    All,
    Of(Field),
    Last,
    NearestWeekday(i8),
    NthWeekday(i8, i8),
    LastWeekday(i8),
}

impl Days {
    fn of_month(random: &mut fastrand::Rng) -> (String, Self) {
        match random.u8(0..10) {
            0..5 => ("*".to_owned(), Self::All),
            5 => ("L".to_owned(), Self::Last),
            6 => {
                let day = random.i8(1..=28);
                (format!("{day}W"), Self::NearestWeekday(day))
            }
            _ => {
                let field = Field::random(random, 1..=31, false);
                (field.text.clone(), Self::Of(field))
            }
        }
    }

    fn of_week(random: &mut fastrand::Rng) -> (String, Self) {
        const NAMES: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
        let day = random.i8(0..=6);
        match random.u8(0..10) {
            0..5 => ("*".to_owned(), Self::All),
            5 => {
                let number = random.i8(1..=5);
                (format!("{day}#{number}"), Self::NthWeekday(day, number))
            }
            6 => (format!("{day}L"), Self::LastWeekday(day)),
            7 => {
                let name = NAMES[day as usize];
                (name.to_owned(), Self::Of(Field { text: name.to_owned(), allowed: [day].into() }))
            }
            _ => {
                let field = Field::random(random, 0..=6, false);
                (field.text.clone(), Self::Of(field))
            }
        }
    }

    fn has(&self, date: Date, of_week: bool) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset();
        match self {
            Self::All => true,
            Self::Of(field) => field.allowed.contains(&if of_week { weekday } else { date.day() }),
            Self::Last => date.day() == date.days_in_month(),
            Self::NearestWeekday(day) => {
                let wanted = Date::new(date.year(), date.month(), *day).unwrap();
                let move_by = match wanted.weekday().to_sunday_zero_offset() {
                    6 if *day == 1 => 2,
                    6 => -1,
                    0 if *day == wanted.days_in_month() => -2,
                    0 => 1,
                    _ => 0,
                };
                date.day() == day + move_by
            }
            Self::NthWeekday(day, number) => weekday == *day && (date.day() - 1) / 7 + 1 == *number,
            Self::LastWeekday(day) => weekday == *day && date.day() + 7 > date.days_in_month(),
        }
    }
}

#[derive(Debug)]
struct Expression {
    text: String,
    seconds: Field,
    minutes: Field,
    hours: Field,
    months: Field,
    of_month: Days,
    of_week: Days,
}

impl Expression {
    fn random(random: &mut fastrand::Rng) -> Self {
        let with_seconds = random.u8(0..4) == 0;
        let zero = Field { text: String::new(), allowed: [0].into() };
        let seconds = if with_seconds { Field::random(random, 0..=59, true) } else { zero };
        let (minutes, hours) = (Field::random(random, 0..=59, true), Field::random(random, 0..=23, true));
        let every_month = Field { text: "*".to_owned(), allowed: (1..=12).collect() };
        let months = if random.u8(0..3) == 0 { Field::random(random, 1..=12, false) } else { every_month };
        let ((day, of_month), (weekday, of_week)) = (Days::of_month(random), Days::of_week(random));
        let text = format!("{} {} {} {day} {} {weekday}", seconds.text, minutes.text, hours.text, months.text);
        Self { text: text.trim().to_owned(), seconds, minutes, hours, months, of_month, of_week }
    }

    fn has_date(&self, date: Date) -> bool {
        let (month, week) = (self.of_month.has(date, false), self.of_week.has(date, true));
        let either = !matches!(self.of_month, Days::All) && !matches!(self.of_week, Days::All);
        self.months.allowed.contains(&date.month()) && if either { month || week } else { month && week }
    }

    fn has(&self, time: DateTime) -> bool {
        self.seconds.allowed.contains(&time.second())
            && self.minutes.allowed.contains(&time.minute())
            && self.hours.allowed.contains(&time.hour())
            && self.has_date(time.date())
    }

    fn names_times_of_day(&self) -> bool {
        ![&self.seconds, &self.minutes, &self.hours].into_iter().any(|field| field.text.contains('*'))
    }

    /// The first occurrence after `after`, if there is one within `DAYS` days.
    fn next(&self, zone: &TimeZone, after: Instant) -> Option<Instant> {
        let minute = SignedDuration::from_mins(1);
        let first = Instant::from_second(after.as_second() + 1).unwrap();
        let mut start = Instant::from_second(first.as_second().div_euclid(60) * 60).unwrap();
        let end = after + SignedDuration::from_hours(24 * DAYS);
        while start <= end {
            let shown = zone.to_datetime(start);
            let quiet = SignedDuration::from_hours(26);
            let quiet = zone.following(start - minute).next().is_none_or(|change| change.timestamp() > start + quiet);
            // There are no occurrences and no changes of the offset on such a day.
            if quiet && !self.has_date(shown.date()) {
                start += SignedDuration::from_mins(1_440 - i64::from(shown.hour()) * 60 - i64::from(shown.minute()));
                continue;
            }
            if quiet && !self.hours.allowed.contains(&shown.hour()) {
                start += SignedDuration::from_mins(60 - i64::from(shown.minute()));
                continue;
            }
            if start >= first && self.names_times_of_day() && self.left_out_before(zone, start) {
                return Some(start);
            }
            for second in &self.seconds.allowed {
                let at = start + SignedDuration::from_secs(i64::from(*second));
                let time = zone.to_datetime(at);
                if at >= first && self.has(time) && !(self.names_times_of_day() && is_repeated(zone, at, time)) {
                    return (at <= end).then_some(at);
                }
            }
            start += minute;
        }
        None
    }

    /// Whether the clock skips, at this instant, a time that the expression matches.
    fn left_out_before(&self, zone: &TimeZone, at: Instant) -> bool {
        let (before, after) = (zone.to_offset(at - SignedDuration::from_secs(1)), zone.to_offset(at));
        if after <= before {
            return false;
        }
        let (mut time, until) = (before.to_datetime(at), after.to_datetime(at));
        while time < until {
            if self.has(time) {
                return true;
            }
            time = time.checked_add(SignedDuration::from_secs(1)).unwrap();
        }
        false
    }
}

/// Whether the clock shows a time for the second time.
fn is_repeated(zone: &TimeZone, at: Instant, time: DateTime) -> bool {
    matches!(zone.to_ambiguous_zoned(time).offset(), AmbiguousOffset::Fold { after, .. } if zone.to_offset(at) == after)
}

/// A random instant of this century; half of them within two days of a change of the offset.
fn random_instant(random: &mut fastrand::Rng, zone: &TimeZone) -> Instant {
    let any = Instant::from_second(random.i64(946_684_800..2_145_916_800)).unwrap();
    match zone.following(any).next() {
        Some(change) if random.bool() && change.timestamp().as_second() < 2_145_916_800 => {
            change.timestamp() + SignedDuration::from_secs(random.i64(-172_800..172_800))
        }
        _ => any,
    }
}

fn ours(instant: Instant) -> Timestamp {
    Timestamp::from_micros(instant.as_microsecond())
}

#[test]
fn ten_thousand_random_expressions_agree_with_an_independent_implementation() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut found, mut near_changes) = (0, 0);
    for _ in 0..CASES {
        let name = random.choice(ZONES).unwrap();
        let zone = TimeZone::get(name).unwrap();
        let (expression, after) = (Expression::random(&mut random), random_instant(&mut random, &zone));
        let case = format!("{} in {name} after {after}", expression.text);
        let mut spec = ScheduleSpec::new("x", &expression.text, Spec::new("x", Json::null()));
        spec.zone = name.to_owned();
        let timing = spec.timing().unwrap();
        let next = timing.next(ours(after)).unwrap();
        let expected = expression.next(&zone, after);
        match expected {
            Some(expected) => assert_eq!(next, Some(ours(expected)), "{case}"),
            None => assert!(next.is_none_or(|next| next.since(ours(after)).as_secs() > 86_400 * DAYS as u64), "{case}"),
        }
        // In the opposite direction, there is no occurrence in between.
        let Some(next) = next else { continue };
        assert_eq!(timing.last(next).unwrap(), Some(next), "{case}");
        let before = timing.last(next.before(Duration::from_micros(1))).unwrap();
        assert!(before.is_none_or(|before| before <= ours(after)), "{case}: {before:?} is between");
        found += usize::from(expected.is_some());
        let two_days = SignedDuration::from_hours(48);
        let change = zone.following(after - two_days).next();
        near_changes += usize::from(change.is_some_and(|change| change.timestamp() < after + two_days));
    }
    assert!(found > CASES / 2 && near_changes > CASES / 5, "{found} found, {near_changes} near a change of the clock");
}

#[test]
fn expressions_without_occurrences_are_refused() {
    let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
    let refused = |cron: &str, adjust: fn(&mut ScheduleSpec)| {
        let mut spec = ScheduleSpec::new("x", cron, Spec::new("x", Json::null()));
        adjust(&mut spec);
        spec.check(now).unwrap_err().to_string()
    };
    for cron in ["0 0 31 2 *", "0 0 30 FEB *", "0 0 31 4,6,9,11 *"] {
        assert_eq!(refused(cron, |_| ()), format!("cron: `{cron}` never runs: no such date exists"));
    }
    let past = refused("@daily", |spec| spec.ends_at = "2026-01-01T00:00:00Z".parse().ok());
    assert_eq!(past, "cron: `@daily` never runs: its end is past");
    let between = refused("@yearly", |spec| spec.ends_at = "2026-12-01T00:00:00Z".parse().ok());
    assert_eq!(between, "cron: `@yearly` never runs before its end");
    let zone = refused("@daily", |spec| spec.zone = "Europe/Berln".into());
    assert_eq!(zone, "zone: unknown time zone `Europe/Berln`: expected UTC, or a name such as Europe/Berlin");
}
