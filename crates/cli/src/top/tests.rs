//! The screen of `top` for a real store, key by key.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{sync::Arc, time::Duration};

use punctual::{
    Context, Draft, Failure, JobId, Punctual, RetryPolicy, Status, Worker,
    core::{AttemptId, ClaimRequest, Limits, Progress, ProgressReport, WorkerId},
};
use punctual_testkit::{FaultyStore, When};
use ratatui::{
    Terminal,
    backend::TestBackend,
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::{Color, Modifier},
};
use serde_json::json;
use tempfile::TempDir;

use super::{
    act,
    draw::{self, Theme},
    keys,
    poller::{JOBS_MAX, Poller},
    state::{Effect, State, StatusLine},
};
use crate::local::Local;

struct World {
    punctual: Punctual,
    faults: FaultyStore,
    poller: Poller,
    state: State,
    size: (u16, u16),
    colours: bool,
    _folder: TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
        let faults = FaultyStore::new(Arc::clone(Punctual::connect(&url).await.unwrap().store()));
        let punctual = Punctual::new(Arc::new(faults.clone()));
        let (poller, state) = (
            Poller::new(Box::new(Local::new(punctual.clone(), "cli:ada".into()))),
            State::new("sqlite:punctual.db".into()),
        );
        Self { punctual, faults, poller, state, size: (120, 24), colours: true, _folder: folder }
    }

    async fn enqueue(&self, draft: Draft) -> JobId {
        self.punctual.enqueue(draft).await.unwrap().id
    }

    /// Claims the next job, so that it runs.
    async fn start(&self, queue: &str) -> (JobId, AttemptId, WorkerId) {
        let worker = WorkerId::from_bits(self.punctual.ids().next(self.poller.now()));
        let request =
            ClaimRequest { queues: vec![queue.into()], ..ClaimRequest::new(worker, 1, Duration::from_secs(60)) };
        let claim = self.punctual.store().claim(request).await.unwrap().claims.remove(0);
        (claim.job.id, claim.attempt_id(), worker)
    }

    /// A job that has failed its last attempt and is dead.
    async fn die(&self, queue: &str, message: &'static str) -> JobId {
        let id = self.enqueue(Draft::new("doomed", &json!(1)).queue(queue).retry(RetryPolicy::none())).await;
        let fail = move |_: Context| async move { Err(Failure::new(message)) };
        let worker = Worker::builder(self.punctual.clone()).handler("doomed", fail).manual().unwrap();
        assert_eq!(worker.run_one().await.unwrap().unwrap().status, Status::Dead);
        id
    }

    async fn status(&self, id: JobId) -> Status {
        self.punctual.job(id).await.unwrap().status
    }

    async fn refresh(&mut self) {
        match self.poller.snapshot(0).await {
            Ok(snapshot) => self.state.set_snapshot(snapshot),
            Err(error) => self.state.failed(self.poller.now(), error.to_string()),
        }
    }

    /// Presses a key and performs its action; returns whether the key quits.
    async fn press(&mut self, code: KeyCode) -> bool {
        match keys::press(&mut self.state, KeyEvent::new(code, KeyModifiers::NONE)) {
            Some(Effect::Leave) => return true,
            Some(Effect::Do(action)) => {
                self.state.message = Some(act::perform(self.poller.admin(), &action).await);
                self.refresh().await;
            }
            Some(Effect::Read(subject)) => {
                let history = self.poller.history(subject.clone()).await.map_err(|error| error.to_string());
                self.state.received(&subject, history);
            }
            Some(Effect::Snapshot) => self.refresh().await,
            None => {}
        }
        false
    }

    async fn type_in(&mut self, text: &str) {
        for c in text.chars() {
            assert!(!self.press(KeyCode::Char(c)).await, "{c} leaves");
        }
    }

    fn buffer(&mut self) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(self.size.0, self.size.1)).unwrap();
        let theme = Theme { colours: self.colours };
        terminal.draw(|frame| draw::draw(frame, &mut self.state, theme)).unwrap();
        terminal.backend().buffer().clone()
    }

    fn picture(&mut self) -> String {
        draw::text_of(&self.buffer())
    }

    /// The first line that contains `part`. A `part` that begins with a line break must be at the start of the line.
    fn line(&mut self, part: &str) -> String {
        let picture = self.picture();
        picture
            .lines()
            .find(|line| format!("\n{line}").contains(part))
            .unwrap_or_else(|| panic!("no {part} in\n{picture}"))
            .to_owned()
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test]
async fn an_empty_store_shows_how_to_begin() {
    let mut world = World::new().await;
    assert!(world.picture().contains("● loading"));
    world.refresh().await;
    let picture = world.picture();
    for part in ["sqlite:punctual.db", "● live", "0 workers", "no queues", "punctual enqueue", "oldest queued"] {
        assert!(picture.contains(part), "{part} in\n{picture}");
    }
    world.type_in("2").await;
    assert!(world.picture().contains("no running jobs"));
    world.type_in("3").await;
    assert!(world.picture().contains("no job is dead"));
}

#[tokio::test]
async fn the_counts_of_each_state_and_queue_are_there_in_their_colours() {
    let mut world = World::new().await;
    for _ in 0..3 {
        world.enqueue(Draft::new("send", &json!(1)).queue("mail")).await;
    }
    world.enqueue(Draft::new("send", &json!(1)).queue("mail").delay(Duration::from_secs(3_600))).await;
    world.start("mail").await;
    world.die("pay", "no such account").await;
    let limits = Limits { concurrency: Some(5), ..Limits::default() };
    world.punctual.admin("cli:ada").set_queue_limits("mail", limits).await.unwrap();
    world.refresh().await;
    let line = world.line("● scheduled");
    assert_eq!(cells(&line), cells("● waiting 0 ● scheduled 1 ● queued 2 ● processing 1 ● retrying 0"));
    assert!(world.line("● succeeded").contains("● dead"));
    let mail = world.line("mail  ");
    assert_eq!(cells(&mail)[..7], ["mail", "●", "on", "1", "2", "1", "0"], "{mail}");
    assert!(mail.contains("5 concurrent"), "{mail}");
    let buffer = world.buffer();
    let of = |part: &str| {
        let text = draw::text_of(&buffer);
        let (y, line) = text.lines().enumerate().find(|(_, line)| line.contains(part)).unwrap();
        let x = line[..line.find(part).unwrap()].chars().count();
        buffer[(x as u16, y as u16)].fg
    };
    let colours = [of("● queued"), of("● processing"), of("● dead"), of("● scheduled")];
    assert_eq!(colours, [Color::Blue, Color::Yellow, Color::Red, Color::Rgb(139, 92, 246)]);
}

#[tokio::test]
async fn without_colours_the_selected_row_is_still_visible() {
    let mut world = World::new().await;
    world.colours = false;
    world.enqueue(Draft::new("send", &json!(1)).queue("mail")).await;
    world.refresh().await;
    let buffer = world.buffer();
    assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(buffer.content.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
}

#[tokio::test]
async fn p_pauses_the_selected_queue_and_resumes_it_by_the_name_of_the_operator() {
    let mut world = World::new().await;
    for queue in ["bulk", "mail"] {
        world.enqueue(Draft::new("send", &json!(1)).queue(queue)).await;
    }
    world.refresh().await;
    world.type_in("jp").await;
    assert!(world.line("mail  ").contains("● paused"));
    assert!(world.line("bulk  ").contains("● on"));
    assert!(world.line("mail paused").contains("● mail paused"));
    let detail = world.poller.admin().queue("mail").await.unwrap();
    assert!(detail.queue.settings.paused);
    assert_eq!((detail.events[0].actor.as_str(), detail.events[0].action.as_str()), ("cli:ada", "paused"));
    world.type_in("p").await;
    assert!(!world.poller.admin().queue("mail").await.unwrap().queue.settings.paused);
    assert!(world.picture().contains("● mail resumed"));
    world.type_in("2p").await;
    assert!(world.picture().contains("p pauses a queue"), "there is none to pause among running jobs");
}

#[tokio::test]
async fn a_running_job_is_shown_and_cancelled_only_after_a_yes() {
    let mut world = World::new().await;
    world.enqueue(Draft::new("render", &json!(1)).queue("media").max_attempts(4)).await;
    let (id, attempt, worker) = world.start("media").await;
    let progress = Some(Progress { percent: 41.6, message: Some("frame 7".into()) });
    world
        .punctual
        .store()
        .report_progress(vec![ProgressReport { attempt, worker, progress, lines: Vec::new() }])
        .await
        .unwrap();
    world.refresh().await;
    world.type_in("2").await;
    let line = world.line("render");
    let (text, short) = (id.to_string(), crate::text::shortened(&id.to_string()));
    assert!(short.starts_with(&text[..8]) && short.contains('…') && text.ends_with(&short[short.len() - 6..]));
    for part in [short.as_str(), "media", "1/4", "42 % frame 7", "wrk_"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    world.type_in("c").await;
    assert!(world.picture().contains(&format!("cancel job {short}? y/n")));
    world.type_in("n").await;
    assert!(world.picture().contains("nothing was done"));
    assert_eq!(world.status(id).await, Status::Processing);
    world.type_in("cy").await;
    assert_eq!(world.status(id).await, Status::Cancelled);
    assert!(world.picture().contains("cancelled"));
    assert!(world.picture().contains("no running jobs"));
}

#[tokio::test]
async fn a_dead_job_is_opened_read_and_retried() {
    let mut world = World::new().await;
    let id = world.die("pay", "no such account").await;
    world.refresh().await;
    world.size = (120, 16);
    world.type_in("3").await;
    assert!(world.line("doomed").contains("no such account"));
    world.press(KeyCode::Enter).await;
    let picture = world.picture();
    for part in ["doomed", &id.to_string(), "● Dead", "pay, priority 5", "Attempts"] {
        assert!(picture.contains(part), "{part} in\n{picture}");
    }
    assert!(!picture.contains("Events") && picture.contains("more lines below"), "it is longer\n{picture}");
    world.type_in("G").await;
    let picture = world.picture();
    assert!(picture.contains("Events") && !picture.contains("● Dead") && !picture.contains("below"), "{picture}");
    world.press(KeyCode::Esc).await;
    world.type_in("r").await;
    assert_eq!(world.status(id).await, Status::Queued);
    assert!(world.picture().contains("will run again"));
    let events = world.punctual.store().history(id).await.unwrap().events;
    assert_eq!(events.last().unwrap().actor.as_deref(), Some("cli:ada"));
}

#[tokio::test]
async fn a_change_that_the_state_machine_forbids_is_reported() {
    let mut world = World::new().await;
    world.enqueue(Draft::new("render", &json!(1)).queue("media")).await;
    let (id, ..) = world.start("media").await;
    world.refresh().await;
    world.type_in("2r").await;
    assert_eq!(world.status(id).await, Status::Processing);
    assert!(matches!(&world.state.message, Some(StatusLine::Refused(why)) if why.contains("is processing")));
    assert!(world.picture().contains("is processing"));
}

#[tokio::test]
async fn the_selection_stays_with_its_job_when_others_come_and_go() {
    let mut world = World::new().await;
    let old = world.die("pay", "first").await;
    world.refresh().await;
    world.type_in("3").await;
    let selected = |world: &World| world.state.subject().unwrap();
    let before = selected(&world);
    world.die("pay", "second").await;
    world.refresh().await;
    assert_eq!((selected(&world), world.state.selected(world.state.panel)), (before, 1), "a new row is above it");
    world.type_in("r").await;
    assert_eq!(world.status(old).await, Status::Queued);
    assert_eq!(world.state.selected(world.state.panel), 0, "it is gone, and the one beside it is selected");
}

#[tokio::test]
async fn a_store_that_does_not_answer_keeps_the_picture_and_reports_since_when_and_why() {
    let mut world = World::new().await;
    world.enqueue(Draft::new("send", &json!(1)).queue("mail")).await;
    world.refresh().await;
    world.faults.fail_next("counts", When::Before);
    world.faults.fail_next("counts", When::Before);
    world.refresh().await;
    let since = world.line("no answer since");
    world.refresh().await;
    assert_eq!(world.faults.faults_left(), 0);
    let picture = world.picture();
    for part in ["● reconnecting", "trying again: the store failed: an injected fault in counts", "mail"] {
        assert!(picture.contains(part), "{part} in\n{picture}");
    }
    assert_eq!(cells(&since)[..5], cells(&world.line("no answer since"))[..5], "it counts from the first");
    world.refresh().await;
    assert!(world.picture().contains("● live") && !world.picture().contains("no answer"));
}

#[tokio::test]
async fn a_slow_snapshot_is_reported_and_the_time_advances_meanwhile() {
    let mut world = World::new().await;
    world.refresh().await;
    let now = world.poller.now();
    world.state.waits(now, Duration::from_secs(1));
    assert!(world.picture().contains("● live"));
    world.state.waits(now, Duration::from_secs(4));
    assert!(world.picture().contains("(4.0 s), trying again: the store answers slowly"), "{}", world.picture());
    world.state.failed(now.after(Duration::from_secs(6)), "cannot reach sqlite:punctual.db: gone".into());
    assert!(world.picture().contains("(10 s), trying again: cannot reach: gone"), "{}", world.picture());
    world.state.waits(now.after(Duration::from_secs(20)), Duration::ZERO);
    assert!(world.picture().contains("(24 s), trying again: cannot reach: gone"));
    world.refresh().await;
    assert!(!world.picture().contains("no answer"));
}

#[tokio::test]
async fn a_frozen_picture_does_not_change_until_it_is_resumed() {
    let mut world = World::new().await;
    world.refresh().await;
    world.type_in(" ").await;
    world.enqueue(Draft::new("send", &json!(1)).queue("letters")).await;
    world.refresh().await;
    let picture = world.picture();
    assert!(picture.contains("● frozen") && !picture.contains("letters"), "{picture}");
    world.type_in(" ").await;
    assert!(world.picture().contains("● live") && world.picture().contains("letters"));
}

#[tokio::test]
async fn rates_are_differences_between_snapshots() {
    let mut world = World::new().await;
    world.refresh().await;
    assert_eq!(cells(&world.line("\nsucceeded"))[1], "–", "one snapshot has no rates");
    let done = |_: Context| async { Ok(None) };
    let worker = Worker::builder(world.punctual.clone()).handler("noop", done).manual().unwrap();
    for _ in 0..5 {
        world.enqueue(Draft::new("noop", &json!(1))).await;
        worker.run_one().await.unwrap();
    }
    world.die("pay", "broken").await;
    world.refresh().await;
    let steps = |flow| world.state.rates.steps(flow, 9)[0].unwrap();
    let [enqueued, succeeded, failed] =
        [super::rates::Flow::Enqueued, super::rates::Flow::Succeeded, super::rates::Flow::Failed].map(steps);
    assert!((enqueued / failed - 6.0).abs() < 1e-6, "{enqueued} {failed}");
    assert!((succeeded / failed - 5.0).abs() < 1e-6, "{succeeded} {failed}");
    assert!(world.line("\nsucceeded").contains("█  peak "), "{}", world.picture());
}

#[tokio::test]
async fn every_size_from_the_smallest_on_has_its_picture() {
    let mut world = World::new().await;
    for queue in ["bulk", "mail", "media"] {
        world.enqueue(Draft::new("send", &json!(1)).queue(queue)).await;
    }
    world.start("media").await;
    world.die("pay", "no such account").await;
    world.refresh().await;
    world.size = (59, 16);
    assert!(world.picture().contains("this needs 60 and 16"));
    for size in [(60, 16), (80, 24), (120, 30), (200, 60), (500, 200)] {
        world.size = size;
        let picture = world.picture();
        for part in ["● live", "● cancelled", "oldest queued", "bulk", "● on", "OLDEST", "? help"] {
            assert!(picture.contains(part), "{size:?}: {part} in\n{picture}");
        }
        let all = picture.contains("doomed") && picture.contains("PROGRESS");
        assert_eq!(all, size.1 > 24, "{size:?}: all three tables where there is room\n{picture}");
        world.type_in("?").await;
        assert!(world.picture().contains("q, Ctrl-C"), "{size:?}");
        world.type_in("?").await;
    }
}

#[tokio::test]
async fn a_long_table_scrolls_with_the_selection_and_shows_the_number_of_rows() {
    let mut world = World::new().await;
    for number in 0..40 {
        world.enqueue(Draft::new("send", &json!(1)).queue(format!("q{number:02}"))).await;
    }
    world.size = (80, 20);
    world.refresh().await;
    assert!(world.picture().contains("q00") && !world.picture().contains("q39"));
    assert!(world.picture().contains("1–10 of 40"), "{}", world.picture());
    world.press(KeyCode::PageDown).await;
    assert!(world.picture().contains("q10") && !world.picture().contains("\nq00"));
    world.type_in("G").await;
    assert!(world.picture().contains("q39") && world.picture().contains("31–40 of 40"));
    world.type_in("k").await;
    assert!(world.picture().contains("31–40 of 40"), "the visible rows do not move");
    world.type_in("g").await;
    assert!(world.picture().contains("1–10 of 40"));
}

#[tokio::test]
async fn a_snapshot_reads_no_more_than_the_first_jobs() {
    let mut world = World::new().await;
    let drafts = (0..JOBS_MAX + 5).map(|n| Draft::new("send", &json!(n)).queue("mail"));
    world.punctual.enqueue_all(drafts.collect::<Vec<_>>()).await.unwrap();
    for _ in 0..JOBS_MAX + 5 {
        world.start("mail").await;
    }
    world.refresh().await;
    world.type_in("2").await;
    assert_eq!(world.state.jobs(super::state::Panel::Running).len(), JOBS_MAX);
    assert!(world.picture().contains("of the first 100"), "{}", world.picture());
    assert!(world.line("running").contains("running 105"), "the count is of all");
}

#[tokio::test]
async fn q_and_control_c_leave_from_everywhere() {
    let mut world = World::new().await;
    world.die("pay", "no such account").await;
    world.refresh().await;
    assert!(world.press(KeyCode::Char('q')).await);
    world.type_in("3").await;
    world.press(KeyCode::Enter).await;
    assert!(world.press(KeyCode::Char('q')).await);
    world.type_in("c").await;
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(keys::press(&mut world.state, control_c), Some(Effect::Leave));
}
