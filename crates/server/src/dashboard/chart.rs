//! Charts as SVG. The y axis begins at zero, missing values are gaps, and a script displays values under the pointer.

use std::{fmt::Write as _, time::Duration};

use maud::{Markup, PreEscaped, html};
use punctual_core::{Timestamp, time::in_words};
use serde_json::json;

use super::components;

/// Dimensions of a chart in SVG units.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 168.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 22.0;
/// Number of grid lines above zero.
const LINES: usize = 3;
/// Maximum number of steps between ticks of the time axis.
const TIME_STEPS_MAX: f64 = 4.0;
/// Steps between ticks that show times, in seconds.
const TIME_STEPS: [f64; 21] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 10_800.0, 21_600.0,
    43_200.0, 86_400.0, 172_800.0, 432_000.0, 864_000.0,
];

/// The unit of the values.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Unit {
    PerSecond,
    Seconds,
    Jobs,
}

impl Unit {
    fn write(self, value: f64) -> String {
        match self {
            Self::Seconds => in_words(Duration::from_secs_f64(value.max(0.0))),
            Self::PerSecond => format!("{}/s", short(value)),
            Self::Jobs => short(value),
        }
    }

    /// The label of a grid line.
    fn tick(self, value: f64, step: f64) -> String {
        match self {
            _ if value == 0.0 => "0".to_owned(),
            Self::Seconds => time_tick(value, step),
            Self::PerSecond | Self::Jobs => self.write(value),
        }
    }

    const fn suffix(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::PerSecond => "/s",
            Self::Jobs => "",
        }
    }
}

fn short(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        _ if value >= 1e4 => format!("{}k", trimmed(value / 1e3)),
        _ if value >= 100.0 => components::number(value.round() as u64),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The smallest step that is at least this long: 1, 2, 2.5 or 5 times a power of ten.
fn decimal_step(at_least: f64) -> f64 {
    let power = 10f64.powi(at_least.log10().floor() as i32);
    power * [1.0, 2.0, 2.5, 5.0].into_iter().find(|round| round * power >= at_least * 0.999).unwrap_or(10.0)
}

/// The smallest step for ticks that show times which is at least this many seconds.
fn time_step(at_least: f64) -> f64 {
    if at_least < 1.0 {
        return decimal_step(at_least);
    }
    let days = || (at_least / 86_400.0).ceil() * 86_400.0;
    TIME_STEPS.into_iter().find(|step| *step >= at_least * 0.999).unwrap_or_else(days)
}

/// A time in the unit that suits the step between ticks, so that all ticks of an axis have the same unit.
fn time_tick(seconds: f64, step: f64) -> String {
    let (unit, name) = match step {
        _ if step < 1.0 => (0.001, "ms"),
        _ if step < 60.0 => (1.0, "s"),
        _ if step < 3_600.0 => (60.0, "min"),
        _ if step < 86_400.0 => (3_600.0, "h"),
        _ => (86_400.0, "d"),
    };
    format!("{} {name}", trimmed(seconds / unit))
}

/// One line or layer of a chart.
pub(super) struct Series {
    pub(super) name: &'static str,
    /// CSS class: `s-…` for the colour of a status.
    pub(super) class: &'static str,
    /// One value per time; `None` where no data exists.
    pub(super) values: Vec<Option<f64>>,
}

/// A chart.
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) unit: Unit,
    /// Whether the series are stacked layers; otherwise they are lines.
    pub(super) stacked: bool,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    pub(super) times: Vec<Timestamp>,
    pub(super) series: Vec<Series>,
}

impl Chart {
    pub(super) fn draw(&self) -> Markup {
        let step = self.step();
        let known = self.series.iter().any(|series| series.values.iter().any(Option::is_some));
        html! {
            figure.chart {
                figcaption {
                    span { (self.title) }
                    span.legend { @for series in &self.series { span class=(series.class) { i {} (series.name) } } }
                }
                @if known {
                    (PreEscaped(self.svg(step)))
                } @else {
                    p.muted.nothing { "No data yet." }
                }
            }
        }
    }

    /// The step between grid lines, a round number; the highest value is not above the last line.
    fn step(&self) -> f64 {
        let sum = |index: usize| -> f64 {
            let values = self.series.iter().filter_map(|series| series.values.get(index).copied().flatten());
            if self.stacked { values.sum() } else { values.fold(0.0, f64::max) }
        };
        let least = (0..self.times.len()).map(sum).fold(0.0, f64::max) / LINES as f64;
        match self.unit {
            Unit::Seconds => time_step(least.max(0.001)),
            Unit::PerSecond => decimal_step(least.max(0.001)),
            Unit::Jobs => match decimal_step(least.max(1.0)) {
                step if step < 10.0 => step.ceil(),
                step => step,
            },
        }
    }

    fn x(&self, at: Timestamp) -> f64 {
        let (span, elapsed) = (self.until.since(self.from).as_secs_f64(), at.since(self.from).as_secs_f64());
        LEFT + (WIDTH - LEFT - RIGHT) * (elapsed / span.max(1e-9)).clamp(0.0, 1.0)
    }

    fn y(value: f64, top: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / top).clamp(0.0, 1.0)
    }

    fn svg(&self, step: f64) -> String {
        let top = step * LINES as f64;
        let mut out = format!(
            r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}" data-chart='{}'>"#,
            self.summary(),
            self.data()
        );
        for line in 0..=LINES {
            let value = step * line as f64;
            let y = Self::y(value, top);
            let _ = write!(
                out,
                r#"<path class="grid" d="M{LEFT} {y:.1}H{:.1}"/><text class="tick" x="{:.1}" y="{:.1}">{}</text>"#,
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                self.unit.tick(value, step)
            );
        }
        self.time_ticks(&mut out);
        if self.stacked {
            self.layers(&mut out, top)
        } else {
            self.lines(&mut out, top)
        }
        out.push_str("</svg>");
        out
    }

    /// The labels of the time axis, at round distances from its end.
    fn time_ticks(&self, out: &mut String) {
        let span = self.until.since(self.from).as_secs_f64().max(1.0);
        let step = time_step(span / TIME_STEPS_MAX);
        for number in 0..=(span / step + 0.001) as u32 {
            let ago = step * f64::from(number);
            let x = WIDTH - RIGHT - (WIDTH - LEFT - RIGHT) * ago / span;
            let (class, text) = match number {
                0 => ("last", "now".to_owned()),
                // A label in the middle of the first tick would extend beyond the chart.
                _ if x < LEFT + 1.0 => ("first", format!("−{}", time_tick(ago, step))),
                _ => ("middle", format!("−{}", time_tick(ago, step))),
            };
            let _ = write!(out, r#"<text class="time {class}" x="{x:.1}" y="{:.1}">{text}</text>"#, HEIGHT - 6.0);
        }
    }

    /// Runs of consecutive indexes that have values.
    fn segments(&self, values: &[Option<f64>]) -> Vec<Vec<usize>> {
        let mut segments: Vec<Vec<usize>> = vec![Vec::new()];
        for (index, value) in values.iter().enumerate() {
            match (value, segments.last_mut()) {
                (Some(_), Some(last)) => last.push(index),
                _ => segments.push(Vec::new()),
            }
        }
        segments.retain(|segment| !segment.is_empty());
        segments
    }

    fn lines(&self, out: &mut String, top: f64) {
        for series in &self.series {
            for segment in self.segments(&series.values) {
                let points: Vec<(f64, f64)> = segment
                    .into_iter()
                    .map(|index| (self.x(self.times[index]), Self::y(series.values[index].unwrap_or(0.0), top)))
                    .collect();
                let path =
                    if let [(x, y)] = points.as_slice() { format!("M{:.1} {y:.1}h3", x - 1.5) } else { path(&points) };
                let _ = write!(out, r#"<path class="line {}" d="{path}"/>"#, series.class);
            }
        }
    }

    fn layers(&self, out: &mut String, top: f64) {
        let mut floor = vec![0.0; self.times.len()];
        for series in &self.series {
            let mut roof = floor.clone();
            for (index, value) in series.values.iter().enumerate() {
                roof[index] += value.unwrap_or(0.0);
            }
            for segment in self.segments(&series.values) {
                let at = |index: &usize, heights: &[f64]| (self.x(self.times[*index]), Self::y(heights[*index], top));
                let mut points: Vec<(f64, f64)> = segment.iter().map(|index| at(index, &roof)).collect();
                if let [(x, _)] = points.as_slice() {
                    // A single value is drawn as a thin bar.
                    let (x, base) = (*x, Self::y(floor[segment[0]], top));
                    points = vec![(x - 1.5, points[0].1), (x + 1.5, points[0].1), (x + 1.5, base), (x - 1.5, base)];
                } else {
                    points.extend(segment.iter().rev().map(|index| at(index, &floor)));
                }
                let _ = write!(out, r#"<path class="layer {}" d="{}Z"/>"#, series.class, path(&points));
            }
            floor = roof;
        }
    }

    /// The latest values as text, for screen readers.
    fn summary(&self) -> String {
        let last = |series: &Series| {
            let value = series.values.iter().rev().find_map(|value| *value)?;
            Some(format!("{} {}", series.name, self.unit.write(value)))
        };
        let values: Vec<String> = self.series.iter().filter_map(last).collect();
        format!("{}: {}", self.title, values.join(", "))
    }

    /// The data for the script. Names are constants of the program, so that nothing in it can end the attribute.
    fn data(&self) -> String {
        let round = |value: &Option<f64>| value.map(|value| (value * 1e6).round() / 1e6);
        let series = self.series.iter().map(|series| {
            json!({"name": series.name, "class": series.class, "values": series.values.iter().map(round).collect::<Vec<_>>()})
        });
        let times: Vec<i64> = self.times.iter().map(|at| at.as_micros() / 1_000).collect();
        let x: Vec<f64> = self.times.iter().map(|at| (self.x(*at) * 10.0).round() / 10.0).collect();
        json!({"unit": self.unit.suffix(), "times": times, "x": x, "series": series.collect::<Vec<_>>()}).to_string()
    }
}

fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: Vec<Option<f64>>) -> Chart {
        let at = |minute: u64| Timestamp::MIN.after(Duration::from_secs(60 * minute));
        let times: Vec<Timestamp> = (0..values.len() as u64).map(at).collect();
        let series = vec![Series { name: "succeeded", class: "s-succeeded", values }];
        Chart { title: "Jobs", unit: Unit::Jobs, stacked: false, from: at(0), until: at(10), times, series }
    }

    #[test]
    fn missing_values_interrupt_the_line() {
        let drawn = chart(vec![Some(1.0), Some(2.0), None, Some(3.0), Some(3.0)]).draw().into_string();
        assert_eq!(drawn.matches("class=\"line").count(), 2, "{drawn}");
    }

    #[test]
    fn the_grid_has_round_numbers_from_zero_on() {
        assert_eq!(chart(vec![Some(7.0)]).step(), 3.0);
        assert_eq!(chart(vec![Some(100.0)]).step(), 50.0);
        assert_eq!(chart(vec![Some(0.0)]).step(), 1.0);
        assert!(chart(vec![Some(7.0)]).draw().into_string().contains(">0</text>"));
    }

    fn ticks(drawn: &str, class: &str) -> Vec<String> {
        let mark = format!("<text class=\"{class}");
        let texts = drawn.split(mark.as_str()).skip(1);
        texts.filter_map(|text| Some(text.split_once('>')?.1.split_once('<')?.0.to_owned())).collect()
    }

    #[test]
    fn times_have_round_steps_in_one_unit() {
        for (highest, expected) in [
            (0.004, ["0", "2 ms", "4 ms", "6 ms"]),
            (0.9, ["0", "500 ms", "1000 ms", "1500 ms"]),
            (8.0, ["0", "5 s", "10 s", "15 s"]),
            (31.0, ["0", "15 s", "30 s", "45 s"]),
            (170.0, ["0", "1 min", "2 min", "3 min"]),
            (300.0, ["0", "2 min", "4 min", "6 min"]),
            (20_000.0, ["0", "2 h", "4 h", "6 h"]),
            (400_000.0, ["0", "2 d", "4 d", "6 d"]),
            (9_000_000.0, ["0", "35 d", "70 d", "105 d"]),
        ] {
            let drawn = Chart { unit: Unit::Seconds, ..chart(vec![Some(highest)]) }.draw().into_string();
            assert_eq!(ticks(&drawn, "tick"), expected, "{highest}");
        }
    }

    #[test]
    fn the_time_axis_has_round_steps_from_its_end() {
        let cases: [(u64, &[&str]); 6] = [
            (60, &["now", "−15 s", "−30 s", "−45 s", "−60 s"]),
            (185, &["now", "−1 min", "−2 min", "−3 min"]),
            (900, &["now", "−5 min", "−10 min", "−15 min"]),
            (3_600, &["now", "−15 min", "−30 min", "−45 min", "−60 min"]),
            (86_400, &["now", "−6 h", "−12 h", "−18 h", "−24 h"]),
            (7 * 86_400, &["now", "−2 d", "−4 d", "−6 d"]),
        ];
        for (seconds, expected) in cases {
            let until = Timestamp::MIN.after(Duration::from_secs(seconds));
            let drawn = Chart { until, ..chart(vec![Some(1.0)]) }.draw().into_string();
            assert_eq!(ticks(&drawn, "time"), expected, "{seconds}");
        }
    }

    #[test]
    fn a_chart_without_values_is_not_drawn() {
        let drawn = chart(vec![None, None]).draw().into_string();
        assert!(drawn.contains("No data yet") && !drawn.contains("<svg"), "{drawn}");
    }
}
