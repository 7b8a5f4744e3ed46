//! The terminal: switched to full screen, and restored however the program ends.

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

/// Maximum number of key events that are buffered while the screen is drawn.
const KEYS_MAX: usize = 256;

/// Whether the terminal is in full-screen mode. It must be restored only once: a second time would move the cursor back
/// over text that was printed meanwhile.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal in full-screen mode.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Switches to full screen. A panic restores the terminal before its message is printed.
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

    /// Redraws everything, in case another program has written to the terminal.
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

/// Restores the terminal. Errors are ignored: a terminal that was closed cannot be restored, and cannot show an error.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = terminal::disable_raw_mode();
        format::release_log();
    }
}

/// Key events, and changes of the terminal's size.
///
/// The thread reads keys until the process ends, since nothing else can wake it.
pub(super) fn keys() -> mpsc::Receiver<io::Result<Event>> {
    let (events, keys) = mpsc::channel(KEYS_MAX);
    thread::spawn(move || {
        loop {
            let event = event::read();
            let over = event.is_err();
            if events.blocking_send(event).is_err() || over {
                return;
            }
        }
    });
    keys
}

/// Completes when the process receives a signal to stop, or its terminal is closed.
pub(super) fn stop_signal() -> Result<impl Future<Output = ()>> {
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
    /// Whether to use colours: decided as in the other commands, by `NO_COLOR` and similar variables.
    pub(super) fn of_terminal() -> Self {
        Self { colours: anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never }
    }
}
