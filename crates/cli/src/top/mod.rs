//! `punctual top`: the overview in a terminal, with keys to act.
//!
//! | question | file |
//! |---|---|
//! | what is read from the store? | `look` |
//! | how fast do jobs come and go? | `rates` |
//! | what is on the screen? | `state` |
//! | what does a key do? | `keys` |
//! | how is an action performed? | `act` |
//! | how does it look? | `draw` |
//! | how is the terminal set up and restored? | `screen` |

mod act;
mod draw;
mod keys;
mod look;
mod rates;
mod screen;
mod state;
#[cfg(test)]
mod tests;

use std::{
    io::{IsTerminal, stdin, stdout},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use punctual::{Error, Timestamp};
use ratatui::crossterm::event::Event;
use serde_json::json;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{self, Instant as Moment},
};

use self::{
    draw::Theme,
    look::{Look, Poller},
    screen::Screen,
    state::{Action, Said, State, Story, Subject, Wish},
};
use crate::{
    args::{Cli, Top},
    commands::print_json,
    config::{Config, actor},
    exit::Usage,
};

/// A store that has not answered by then does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a look comes a pause of so many times as long at least, so that a slow store has little of it.
const PAUSE_FACTOR: u32 = 4;
/// How often the picture is drawn while the store does not answer, to say for how long.
const CLOCK: Duration = Duration::from_secs(1);
/// The width of a picture that goes elsewhere than to a terminal.
const COLUMNS: u16 = 120;

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Top) -> Result<()> {
    let once = args.once || cli.json;
    let terminal = stdin().is_terminal() && stdout().is_terminal();
    if !terminal && !once {
        let other = "`punctual top --once` prints one picture, `punctual stats` the counts";
        return Err(Usage(format!("top needs a terminal to draw in and to read keys from; {other}")).into());
    }
    let eye = Arc::new(Poller::new(config.connect(cli).await?, actor()));
    if once {
        return print(cli, &eye, args.every.0).await;
    }
    let mut screen = Screen::open().context("cannot draw in this terminal")?;
    let keys = screen::keys();
    Loop::new(eye, args.every.0).run(&mut screen, keys).await
}

/// Two looks, since one says nothing of rates, and their picture.
async fn print(cli: &Cli, eye: &Poller, every: Duration) -> Result<()> {
    let mut state = State::new(eye.location());
    state.saw(eye.look(0).await?);
    time::sleep(every).await;
    state.saw(eye.look(0).await?);
    if cli.json {
        let mut document = serde_json::to_value(&state.look)?;
        document["store"] = json!(state.store);
        document["per_second"] = json!(state.rates.all());
        return print_json(&document);
    }
    let columns = ratatui::crossterm::terminal::size().map_or(COLUMNS, |(columns, _)| columns);
    println!("{}", draw::plain(&mut state, if stdout().is_terminal() { columns } else { COLUMNS })?);
    Ok(())
}

/// What comes back from the store.
enum Heard {
    Looked(Result<Box<Look>, String>, Timestamp),
    Told(Subject, Result<Story, String>),
    Did(Said),
}

/// Keys, looks and actions, one after the other.
struct Loop {
    eye: Arc<Poller>,
    every: Duration,
    state: State,
    /// What is under way: at most one look, and what the operator asked for.
    work: JoinSet<Heard>,
    looking_since: Option<Instant>,
    next_look: Moment,
    /// A look is wanted as soon as the one under way has ended.
    look_again: bool,
    /// Stories that are being read.
    reading: usize,
}

impl Loop {
    fn new(eye: Arc<Poller>, every: Duration) -> Self {
        Self {
            state: State::new(eye.location()),
            eye,
            every,
            work: JoinSet::new(),
            looking_since: None,
            next_look: Moment::now(),
            look_again: false,
            reading: 0,
        }
    }

    async fn run(mut self, screen: &mut Screen, mut keys: mpsc::Receiver<std::io::Result<Event>>) -> Result<()> {
        let theme = Theme::of_terminal();
        let mut stop = std::pin::pin!(screen::asked_to_stop()?);
        loop {
            screen.draw(|frame| draw::draw(frame, &mut self.state, theme))?;
            let idle = self.looking_since.is_none() && !self.state.frozen;
            let waits = (self.looking_since.is_some() || self.state.trouble.is_some()) && !self.state.frozen;
            tokio::select! {
                event = keys.recv() => {
                    let event = event.context("the terminal is gone")?.context("cannot read from the terminal")?;
                    if let Left::Yes = self.key(screen, &event)? {
                        return Ok(());
                    }
                }
                Some(heard) = self.work.join_next() => self.heard(heard.context("a part of the program has failed")?),
                () = time::sleep_until(self.next_look), if idle => self.look(),
                () = time::sleep(CLOCK), if waits => {
                    let looking_for = self.looking_since.map_or(Duration::ZERO, |since| since.elapsed());
                    self.state.waits(self.eye.now(), looking_for);
                }
                () = &mut stop => return Ok(()),
            }
        }
    }

    fn key(&mut self, screen: &mut Screen, event: &Event) -> Result<Left> {
        let Some(key) = event.as_key_press_event() else { return Ok(Left::No) };
        match keys::press(&mut self.state, key) {
            Some(Wish::Leave) => return Ok(Left::Yes),
            Some(Wish::Do(action)) => self.act(action),
            Some(Wish::Read(subject)) => self.read(subject),
            Some(Wish::Look) => {
                screen.clear()?;
                self.look_soon();
            }
            None => {}
        }
        Ok(Left::No)
    }

    fn look(&mut self) {
        self.looking_since = Some(Instant::now());
        let (eye, around) = (Arc::clone(&self.eye), self.state.selected(state::Panel::Queues));
        self.work.spawn(async move {
            let looked = in_time(eye.look(around)).await;
            Heard::Looked(looked.map(Box::new), eye.now())
        });
    }

    fn look_soon(&mut self) {
        self.look_again = self.looking_since.is_some();
        self.next_look = Moment::now();
    }

    fn act(&mut self, action: Action) {
        let eye = Arc::clone(&self.eye);
        self.work.spawn(async move {
            let done = time::timeout(PATIENCE, act::perform(eye.admin(), &action)).await;
            let late = || format!("no answer within {} s; it may still happen", PATIENCE.as_secs());
            Heard::Did(done.unwrap_or_else(|_| Said::Refused(late())))
        });
    }

    fn read(&mut self, subject: Subject) {
        self.reading += 1;
        let eye = Arc::clone(&self.eye);
        self.work.spawn(async move {
            let story = in_time(eye.story(subject.clone())).await;
            Heard::Told(subject, story)
        });
    }

    fn heard(&mut self, heard: Heard) {
        match heard {
            Heard::Looked(looked, at) => self.looked(looked, at),
            Heard::Told(subject, story) => {
                self.reading -= 1;
                self.state.told(&subject, story);
            }
            Heard::Did(said) => {
                self.state.said = Some(said);
                self.look_soon();
                // Also a story that was over has a new chapter.
                if let Some(opened) = &self.state.opened {
                    self.read(opened.subject.clone());
                }
            }
        }
    }

    fn looked(&mut self, looked: Result<Box<Look>, String>, at: Timestamp) {
        let took = self.looking_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        let pause = self.every.saturating_sub(took).max(took * PAUSE_FACTOR);
        let again = std::mem::take(&mut self.look_again);
        self.next_look = Moment::now() + if again { Duration::ZERO } else { pause };
        match looked {
            Ok(look) => {
                self.state.saw(*look);
                if let Some(subject) = self.state.unfinished_story().filter(|_| self.reading == 0) {
                    self.read(subject);
                }
            }
            Err(why) => self.state.failed(at, why),
        }
    }
}

/// Whether the operator has left.
enum Left {
    Yes,
    No,
}

async fn in_time<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    match time::timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("it took longer than {} s", PATIENCE.as_secs())),
    }
}
