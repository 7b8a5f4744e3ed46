//! The state of the screen, and how keys and snapshots change it. This module accesses neither the store nor the
//! terminal.

use std::time::Duration;

use punctual::{JobId, Timestamp, admin::JobView};

use super::{
    rates::Rates,
    snapshot::{QueueRow, Snapshot},
};
use crate::text::Line;

/// Time after which a read of the store is reported as slow.
const SLOW: Duration = Duration::from_secs(3);

/// One of the three tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Panel {
    Queues,
    Running,
    Dead,
}

impl Panel {
    pub(crate) const ALL: [Self; 3] = [Self::Queues, Self::Running, Self::Dead];

    /// The panel `by` steps after this one, cyclically.
    pub(crate) fn step(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }
}

/// An item that can be selected and opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    Job(JobId),
    Queue(String),
}

/// The details of a job or queue, as lines.
#[derive(Debug, Clone)]
pub(crate) struct Details {
    pub(crate) lines: Vec<Line>,
    /// Whether the details are final, because the job has finished.
    pub(crate) over: bool,
}

/// An action on the store that the operator has requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Pause(String),
    Resume(String),
    Retry(JobId),
    Cancel(JobId),
}

/// The effect of a key outside the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    Do(Action),
    Read(Subject),
    Snapshot,
    Leave,
}

/// The message in the last line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StatusLine {
    Done(String),
    Refused(String),
}

/// The store does not answer.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub(crate) since: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) why: String,
}

/// The selection of a table. It follows the selected item, so that it does not change when other rows appear or vanish.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cursor {
    subject: Option<Subject>,
    /// The index of the row, used when the item vanishes.
    index: usize,
    /// The first visible row.
    top: usize,
}

impl Cursor {
    fn settle(&mut self, subjects: &[Subject]) {
        let found = self.subject.as_ref().and_then(|own| subjects.iter().position(|subject| subject == own));
        self.index = found.unwrap_or(self.index.min(subjects.len().saturating_sub(1)));
        self.subject = subjects.get(self.index).cloned();
    }

    fn move_to(&mut self, index: usize, subjects: &[Subject]) {
        self.index = index.min(subjects.len().saturating_sub(1));
        self.subject = subjects.get(self.index).cloned();
    }
}

/// Details that are open on the screen.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) subject: Subject,
    pub(crate) history: Option<Details>,
    pub(crate) top: usize,
}

/// Everything that the screen shows.
#[derive(Debug)]
pub(crate) struct State {
    /// Location of the store.
    pub(crate) store: String,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) rates: Rates,
    pub(crate) panel: Panel,
    cursors: [Cursor; 3],
    pub(crate) opened: Option<Opened>,
    /// The job that a `y` will cancel.
    pub(crate) confirming: Option<JobId>,
    pub(crate) message: Option<StatusLine>,
    pub(crate) trouble: Option<Trouble>,
    pub(crate) frozen: bool,
    pub(crate) help: bool,
    /// Number of rows per page when the screen was last drawn.
    pub(crate) page: usize,
}

impl State {
    pub(crate) fn new(store: String) -> Self {
        Self {
            store,
            snapshot: None,
            rates: Rates::default(),
            panel: Panel::Queues,
            cursors: Default::default(),
            opened: None,
            confirming: None,
            message: None,
            trouble: None,
            frozen: false,
            help: false,
            page: 1,
        }
    }

    /// Applies a new snapshot.
    pub(crate) fn set_snapshot(&mut self, snapshot: Snapshot) {
        // It was requested before the screen was frozen.
        if self.frozen && self.snapshot.is_some() {
            return;
        }
        self.rates.add(snapshot.at, snapshot.totals);
        self.trouble = None;
        self.snapshot = Some(snapshot);
        for panel in Panel::ALL {
            let subjects = self.subjects(panel);
            self.cursors[panel as usize].settle(&subjects);
        }
    }

    /// Records a failed read; the screen keeps the previous snapshot.
    pub(crate) fn failed(&mut self, at: Timestamp, why: String) {
        self.rates.gap();
        let since = self.trouble.as_ref().map_or(at, |trouble| trouble.since);
        // The head line shows the store already; the line has to fit the error.
        let why = why.replace(&format!(" {}", self.store), "");
        self.trouble = Some(Trouble { since, until: at, why });
    }

    /// Updates the clock while a read has been under way for `reading_for`.
    pub(crate) fn waits(&mut self, now: Timestamp, reading_for: Duration) {
        match &mut self.trouble {
            Some(trouble) => trouble.until = now,
            None if reading_for >= SLOW => {
                let why = "the store answers slowly".to_owned();
                self.trouble = Some(Trouble { since: now.before(reading_for), until: now, why });
            }
            None => {}
        }
    }

    /// Applies details that were read, or the error. Details that were closed meanwhile are ignored.
    pub(crate) fn received(&mut self, subject: &Subject, history: Result<Details, String>) {
        let Some(opened) = self.opened.as_mut().filter(|opened| opened.subject == *subject) else { return };
        match history {
            Ok(history) => opened.history = Some(history),
            // The previous details stay visible.
            Err(why) if opened.history.is_some() => self.message = Some(StatusLine::Refused(why)),
            Err(why) => {
                self.opened = None;
                self.message = Some(StatusLine::Refused(why));
            }
        }
    }

    /// The open details that must be read again because they are not final.
    pub(crate) fn unfinished_history(&self) -> Option<Subject> {
        let opened = self.opened.as_ref()?;
        let over = opened.history.as_ref().is_some_and(|history| history.over);
        (!over).then(|| opened.subject.clone())
    }

    pub(crate) fn queues(&self) -> &[QueueRow] {
        self.snapshot.as_ref().map_or(&[], |snapshot| &snapshot.queues)
    }

    /// The jobs of a table; empty for the table of queues.
    pub(crate) fn jobs(&self, panel: Panel) -> &[JobView] {
        match (&self.snapshot, panel) {
            (Some(snapshot), Panel::Running) => &snapshot.running.jobs,
            (Some(snapshot), Panel::Dead) => &snapshot.dead.jobs,
            _ => &[],
        }
    }

    fn subjects(&self, panel: Panel) -> Vec<Subject> {
        match panel {
            Panel::Queues => self.queues().iter().map(|row| Subject::Queue(row.queue.name.clone())).collect(),
            _ => self.jobs(panel).iter().map(|job| Subject::Job(job.id)).collect(),
        }
    }

    /// The item that a key applies to: the open one, or else the selected one.
    pub(crate) fn subject(&self) -> Option<Subject> {
        match &self.opened {
            Some(opened) => Some(opened.subject.clone()),
            None => self.cursors[self.panel as usize].subject.clone(),
        }
    }

    /// The index of a table's selected row.
    pub(crate) fn selected(&self, panel: Panel) -> usize {
        self.cursors[panel as usize].index
    }

    /// The first visible row of a table with `room` visible rows: the selected row stays visible, and the table scrolls
    /// no more than necessary.
    pub(crate) fn first_row(&mut self, panel: Panel, rows: usize, room: usize) -> usize {
        let cursor = &mut self.cursors[panel as usize];
        let lowest = (cursor.index + 1).saturating_sub(room);
        cursor.top = cursor.top.clamp(lowest, cursor.index.max(lowest)).min(rows.saturating_sub(room));
        cursor.top
    }

    /// Moves the selection, or scrolls the open details.
    pub(crate) fn go(&mut self, to: impl Fn(usize) -> usize) {
        if let Some(opened) = &mut self.opened {
            opened.top = to(opened.top);
            return;
        }
        let subjects = self.subjects(self.panel);
        let cursor = &mut self.cursors[self.panel as usize];
        cursor.move_to(to(cursor.index), &subjects);
    }
}
