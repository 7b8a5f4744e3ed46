//! The log of the program, on standard error.

use std::{env, io::IsTerminal};

use tracing_subscriber::{
    EnvFilter, Layer, Registry, filter::LevelFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt,
};

use crate::{args::Command, format, traces::Traces};

/// Variable with the levels of the log.
const LEVELS: &str = "PUNCTUAL_LOG";
/// Variable with the format of the log.
const FORMAT: &str = "PUNCTUAL_LOG_FORMAT";

/// Log lines go to standard error; `PUNCTUAL_LOG=debug` shows more of them, `PUNCTUAL_LOG_FORMAT=json` formats them for
/// programs. Traces are exported as the environment specifies.
pub(crate) fn start(command: &Command) -> Traces {
    let warn = |problem: String| {
        // A supervisor has printed the warning.
        if !command.is_supervised() {
            eprintln!("warning: {problem}");
        }
    };
    let default = if matches!(command, Command::Serve(_)) || command.is_supervised() { "warn" } else { "error" };
    let levels = variable(LEVELS).and_then(|levels| checked_levels(&levels).map_err(warn).ok());
    // The messages of the SQL Server driver are part of errors already.
    let filter = levels.unwrap_or_else(|| EnvFilter::new(format!("{default},tiberius=off")));
    let is_json = variable(FORMAT).is_some_and(|format| checked_format(&format).map_err(warn).unwrap_or_default());
    let log = fmt::layer().with_writer(format::LogWriter::new);
    let log: Box<dyn Layer<Registry> + Send + Sync> = if is_json {
        log.json().flatten_event(true).boxed()
    } else if std::io::stderr().is_terminal() {
        log.with_target(false).with_timer(format::TimeOfDay).boxed()
    } else {
        log.with_ansi(false).boxed()
    };
    let (log, traces) = (tracing_subscriber::registry().with(log.with_filter(filter)), Traces::start(command));
    match traces.layer() {
        Some(layer) => log.with(layer).init(),
        None => log.init(),
    }
    traces
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether the format is that for programs.
fn checked_format(format: &str) -> Result<bool, String> {
    match format {
        "json" => Ok(true),
        "text" => Ok(false),
        other => Err(format!("{FORMAT}: unknown format `{other}`: expected text or json; text is used")),
    }
}

/// The filter of the levels; an error names the invalid one. A single word is a level here: a module without a level
/// would be accepted silently, and then hide everything else.
fn checked_levels(levels: &str) -> Result<EnvFilter, String> {
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let is_valid = |part: &&str| {
        let part = part.trim();
        let is_word = part.chars().all(|c| c.is_alphanumeric() || "_-:".contains(c));
        part.is_empty() || if is_word { is_level(part) } else { EnvFilter::try_new(part).is_ok() }
    };
    let invalid = |part: &str| {
        format!(
            "{LEVELS}: invalid level `{part}`: expected error, warn, info, debug, trace, off, or a level per module such \
             as info,punctual_redis=debug; the default is used"
        )
    };
    match levels.split(',').find(|part| !is_valid(part)) {
        Some(part) => Err(invalid(part)),
        None => EnvFilter::try_new(levels).map_err(|_| invalid(levels)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_level_is_named() {
        for levels in ["debug", "INFO", "info,punctual_redis=debug", "off", "warn,[claim]=debug"] {
            assert!(checked_levels(levels).is_ok(), "{levels}");
        }
        for (levels, part) in
            [("nonsense", "`nonsense`"), ("info,punctual=loud", "`punctual=loud`"), ("infos", "`infos`")]
        {
            let problem = checked_levels(levels).map(drop).unwrap_err();
            assert!(problem.starts_with("PUNCTUAL_LOG: ") && problem.contains(part), "{levels}: {problem}");
        }
    }

    #[test]
    fn an_invalid_format_is_named() {
        assert_eq!((checked_format("json"), checked_format("text")), (Ok(true), Ok(false)));
        assert!(checked_format("xml").is_err_and(|problem| problem.contains("`xml`")));
    }
}
