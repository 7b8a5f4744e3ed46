//! The times of a schedule's occurrences: a cron expression or a fixed period.

use std::{fmt, str::FromStr, time::Duration};

use croner::{
    Cron,
    errors::CronError,
    parser::{CronParser, Seconds, Year},
};
use jiff::tz::TimeZone;

use super::wall_clock;
use crate::{Invalid, Timestamp, check, limits};

/// A cron expression of five fields, or six with seconds first; a macro such as `@hourly`; or `@every 90s`.
///
/// ```
/// use punctual_core::Cadence;
/// let weekdays: Cadence = "30 9 * * MON-FRI".parse().unwrap();
/// assert_eq!(weekdays.to_string(), "30 9 * * MON-FRI");
/// let refused = "30 25 * * *".parse::<Cadence>().unwrap_err().to_string();
/// assert!(refused.starts_with("cron: hour `25`: "), "{refused}");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Cadence {
    text: String,
    rule: Rule,
}

#[derive(Clone, PartialEq, Eq)]
enum Rule {
    Cron(Box<Cron>),
    Every(Duration),
}

impl Cadence {
    /// A description in words.
    pub fn describe(&self) -> String {
        match &self.rule {
            Rule::Cron(cron) => cron.describe().replacen("At every", "Every", 1),
            Rule::Every(_) => format!("Every{}.", self.text.trim_start_matches("@every")),
        }
    }

    /// The first occurrence after an instant, if any. A period is counted from `anchor`.
    pub(super) fn next(
        &self,
        after: Timestamp,
        zone: &TimeZone,
        anchor: Timestamp,
    ) -> Result<Option<Timestamp>, String> {
        match &self.rule {
            Rule::Every(_) if after < anchor => Ok(Some(anchor)),
            Rule::Every(period) => {
                let next = nth(anchor, *period, periods(anchor, after, *period) + 1);
                Ok((next < Timestamp::MAX).then_some(next))
            }
            Rule::Cron(cron) => wall_clock::next(cron, zone, after),
        }
    }

    /// The last occurrence at or before an instant, if any.
    pub(super) fn last(&self, at: Timestamp, zone: &TimeZone, anchor: Timestamp) -> Result<Option<Timestamp>, String> {
        match &self.rule {
            Rule::Every(_) if at < anchor => Ok(None),
            Rule::Every(period) => Ok(Some(nth(anchor, *period, periods(anchor, at, *period)))),
            Rule::Cron(cron) => wall_clock::last(cron, zone, at),
        }
    }
}

fn periods(anchor: Timestamp, at: Timestamp, period: Duration) -> u128 {
    at.since(anchor).as_micros() / period.as_micros().max(1)
}

fn nth(anchor: Timestamp, period: Duration, number: u128) -> Timestamp {
    let micros = number.saturating_mul(period.as_micros());
    anchor.after(Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
}

impl FromStr for Cadence {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        if text.chars().count() > limits::CRON_MAX_CHARS {
            return Err(Invalid::too_long("cron", text.chars().count(), limits::CRON_MAX_CHARS, "characters"));
        }
        if let Some(period) = text.strip_prefix("@every") {
            let period: jiff::SignedDuration = period.trim().parse().map_err(|_| bad_period(period))?;
            let period = Duration::try_from(period).map_err(|_| bad_period(text))?;
            check::duration("every", period, limits::EVERY_MIN, limits::EVERY_MAX)?;
            return Ok(Self { text: text.to_owned(), rule: Rule::Every(period) });
        }
        let cron = parse(text).map_err(|error| explain(text, &error))?;
        Ok(Self { text: text.to_owned(), rule: Rule::Cron(Box::new(cron)) })
    }
}

fn bad_period(text: &str) -> Invalid {
    Invalid::new("every", format!("invalid duration `{}`: expected @every 90s or @every 1h30m", text.trim()))
}

fn parse(text: &str) -> Result<Cron, CronError> {
    let text = if text.eq_ignore_ascii_case("@midnight") { "@daily" } else { text };
    let mut fields: Vec<String> = text.split_whitespace().map(str::to_ascii_uppercase).collect();
    if !text.starts_with('@') {
        let first = FIELDS.len().saturating_sub(fields.len());
        let items = fields
            .iter()
            .zip(&FIELDS[first..])
            .flat_map(|(field, kind)| field.split(',').map(move |item| (item, kind)));
        for (item, (name, ..)) in items {
            if !is_plausible(item, name) {
                return Err(CronError::InvalidPattern(item.to_owned()));
            }
        }
        // Sunday has two numbers, of which the parser accepts only one here.
        if let Some(weekday) = fields.last_mut() {
            *weekday =
                weekday.split(',').map(|item| if item == "7L" { "0L" } else { item }).collect::<Vec<_>>().join(",");
        }
    }
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
    parser.parse(&fields.join(" "))
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Whether the letters of an item are valid in its field, as whole words. The parser accepts names as numbers at any
/// position.
fn is_plausible(item: &str, field: &str) -> bool {
    let item = if field == "day of week" { item.strip_prefix('+').unwrap_or(item) } else { item };
    if item.is_empty() {
        return false;
    }
    let words: Vec<&str> = item.split(|c: char| !c.is_alphanumeric()).collect();
    words.iter().all(|word| {
        let (number, letters) = word.split_at(word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len()));
        match field {
            _ if letters.is_empty() => true,
            "month" => number.is_empty() && MONTHS.contains(&letters),
            "day of month" => matches!((number, letters), ("", "L" | "LW") | (_, "W")) && *word != "W",
            "day of week" => {
                let day = letters.strip_suffix('L').unwrap_or(letters);
                let named = number.is_empty() && WEEKDAYS.contains(&day);
                // The last such day of the month, after the number of a weekday: `5L`, `5#L`.
                named || letters == "L" && (!number.is_empty() || item.contains('#'))
            }
            _ => false,
        }
    })
}

const FIELDS: [(&str, &str); 6] = [
    ("second", "0-59"),
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of month", "1-31, L, 15W"),
    ("month", "1-12 or JAN-DEC"),
    ("day of week", "0-7 or SUN-SAT, 5#3, 5L"),
];

/// Why an expression is invalid: the field, and a caret under the invalid part.
fn explain(text: &str, error: &CronError) -> Invalid {
    let parts = words(text);
    if text.starts_with('@') {
        let known = "@yearly, @monthly, @weekly, @daily, @midnight, @hourly, @every 90s";
        return Invalid::new("cron", format!("unknown expression `{text}`: expected {known}"));
    }
    if !(5..=6).contains(&parts.len()) {
        let problem = "needs five fields (minute hour day month weekday) or six (seconds first)";
        return Invalid::new("cron", format!("`{text}` {problem}, not {}", parts.len()));
    }
    let fields = FIELDS.iter().skip(FIELDS.len() - parts.len()).enumerate();
    for (index, (name, allowed)) in fields {
        let (start, field) = parts[index];
        // Parsed alone among valid fields, a part fails only if it is invalid itself.
        let alone = |part: &str| {
            let mut others = vec!["*"; parts.len()];
            others[index] = part;
            parse(&others.join(" "))
        };
        if alone(field).is_ok() {
            continue;
        }
        let mut offset = start;
        for item in field.split(',') {
            if alone(item).is_err() {
                let caret = format!("{}{}", " ".repeat(offset), "^".repeat(item.chars().count().max(1)));
                let problem = format!(
                    "{name} `{item}`: not allowed there; allowed are {allowed}, *, lists, ranges and steps\n  {text}\n  {caret}"
                );
                return Invalid::new("cron", problem);
            }
            offset += item.chars().count() + 1;
        }
    }
    Invalid::new("cron", format!("`{text}`: {error}"))
}

/// The words of a text, each with the number of characters before it.
fn words(text: &str) -> Vec<(usize, &str)> {
    let begin = |word: &str| text[..word.as_ptr() as usize - text.as_ptr() as usize].chars().count();
    text.split_whitespace().map(|word| (begin(word), word)).collect()
}

impl fmt::Display for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn next(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let (cadence, zone): (Cadence, _) = (cron.parse().unwrap(), TimeZone::get(zone).unwrap());
        let (mut from, mut found) = (at(after), Vec::new());
        for _ in 0..count {
            from = cadence.next(from, &zone, Timestamp::MIN).unwrap().unwrap();
            let instant = jiff::Timestamp::from_microsecond(from.as_micros()).unwrap();
            found.push(instant.to_zoned(zone.clone()).strftime("%F %T %z").to_string());
        }
        found
    }

    #[test]
    fn odd_expressions_run_when_they_should() {
        let cases: [(&str, &[&str]); 15] = [
            ("0 0 29 2 *", &["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
            ("0 12 L * *", &["2026-01-31 12:00:00", "2026-02-28 12:00:00", "2026-03-31 12:00:00"]),
            ("0 0 * * 5#3", &["2026-01-16 00:00:00", "2026-02-20 00:00:00", "2026-03-20 00:00:00"]),
            ("0 0 * * MON#1", &["2026-01-05 00:00:00", "2026-02-02 00:00:00"]),
            ("0 0 * * 5L", &["2026-01-30 00:00:00", "2026-02-27 00:00:00"]),
            ("0 0 * * 7L", &["2026-01-25 00:00:00", "2026-02-22 00:00:00"]),
            ("0 0 * * friL", &["2026-01-30 00:00:00", "2026-02-27 00:00:00"]),
            ("0 0 * jan-MAR MON#2,fri#4", &["2026-01-12 00:00:00", "2026-01-23 00:00:00"]),
            ("0 0 15W * *", &["2026-01-15 00:00:00", "2026-02-16 00:00:00", "2026-03-16 00:00:00"]),
            ("0 0 1 JAN,JUL *", &["2026-07-01 00:00:00", "2027-01-01 00:00:00"]),
            // When both days are given, either matches, as in other implementations of cron.
            ("0 0 13 * FRI", &["2026-01-02 00:00:00", "2026-01-09 00:00:00", "2026-01-13 00:00:00"]),
            ("0 0 13 * +FRI", &["2026-02-13 00:00:00", "2026-03-13 00:00:00", "2026-11-13 00:00:00"]),
            ("*/20 * * * * *", &["2026-01-01 00:00:20", "2026-01-01 00:00:40", "2026-01-01 00:01:00"]),
            ("5-15/5 8 * * *", &["2026-01-01 08:05:00", "2026-01-01 08:10:00", "2026-01-01 08:15:00"]),
            ("@weekly", &["2026-01-04 00:00:00", "2026-01-11 00:00:00"]),
        ];
        for (cron, expected) in cases {
            let expected: Vec<String> = expected.iter().map(|time| format!("{time} +0000")).collect();
            assert_eq!(next(cron, "UTC", "2026-01-01T00:00:00Z", expected.len()), expected, "{cron}");
        }
    }

    #[test]
    fn a_whole_year_of_last_days_and_third_fridays_is_right() {
        let days = |cron| {
            let days = next(cron, "UTC", "2027-12-31T12:00:00Z", 12).into_iter();
            days.map(|time| time[5..10].to_owned()).collect::<Vec<_>>()
        };
        let last_days = "01-31 02-29 03-31 04-30 05-31 06-30 07-31 08-31 09-30 10-31 11-30 12-31";
        assert_eq!(days("0 0 L * *").join(" "), last_days);
        let third_fridays = "01-21 02-18 03-17 04-21 05-19 06-16 07-21 08-18 09-15 10-20 11-17 12-15";
        assert_eq!(days("0 0 * * 5#3").join(" "), third_fridays);
    }

    #[test]
    fn a_time_that_does_not_exist_is_made_up_for_when_the_gap_ends() {
        // In Berlin, 2026-03-29 has no time from 02:00 to 03:00.
        let expected = ["2026-03-28 02:30:00 +0100", "2026-03-29 03:00:00 +0200", "2026-03-30 02:30:00 +0200"];
        assert_eq!(next("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3), expected);
        let expected = ["2026-03-28 14:00:00 +0100", "2026-03-29 03:00:00 +0200", "2026-03-29 14:00:00 +0200"];
        assert_eq!(next("0 2,14 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 3), expected);
        // An expression with a wildcard in its time has nothing to make up for.
        let expected = ["2026-03-29 01:30:00 +0100", "2026-03-29 03:00:00 +0200", "2026-03-29 03:30:00 +0200"];
        assert_eq!(next("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3), expected);
    }

    #[test]
    fn a_time_that_exists_twice_runs_once_unless_it_runs_all_the_time() {
        // In Berlin, 2026-10-25 has the time from 02:00 to 03:00 twice.
        let expected = ["2026-10-25 02:30:00 +0200", "2026-10-26 02:30:00 +0100"];
        assert_eq!(next("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2), expected);
        let expected = ["2026-10-25 02:00:00 +0200", "2026-10-25 14:00:00 +0100"];
        assert_eq!(next("0 2,14 * * *", "Europe/Berlin", "2026-10-24T12:30:00Z", 2), expected);
        let expected = [
            "2026-10-25 02:00:00 +0200",
            "2026-10-25 02:30:00 +0200",
            "2026-10-25 02:00:00 +0100",
            "2026-10-25 02:30:00 +0100",
            "2026-10-25 03:00:00 +0100",
        ];
        assert_eq!(next("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:59:00Z", 5), expected);
    }

    #[test]
    fn a_day_that_does_not_exist_is_made_up_for_too() {
        // Samoa had no 2011-12-30.
        let expected = ["2011-12-29 09:00:00 -1000", "2011-12-31 00:00:00 +1400", "2011-12-31 09:00:00 +1400"];
        assert_eq!(next("0 9 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", 3), expected);
    }

    #[test]
    fn a_period_is_counted_from_its_anchor() {
        let (cadence, zone): (Cadence, _) = ("@every 90s".parse().unwrap(), TimeZone::UTC);
        let anchor = at("2026-01-01T00:00:10Z");
        let next = |after| cadence.next(at(after), &zone, anchor).unwrap().unwrap();
        assert_eq!(next("2025-01-01T00:00:00Z"), anchor);
        assert_eq!(next("2026-01-01T00:00:10Z"), at("2026-01-01T00:01:40Z"));
        assert_eq!(next("2026-01-01T00:01:39.999999Z"), at("2026-01-01T00:01:40Z"));
        let last = |before| cadence.last(at(before), &zone, anchor).unwrap();
        assert_eq!(last("2026-01-01T00:01:40Z"), Some(at("2026-01-01T00:01:40Z")));
        assert_eq!(last("2026-01-01T00:01:39Z"), Some(anchor));
        assert_eq!(last("2026-01-01T00:00:09Z"), None);
    }

    #[test]
    fn a_bad_expression_is_refused_with_the_field_and_a_caret() {
        let cases = [
            ("0 25 * * *", "hour `25`", "  0 25 * * *\n    ^^"),
            ("0 0 0 * * 1,MOO,3", "day of week `MOO`", "  0 0 0 * * 1,MOO,3\n              ^^^"),
            ("61 * * * *", "minute `61`", "  61 * * * *\n  ^^"),
            ("*  *  32 * *", "day of month `32`", "  *  *  32 * *\n        ^^"),
            ("0 0 1 13 *", "month `13`", "  0 0 1 13 *\n        ^^"),
            ("5-1 * * * *", "minute `5-1`", "  5-1 * * * *\n  ^^^"),
            ("*/0 * * * *", "minute `*/0`", "  */0 * * * *\n  ^^^"),
            ("é * * * *", "minute `é`", "  é * * * *\n  ^"),
            ("0 0 MON * *", "day of month `MON`", "  0 0 MON * *\n      ^^^"),
            ("0 FEB * * *", "hour `FEB`", "  0 FEB * * *\n    ^^^"),
            ("0 0 1JAN * *", "day of month `1JAN`", "  0 0 1JAN * *\n      ^^^^"),
            ("0 0 * 1JAN *", "month `1JAN`", "  0 0 * 1JAN *\n        ^^^^"),
            ("0 0 * MON *", "month `MON`", "  0 0 * MON *\n        ^^^"),
            ("0 0 * * L", "day of week `L`", "  0 0 * * L\n          ^"),
            ("0 0 * * +", "day of week `+`", "  0 0 * * +\n          ^"),
            ("0 0 W * *", "day of month `W`", "  0 0 W * *\n      ^"),
            ("0,,5 * * * *", "minute ``", "  0,,5 * * * *\n    ^"),
            (", * * * *", "minute ``", "  , * * * *\n  ^"),
        ];
        for (cron, field, caret) in cases {
            let refused = cron.parse::<Cadence>().expect_err(cron).to_string();
            assert!(refused.starts_with(&format!("cron: {field}: ")) && refused.ends_with(caret), "{refused}");
        }
        for (cron, problem) in [
            ("", "cron: `` needs five fields"),
            ("* * * *", "cron: `* * * *` needs five fields"),
            (
                "* * * * * * *",
                "cron: `* * * * * * *` needs five fields (minute hour day month weekday) or six (seconds first), not 7",
            ),
            ("@fortnightly", "cron: unknown expression `@fortnightly`"),
            ("@every", "every: invalid duration ``"),
            ("@every -5s", "every: "),
            ("@every 10ms", "every: must be between 1s and"),
        ] {
            let refused = cron.parse::<Cadence>().expect_err(cron).to_string();
            assert!(refused.starts_with(problem), "{refused}");
        }
        assert!("* ".repeat(200).parse::<Cadence>().is_err());
    }

    #[test]
    fn every_expression_has_a_description() {
        for cron in ["* * * * *", "0 2 * * MON-FRI", "@daily", "0 0 L * *"] {
            assert!(!cron.parse::<Cadence>().unwrap().describe().is_empty(), "{cron}");
        }
        assert_eq!("@every 1h30m".parse::<Cadence>().unwrap().describe(), "Every 1h30m.");
    }
}
