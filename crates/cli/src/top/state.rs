//! What is on the screen, and what keys and looks change of it. Nothing here touches the store or the terminal.

use std::time::Duration;

use punctual::{JobId, Timestamp, admin::JobView};

use super::{
    look::{Look, QueueRow},
    rates::Rates,
};
use crate::text::Line;

/// A look that takes longer than this is worth a word.
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

    /// The one that many further on, round and round.
    pub(crate) fn step(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }
}

/// What can be selected and opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    Job(JobId),
    Queue(String),
}

/// All that there is to say of a subject.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) lines: Vec<Line>,
    /// Whether nothing will be added to it by itself.
    pub(crate) over: bool,
}

/// What the operator wants done to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Pause(String),
    Resume(String),
    Retry(JobId),
    Cancel(JobId),
}

/// What a key asks of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    Do(Action),
    Read(Subject),
    Look,
    Leave,
}

/// What is said in the last line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
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

/// What is selected in a table. It is held by what it is, so that rows which come and go do not move it to another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cursor {
    subject: Option<Subject>,
    /// Where it was last, for when it goes.
    place: usize,
    /// The first row on the screen.
    top: usize,
}

impl Cursor {
    fn settle(&mut self, subjects: &[Subject]) {
        let found = self.subject.as_ref().and_then(|own| subjects.iter().position(|subject| subject == own));
        self.place = found.unwrap_or(self.place.min(subjects.len().saturating_sub(1)));
        self.subject = subjects.get(self.place).cloned();
    }

    fn move_to(&mut self, place: usize, subjects: &[Subject]) {
        self.place = place.min(subjects.len().saturating_sub(1));
        self.subject = subjects.get(self.place).cloned();
    }
}

/// A story on the screen.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) subject: Subject,
    pub(crate) story: Option<Story>,
    pub(crate) top: usize,
}

/// All that the picture shows.
#[derive(Debug)]
pub(crate) struct State {
    /// Where the jobs are.
    pub(crate) store: String,
    pub(crate) look: Option<Look>,
    pub(crate) rates: Rates,
    pub(crate) panel: Panel,
    cursors: [Cursor; 3],
    pub(crate) opened: Option<Opened>,
    /// The job that is to be cancelled, once a yes was said.
    pub(crate) asked: Option<JobId>,
    pub(crate) said: Option<Said>,
    pub(crate) trouble: Option<Trouble>,
    pub(crate) frozen: bool,
    pub(crate) help: bool,
    /// Rows that a page had when it was drawn last.
    pub(crate) page: usize,
}

impl State {
    pub(crate) fn new(store: String) -> Self {
        Self {
            store,
            look: None,
            rates: Rates::default(),
            panel: Panel::Queues,
            cursors: Default::default(),
            opened: None,
            asked: None,
            said: None,
            trouble: None,
            frozen: false,
            help: false,
            page: 1,
        }
    }

    /// A look has come.
    pub(crate) fn saw(&mut self, look: Look) {
        // It was on its way when the picture was frozen.
        if self.frozen && self.look.is_some() {
            return;
        }
        self.rates.add(look.at, look.totals);
        self.trouble = None;
        self.look = Some(look);
        for panel in Panel::ALL {
            let subjects = self.subjects(panel);
            self.cursors[panel as usize].settle(&subjects);
        }
    }

    /// A look has failed: the picture stays.
    pub(crate) fn failed(&mut self, at: Timestamp, why: String) {
        self.rates.gap();
        let since = self.trouble.as_ref().map_or(at, |trouble| trouble.since);
        // Which store it is stands above; what is wrong with it should find room.
        let why = why.replace(&format!(" {}", self.store), "");
        self.trouble = Some(Trouble { since, until: at, why });
    }

    /// Time goes by, for so long since the look under way began.
    pub(crate) fn waits(&mut self, now: Timestamp, looking_for: Duration) {
        match &mut self.trouble {
            Some(trouble) => trouble.until = now,
            None if looking_for >= SLOW => {
                let why = "a look takes long".to_owned();
                self.trouble = Some(Trouble { since: now.before(looking_for), until: now, why });
            }
            None => {}
        }
    }

    /// A story has come, or not. One that was closed meanwhile is nobody's business.
    pub(crate) fn told(&mut self, subject: &Subject, story: Result<Story, String>) {
        let Some(opened) = self.opened.as_mut().filter(|opened| opened.subject == *subject) else { return };
        match story {
            Ok(story) => opened.story = Some(story),
            // What was read before is better than nothing.
            Err(why) if opened.story.is_some() => self.said = Some(Said::Refused(why)),
            Err(why) => {
                self.opened = None;
                self.said = Some(Said::Refused(why));
            }
        }
    }

    /// The story that is to be read again: one that goes on.
    pub(crate) fn unfinished_story(&self) -> Option<Subject> {
        let opened = self.opened.as_ref()?;
        let over = opened.story.as_ref().is_some_and(|story| story.over);
        (!over).then(|| opened.subject.clone())
    }

    pub(crate) fn queues(&self) -> &[QueueRow] {
        self.look.as_ref().map_or(&[], |look| &look.queues)
    }

    /// The jobs of a table; none for that of queues.
    pub(crate) fn jobs(&self, panel: Panel) -> &[JobView] {
        match (&self.look, panel) {
            (Some(look), Panel::Running) => &look.running.jobs,
            (Some(look), Panel::Dead) => &look.dead.jobs,
            _ => &[],
        }
    }

    fn subjects(&self, panel: Panel) -> Vec<Subject> {
        match panel {
            Panel::Queues => self.queues().iter().map(|row| Subject::Queue(row.queue.name.clone())).collect(),
            _ => self.jobs(panel).iter().map(|job| Subject::Job(job.id)).collect(),
        }
    }

    /// What the next key is about: the story that is open, or else what is selected.
    pub(crate) fn subject(&self) -> Option<Subject> {
        match &self.opened {
            Some(opened) => Some(opened.subject.clone()),
            None => self.cursors[self.panel as usize].subject.clone(),
        }
    }

    /// Which row of a table is selected.
    pub(crate) fn selected(&self, panel: Panel) -> usize {
        self.cursors[panel as usize].place
    }

    /// The first row to be drawn of a table that has room for so many: the selected one is among them, and nothing
    /// moves without need.
    pub(crate) fn first_row(&mut self, panel: Panel, rows: usize, room: usize) -> usize {
        let cursor = &mut self.cursors[panel as usize];
        let lowest = (cursor.place + 1).saturating_sub(room);
        cursor.top = cursor.top.clamp(lowest, cursor.place.max(lowest)).min(rows.saturating_sub(room));
        cursor.top
    }

    /// Moves the cursor, or the open story.
    pub(crate) fn go(&mut self, to: impl Fn(usize) -> usize) {
        if let Some(opened) = &mut self.opened {
            opened.top = to(opened.top);
            return;
        }
        let subjects = self.subjects(self.panel);
        let cursor = &mut self.cursors[self.panel as usize];
        cursor.move_to(to(cursor.place), &subjects);
    }
}
