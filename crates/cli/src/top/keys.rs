//! The effect of each key.

use punctual::JobId;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::state::{Action, Effect, Opened, Panel, State, StatusLine, Subject};

/// The keys as the help lists them.
pub(crate) const HELP: [(&str, &str); 12] = [
    ("Tab, 1 2 3", "the next table; queues, running, dead"),
    ("j k, arrows", "down and up"),
    ("PgDn PgUp, g G", "a page down and up, the first and the last"),
    ("Enter", "open the selected job or queue"),
    ("Esc", "go back"),
    ("p", "pause or resume the selected queue; running jobs finish"),
    ("r", "retry the selected dead job"),
    ("c", "cancel the selected job, after a confirmation"),
    ("Space", "freeze or resume the display"),
    ("Ctrl-L", "refresh now and redraw"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
];

/// Handles a key; returns its effect outside the state.
pub(crate) fn press(state: &mut State, key: KeyEvent) -> Option<Effect> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if control => return Some(Effect::Leave),
        KeyCode::Char('l') if control => return Some(Effect::Snapshot),
        KeyCode::Char(_) if control => return None,
        _ => {}
    }
    if let Some(job) = state.confirming.take() {
        return answer(state, job, key.code);
    }
    state.message = None;
    if state.help {
        state.help = false;
        return (key.code == KeyCode::Char('q')).then_some(Effect::Leave);
    }
    move_about(state, key.code).or_else(|| act(state, key.code))
}

/// Handles the answer to a confirmation: only `y` confirms.
fn answer(state: &mut State, job: JobId, key: KeyCode) -> Option<Effect> {
    if matches!(key, KeyCode::Char('y' | 'Y')) {
        return Some(Effect::Do(Action::Cancel(job)));
    }
    state.message = Some(StatusLine::Done("nothing was done".to_owned()));
    None
}

fn move_about(state: &mut State, key: KeyCode) -> Option<Effect> {
    let page = state.page.max(1);
    match key {
        KeyCode::Char('j') | KeyCode::Down => state.go(|index| index.saturating_add(1)),
        KeyCode::Char('k') | KeyCode::Up => state.go(|index| index.saturating_sub(1)),
        KeyCode::PageDown => state.go(|index| index.saturating_add(page)),
        KeyCode::PageUp => state.go(|index| index.saturating_sub(page)),
        KeyCode::Char('g') | KeyCode::Home => state.go(|_| 0),
        KeyCode::Char('G') | KeyCode::End => state.go(|_| usize::MAX),
        KeyCode::Tab => show(state, state.panel.step(1)),
        KeyCode::BackTab => show(state, state.panel.step(2)),
        KeyCode::Char('1') => show(state, Panel::Queues),
        KeyCode::Char('2') => show(state, Panel::Running),
        KeyCode::Char('3') => show(state, Panel::Dead),
        KeyCode::Esc => state.opened = None,
        KeyCode::Char('?') => state.help = true,
        _ => {}
    }
    None
}

fn show(state: &mut State, panel: Panel) {
    state.opened = None;
    state.panel = panel;
}

fn act(state: &mut State, key: KeyCode) -> Option<Effect> {
    let subject = state.subject();
    match (key, subject) {
        (KeyCode::Char('q'), _) => Some(Effect::Leave),
        (KeyCode::Char(' '), _) => freeze(state),
        (KeyCode::Enter, Some(subject)) if state.opened.is_none() => {
            state.opened = Some(Opened { subject: subject.clone(), history: None, top: 0 });
            Some(Effect::Read(subject))
        }
        (KeyCode::Char('p'), Some(Subject::Queue(name))) => {
            let paused = state.queues().iter().any(|row| row.queue.name == name && row.queue.settings.paused);
            Some(Effect::Do(if paused { Action::Resume(name) } else { Action::Pause(name) }))
        }
        (KeyCode::Char('r'), Some(Subject::Job(id))) => Some(Effect::Do(Action::Retry(id))),
        (KeyCode::Char('c'), Some(Subject::Job(id))) => {
            state.confirming = Some(id);
            None
        }
        (KeyCode::Char('p'), _) => refuse(state, "p pauses a queue: select one with 1"),
        (KeyCode::Char('r'), _) => refuse(state, "r retries a dead job: select one with 3"),
        (KeyCode::Char('c'), _) => refuse(state, "c cancels a job: select one with 2"),
        _ => None,
    }
}

fn refuse(state: &mut State, why: &str) -> Option<Effect> {
    state.message = Some(StatusLine::Refused(why.to_owned()));
    None
}

/// Freezes or unfreezes the screen. Nothing is known of the time while it was frozen, so the rates have a gap.
fn freeze(state: &mut State) -> Option<Effect> {
    state.frozen = !state.frozen;
    if state.frozen {
        return None;
    }
    state.rates.gap();
    Some(Effect::Snapshot)
}
