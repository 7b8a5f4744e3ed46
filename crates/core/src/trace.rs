//! Trace context, in the format of W3C Trace Context.

use std::{fmt, str::FromStr};

use crate::{Invalid, JobOptions, limits};

/// A span of a trace, and vendor-specific data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The parent span of new spans.
    pub parent: TraceParent,
    /// Vendor-specific data, passed on unchanged: `tracestate`.
    pub state: Option<String>,
}

/// A span of a trace: `traceparent`.
///
/// ```
/// use punctual_core::trace::TraceParent;
/// let parent: TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse()?;
/// assert_eq!((parent.span_id, parent.flags), (0xb7ad_6b71_6920_3331, 1));
/// # Ok::<(), punctual_core::Invalid>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The id of the trace; not 0.
    pub trace_id: u128,
    /// The id of the span; not 0.
    pub span_id: u64,
    /// The flags, one byte: whether the trace is sampled, and others.
    pub flags: u8,
}

impl Trace {
    /// Parses the headers of another system. As the standard requires, an invalid `traceparent` is ignored, and a
    /// `tracestate` that is too long is dropped.
    pub fn read(parent: &str, state: Option<&str>) -> Option<Self> {
        let fits = |state: &&str| !state.is_empty() && state.len() <= limits::TRACE_MAX_CHARS && is_visible(state);
        Some(Self { parent: parent.parse().ok()?, state: state.map(str::trim).filter(fits).map(str::to_owned) })
    }

    /// The trace of a job.
    pub fn of(options: &JobOptions) -> Option<Self> {
        Self::read(options.trace.as_deref()?, options.trace_state.as_deref())
    }

    /// Sets the trace of a job.
    pub fn write(&self, options: &mut JobOptions) {
        options.trace = Some(self.parent.to_string());
        options.trace_state.clone_from(&self.state);
    }
}

fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

impl FromStr for TraceParent {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = || Invalid::new("trace", "invalid traceparent; expected 00-32 digits-16 digits-01");
        let mut parts = text.trim().split('-');
        let mut part = |digits: usize| -> Result<u128, Invalid> {
            let part = parts.next().filter(|part| part.len() == digits).ok_or_else(wrong)?;
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            let digits = Some(part).filter(|part| part.bytes().all(is_digit)).ok_or_else(wrong)?;
            u128::from_str_radix(digits, 16).map_err(|_| wrong())
        };
        let (version, trace_id, span_id, flags) = (part(2)?, part(32)?, part(16)? as u64, part(2)? as u8);
        // A later version may add fields after those that this one knows.
        let is_known = version < 0xff && (version > 0 || parts.next().is_none());
        if !is_known || trace_id == 0 || span_id == 0 {
            return Err(wrong());
        }
        Ok(Self { trace_id, span_id, flags })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parsed_trace_is_written_unchanged() {
        let trace = Trace::read(PARENT, Some("vendor=1,other=x")).unwrap();
        let mut options = JobOptions::default();
        trace.write(&mut options);
        assert_eq!(options.trace.as_deref(), Some(PARENT));
        assert_eq!(Trace::of(&options), Some(trace));
        let later = "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more";
        assert_eq!(later.parse::<TraceParent>().unwrap().to_string(), PARENT, "a later version may have more fields");
    }

    #[test]
    fn invalid_headers_are_ignored() {
        for wrong in [
            "",
            "00",
            "00-1-2-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(Trace::read(wrong, None), None, "{wrong}");
        }
        let long = "x".repeat(limits::TRACE_MAX_CHARS + 1);
        for state in ["", "a\nb", long.as_str()] {
            assert_eq!(Trace::read(PARENT, Some(state)).unwrap().state, None, "{state}");
        }
    }
}
