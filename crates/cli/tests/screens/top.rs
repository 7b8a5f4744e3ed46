//! `punctual top`, with and without a terminal.

use std::{
    io::{Read, Write},
    num::NonZero,
    os::fd::AsFd,
    process::Child,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use nix::{
    sys::{
        signal::{Signal, kill},
        termios::{Termios, tcgetattr},
    },
    unistd::Pid,
};
use pty_process::{
    Size,
    blocking::{Command, Pty, open},
};
use serde_json::json;

use crate::shell::{Shell, until};

const ROWS: NonZero<u16> = NonZero::new(24).unwrap();
const COLUMNS: NonZero<u16> = NonZero::new(100).unwrap();

/// A terminal that runs `top`, and its screen.
pub(super) struct Terminal {
    pty: Pty,
    child: Child,
    before: Termios,
    pub(super) screen: Arc<Mutex<vt100::Parser>>,
    /// Ends when no process has the other side of the terminal open.
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    pub(super) fn start(shell: &Shell, args: &[&str], env: &[(&str, &str)]) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(ROWS.get(), COLUMNS.get())).unwrap();
        let before = tcgetattr(pty.as_fd()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"))
            .args(args)
            .current_dir(shell.0.path())
            .env_remove("PUNCTUAL_STORE")
            .env("XDG_CONFIG_HOME", shell.0.path())
            .env_remove("NO_COLOR")
            .env("TERM", "xterm-256color");
        for (name, value) in env {
            command = command.env(name, value);
        }
        let child = command.spawn(pts).unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let (mut output, shown) = (std::fs::File::from(pty.as_fd().try_clone_to_owned().unwrap()), Arc::clone(&screen));
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self { pty, child, before, screen, reader: Some(reader) }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    pub(super) fn shows(&self, what: &str) {
        until(what, || self.text().contains(what));
    }

    fn press(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end of the program; returns its exit code.
    fn ended(&mut self) -> i32 {
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        status.code().unwrap()
    }

    /// Checks that the normal screen is restored, with its cursor and line-wise input.
    fn is_restored(&self) {
        let parser = self.screen.lock().unwrap();
        assert!(!parser.screen().alternate_screen(), "the usual screen is back");
        assert!(!parser.screen().hide_cursor(), "the cursor is back");
        assert_eq!(tcgetattr(self.pty.as_fd()).unwrap(), self.before);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_queue_is_paused_with_a_key_and_the_terminal_is_restored() {
    let shell = Shell::new();
    shell.ok(&["enqueue", "echo", "1", "--queue", "letters"]);
    let mut top = Terminal::start(&shell, &["top", "--every", "200ms"], &[]);
    top.shows("letters");
    assert!(top.screen.lock().unwrap().screen().alternate_screen());
    assert_ne!(tcgetattr(top.pty.as_fd()).unwrap(), top.before, "keys come one by one");
    top.press("p");
    top.shows("● paused");
    assert_eq!(shell.json(&["queues", "show", "letters"])["paused"], json!(true));
    // Changes by other processes are shown too.
    shell.ok(&["queues", "resume", "letters"]);
    top.shows("● on");
    top.press("q");
    assert_eq!(top.ended(), 0);
    top.is_restored();
}

#[test]
fn control_c_and_signals_give_the_terminal_back_too() {
    let shell = Shell::with_store();
    for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGINT), Some(Signal::SIGHUP)] {
        let mut top = Terminal::start(&shell, &["top"], &[]);
        top.shows("● live");
        match signal {
            None => top.press("\u{3}"),
            Some(signal) => kill(Pid::from_raw(top.child.id() as i32), signal).unwrap(),
        }
        assert_eq!(top.ended(), 0, "{signal:?}");
        top.is_restored();
    }
}

#[test]
fn the_picture_follows_the_size_of_the_terminal() {
    let shell = Shell::with_store();
    let top = Terminal::start(&shell, &["top"], &[]);
    top.shows("● live");
    let (rows, columns) = (NonZero::new(10).unwrap(), NonZero::new(40).unwrap());
    top.screen.lock().unwrap().screen_mut().set_size(rows, columns);
    top.pty.resize(Size::new(rows.get(), columns.get())).unwrap();
    top.shows("this needs 60 and 16");
}

#[test]
fn no_colours_where_none_are_wanted() {
    let shell = Shell::new();
    shell.ok(&["enqueue", "echo", "1"]);
    let coloured = |top: &Terminal| {
        let parser = top.screen.lock().unwrap();
        let cell =
            |index: u32| parser.screen().cell((index / 100) as u16, (index % 100) as u16).map(vt100::Cell::fgcolor);
        (0..2_400).any(|index| cell(index).is_some_and(|colour| colour != vt100::Color::Default))
    };
    let top = Terminal::start(&shell, &["top"], &[]);
    top.shows("● queued");
    assert!(coloured(&top));
    let top = Terminal::start(&shell, &["top"], &[("NO_COLOR", "1")]);
    top.shows("● queued");
    assert!(!coloured(&top));
}

#[test]
fn without_a_terminal_it_names_the_alternative() {
    let shell = Shell::new();
    let (code, stderr) = shell.fails(&["top"]);
    assert!(code == 2 && stderr.contains("needs a terminal") && stderr.contains("`punctual stats`"), "{stderr}");
    let (code, stderr) = shell.fails(&["top", "--every", "10ms"]);
    assert!(code == 2 && stderr.contains("between 200ms and 1m"), "{stderr}");
    assert!(!shell.path("punctual.db").exists(), "nothing was touched");
}

#[test]
fn one_picture_is_printed_as_text_or_json() {
    let shell = Shell::new();
    shell.ok(&["enqueue", "fail", r#"{"message": "no such account"}"#, "--queue", "pay", "--max-attempts", "1"]);
    shell.ok(&["work", "--until-empty"]);
    shell.ok(&["enqueue", "echo", "1", "--queue", "mail"]);
    let text = shell.ok(&["top", "--once", "--every", "200ms"]);
    for part in ["● queued", "● dead", "mail", "pay", "no such account", "0/s"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(!text.contains('\u{1b}'));
    let snapshot = shell.json(&["top", "--every", "200ms"]);
    assert_eq!(snapshot["jobs"]["queued"], 1);
    assert_eq!(snapshot["jobs"]["dead"], 1);
    assert_eq!(snapshot["queues"][0]["name"], "mail");
    assert_eq!(snapshot["oldest"]["queue"], "mail");
    assert_eq!(snapshot["dead"]["jobs"][0]["error"]["message"], json!("no such account"));
    assert_eq!(snapshot["per_second"], json!({"enqueued": 0.0, "succeeded": 0.0, "failed": 0.0}));
}
