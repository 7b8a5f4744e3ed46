//! `punctual top`: the overview in a terminal, with keys to act.
//!
//! | question | file |
//! |---|---|
//! | what is read from the store? | `snapshot`; how: `poller` |
//! | how are jobs per second computed? | `rates` |
//! | what is on the screen? | `state` |
//! | what does a key do? | `keys` |
//! | how is an action performed? | `act` |
//! | how is it drawn? | `draw` |
//! | how is the terminal set up and restored? | `screen` |

mod act;
mod draw;
mod keys;
mod poller;
mod rates;
mod screen;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;

use std::{
    io::{IsTerminal, stdin, stdout},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use punctual::Timestamp;
use ratatui::crossterm::event::Event;
use serde_json::json;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{self, Instant as Moment},
};

use self::{
    draw::Theme,
    poller::Poller,
    screen::Screen,
    snapshot::Snapshot,
    state::{Action, Details, Effect, State, StatusLine, Subject},
};
use crate::{
    args::{Cli, Top},
    config::Config,
    exit::Usage,
    output::print_json,
    target,
};

/// Timeout of a read or an action.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a read, the pause is at least this many times its duration, to limit the load on a slow store.
const PAUSE_FACTOR: u32 = 4;
/// How often the screen is redrawn while the store does not answer, to show for how long.
const CLOCK: Duration = Duration::from_secs(1);
/// The width of the output if it is not a terminal.
const COLUMNS: u16 = 120;

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Top) -> Result<()> {
    let once = args.once || cli.json;
    let terminal = stdin().is_terminal() && stdout().is_terminal();
    if !terminal && !once {
        let other = "`punctual top --once` prints one picture, `punctual stats` the counts";
        return Err(Usage(format!("top needs a terminal to draw in and to read keys from; {other}")).into());
    }
    let poller = Arc::new(Poller::new(target::administer(cli, config).await?));
    if once {
        return print(cli, &poller, args.every.0).await;
    }
    let mut screen = Screen::open().context("cannot draw in this terminal")?;
    let keys = screen::keys();
    Loop::new(poller, args.every.0).run(&mut screen, keys).await
}

/// Prints one screen after two reads, since rates need two.
async fn print(cli: &Cli, poller: &Poller, every: Duration) -> Result<()> {
    let mut state = State::new(poller.location());
    state.set_snapshot(poller.snapshot(0).await?);
    time::sleep(every).await;
    state.set_snapshot(poller.snapshot(0).await?);
    if cli.json {
        let mut document = serde_json::to_value(&state.snapshot)?;
        document["store"] = json!(state.store);
        document["per_second"] = json!(state.rates.all());
        return print_json(&document);
    }
    let columns = ratatui::crossterm::terminal::size().map_or(COLUMNS, |(columns, _)| columns);
    println!("{}", draw::plain(&mut state, if stdout().is_terminal() { columns } else { COLUMNS })?);
    Ok(())
}

/// Results from the store.
enum Update {
    Snapshot(Result<Box<Snapshot>, String>, Timestamp),
    Details(Subject, Result<Details, String>),
    Done(StatusLine),
}

/// The event loop: keys, reads and actions, one after the other.
struct Loop {
    poller: Arc<Poller>,
    every: Duration,
    state: State,
    /// Tasks under way: at most one read of the overview, and the operator's requests.
    work: JoinSet<Update>,
    reading_since: Option<Instant>,
    next_read: Moment,
    /// Read the overview again as soon as the current read has ended.
    read_again: bool,
    /// Number of details that are being read.
    reading: usize,
}

impl Loop {
    fn new(poller: Arc<Poller>, every: Duration) -> Self {
        Self {
            state: State::new(poller.location()),
            poller,
            every,
            work: JoinSet::new(),
            reading_since: None,
            next_read: Moment::now(),
            read_again: false,
            reading: 0,
        }
    }

    async fn run(mut self, screen: &mut Screen, mut keys: mpsc::Receiver<std::io::Result<Event>>) -> Result<()> {
        let theme = Theme::of_terminal();
        let mut stop = std::pin::pin!(screen::stop_signal()?);
        loop {
            screen.draw(|frame| draw::draw(frame, &mut self.state, theme))?;
            let idle = self.reading_since.is_none() && !self.state.frozen;
            let waits = (self.reading_since.is_some() || self.state.trouble.is_some()) && !self.state.frozen;
            tokio::select! {
                event = keys.recv() => {
                    let event = event.context("the terminal is gone")?.context("cannot read from the terminal")?;
                    if let Left::Yes = self.key(screen, &event)? {
                        return Ok(());
                    }
                }
                Some(update) = self.work.join_next() => self.apply(update.context("a part of the program has failed")?),
                () = time::sleep_until(self.next_read), if idle => self.read_snapshot(),
                () = time::sleep(CLOCK), if waits => {
                    let reading_for = self.reading_since.map_or(Duration::ZERO, |since| since.elapsed());
                    self.state.waits(self.poller.now(), reading_for);
                }
                () = &mut stop => return Ok(()),
            }
        }
    }

    fn key(&mut self, screen: &mut Screen, event: &Event) -> Result<Left> {
        let Some(key) = event.as_key_press_event() else { return Ok(Left::No) };
        match keys::press(&mut self.state, key) {
            Some(Effect::Leave) => return Ok(Left::Yes),
            Some(Effect::Do(action)) => self.act(action),
            Some(Effect::Read(subject)) => self.read(subject),
            Some(Effect::Snapshot) => {
                screen.clear()?;
                self.read_soon();
            }
            None => {}
        }
        Ok(Left::No)
    }

    fn read_snapshot(&mut self) {
        self.reading_since = Some(Instant::now());
        let (poller, around) = (Arc::clone(&self.poller), self.state.selected(state::Panel::Queues));
        self.work.spawn(async move {
            let snapshot = in_time(poller.snapshot(around)).await;
            Update::Snapshot(snapshot.map(Box::new), poller.now())
        });
    }

    fn read_soon(&mut self) {
        self.read_again = self.reading_since.is_some();
        self.next_read = Moment::now();
    }

    fn act(&mut self, action: Action) {
        let poller = Arc::clone(&self.poller);
        self.work.spawn(async move {
            let done = time::timeout(PATIENCE, act::perform(poller.admin(), &action)).await;
            let late = || format!("no answer within {} s; it may still happen", PATIENCE.as_secs());
            Update::Done(done.unwrap_or_else(|_| StatusLine::Refused(late())))
        });
    }

    fn read(&mut self, subject: Subject) {
        self.reading += 1;
        let poller = Arc::clone(&self.poller);
        self.work.spawn(async move {
            let history = in_time(poller.history(subject.clone())).await;
            Update::Details(subject, history)
        });
    }

    fn apply(&mut self, update: Update) {
        match update {
            Update::Snapshot(snapshot, at) => self.show_snapshot(snapshot, at),
            Update::Details(subject, history) => {
                self.reading -= 1;
                self.state.received(&subject, history);
            }
            Update::Done(message) => {
                self.state.message = Some(message);
                self.read_soon();
                // An action also changes details that were final.
                if let Some(opened) = &self.state.opened {
                    self.read(opened.subject.clone());
                }
            }
        }
    }

    fn show_snapshot(&mut self, snapshot: Result<Box<Snapshot>, String>, at: Timestamp) {
        let took = self.reading_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        let pause = self.every.saturating_sub(took).max(took * PAUSE_FACTOR);
        let again = std::mem::take(&mut self.read_again);
        self.next_read = Moment::now() + if again { Duration::ZERO } else { pause };
        match snapshot {
            Ok(snapshot) => {
                self.state.set_snapshot(*snapshot);
                if let Some(subject) = self.state.unfinished_history().filter(|_| self.reading == 0) {
                    self.read(subject);
                }
            }
            Err(why) => self.state.failed(at, why),
        }
    }
}

/// Whether the operator has quit.
enum Left {
    Yes,
    No,
}

async fn in_time<T>(answer: impl Future<Output = Result<T>>) -> Result<T, String> {
    match time::timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("it took longer than {} s", PATIENCE.as_secs())),
    }
}
