//! The terminal: taken as a whole, and given back as it was, however the program ends.

use std::{
    io, panic,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::Result;
use ratatui::{
    DefaultTerminal, Frame, Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{self, Event},
        execute,
        terminal::{self, EnterAlternateScreen, LeaveAlternateScreen},
    },
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use super::draw::Theme;
use crate::format;

/// Keys that may wait while the picture is drawn.
const KEYS_MAX: usize = 256;

/// Whether the terminal is ours. It is given back once: a second time would put the cursor where it was before, onto
/// what was said meanwhile.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while it is ours.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes it. A panic gives it back before it is told.
    pub(super) fn open() -> io::Result<Self> {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            usual(info);
        }));
        format::hold_log();
        TAKEN.store(true, Ordering::SeqCst);
        take().map(Self).inspect_err(|_| give_back())
    }

    pub(super) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if TAKEN.load(Ordering::SeqCst) {
            self.0.draw(picture)?;
        }
        Ok(())
    }

    /// Draws everything anew, in case something else has written there.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.0.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<DefaultTerminal> {
    terminal::enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)?;
    Terminal::new(CrosstermBackend::new(io::stdout()))
}

/// A terminal that is gone cannot be given back, which nobody can be told then.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = terminal::disable_raw_mode();
        format::release_log();
    }
}

/// What is typed, and changes of the terminal's size.
///
/// The thread waits for keys as long as the process lives: nothing else wakes it.
pub(super) fn keys() -> mpsc::Receiver<io::Result<Event>> {
    let (heard, keys) = mpsc::channel(KEYS_MAX);
    thread::spawn(move || {
        loop {
            let event = event::read();
            let over = event.is_err();
            if heard.blocking_send(event).is_err() || over {
                return;
            }
        }
    });
    keys
}

/// Ends when the process is asked to stop, or its terminal is gone.
pub(super) fn asked_to_stop() -> Result<impl Future<Output = ()>> {
    let mut signals = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
        signal(SignalKind::quit())?,
    );
    Ok(async move {
        tokio::select! {
            _ = signals.0.recv() => {}
            _ = signals.1.recv() => {}
            _ = signals.2.recv() => {}
            _ = signals.3.recv() => {}
        }
    })
}

impl Theme {
    /// As the other commands decide it: `NO_COLOR` and its kin.
    pub(super) fn of_terminal() -> Self {
        Self { colours: anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never }
    }
}
