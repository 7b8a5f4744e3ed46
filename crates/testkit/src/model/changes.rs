//! The events since an earlier read.

use punctual_core::{Changes, JobEvent, StoreResult, Timestamp, changes::CountCursor};

use super::state::State;

impl State {
    pub(super) fn changes(&self, now: Timestamp, since: Option<&str>, limit: usize) -> StoreResult<Changes> {
        let cursor = CountCursor { last: self.events, at: now, gaps: Vec::new() }.to_string();
        let Some(since) = since.map(CountCursor::parse).transpose()? else { return Ok(Changes::none(cursor, false)) };
        if since.is_too_old(now) || since.last > self.events {
            return Ok(Changes::none(cursor, true));
        }
        let actual = |record: &super::state::Record| {
            let new = record.events.iter().filter(|event| event.id.number() > since.last);
            new.map(|event| JobEvent::of(record.job.id, &record.job.spec, event.clone())).collect::<Vec<_>>()
        };
        let mut events: Vec<JobEvent> = self.jobs.iter().flat_map(actual).collect();
        events.sort_by_key(|event| event.event.id.number());
        let missed = events.len() > limit;
        events.truncate(limit);
        Ok(Changes { events, cursor, missed })
    }
}
