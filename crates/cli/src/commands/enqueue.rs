//! `punctual enqueue`: one job, or one per line of a file.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};
use punctual::{
    Enqueued, Json, ParentResults, Status,
    core::{limits, spec::DEFAULT_QUEUE, time::When},
    input::{JobInput, UniqueInput},
};

use crate::{
    administer::Administer,
    args::{Cli, Enqueue},
    commands::file_defaults,
    config::{Config, parse_json},
    exit::Usage,
    output::{print_json, progress_bar},
    target,
};

/// Maximum wait of `--wait`.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Maximum bytes of the lines in a batch: a server accepts twice as many.
const BATCH_MAX_BYTES: usize = 16 << 20;

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Enqueue) -> Result<()> {
    match &args.file {
        Some(path) => many(cli, config, path, input(args)?).await,
        None => one(cli, config, args).await,
    }
}

/// The scope of the unique key, if any option specifies it.
fn unique(args: &Enqueue) -> Option<UniqueInput> {
    let line = UniqueInput {
        by: args.unique_by.clone(),
        any_name: args.unique_any_name,
        per_queue: args.unique_per_queue,
        period: args.unique_for,
        states: args.unique_in.clone(),
        on_conflict: args.on_conflict.iter().copied().map(Into::into).collect(),
    };
    let is_plain = line.by.is_empty()
        && !(line.any_name || line.per_queue)
        && line.period.is_none()
        && line.states.is_empty()
        && line.on_conflict.is_empty();
    (!is_plain).then_some(line)
}

/// The job that the options describe; with `--file`, the defaults of its lines.
fn input(args: &Enqueue) -> Result<JobInput> {
    let payload: Option<Json> = args.payload.as_deref().map(|text| parse_json("payload", text)).transpose()?;
    Ok(JobInput {
        name: args.name.clone().unwrap_or_default(),
        payload,
        queue: args.queue.clone(),
        priority: args.options.priority,
        delay: args.delay,
        at: args.at.map(When),
        key: args.key.clone(),
        unique: unique(args),
        concurrency_key: args.concurrency_key.clone(),
        user: args.user.clone(),
        tags: args.tag.clone(),
        correlation: args.correlation.clone(),
        trace: None,
        description: args.description.clone(),
        metadata: args.metadata.as_deref().map(|text| parse_json("metadata", text)).transpose()?,
        log_level: args.log_level,
        max_attempts: args.options.max_attempts,
        max_crashes: args.max_crashes,
        timeout: args.options.timeout,
        retry: args.options.retry.clone(),
        keep_for: args.options.keep_for,
        ephemeral: args.ephemeral,
        after: args.after.iter().map(ToString::to_string).collect(),
        on_parent_failure: args.on_parent_failure,
        parent_results: ParentResults::default(),
    })
}

async fn one(cli: &Cli, config: &Config, args: &Enqueue) -> Result<()> {
    let job = input(args)?;
    job.clone().draft()?.check()?;
    let admin = &*target::administer(cli, config).await?;
    let enqueued = admin.enqueue(job.clone()).await?;
    if cli.json && !args.wait {
        return print_json(&enqueued);
    }
    if !cli.json {
        println!("{}", enqueued.id);
        if enqueued.updated {
            eprintln!("already enqueued; updated");
        } else if enqueued.existing {
            eprintln!("already enqueued");
        }
        if !enqueued.existing {
            warn_without_worker(admin, &job).await;
        }
    }
    if !args.wait {
        return Ok(());
    }
    let done = admin.wait(enqueued.id, WAIT_MAX).await?;
    if cli.json {
        print_json(&done.job)?;
    } else if let Some(result) = &done.result {
        println!("{result}");
    }
    if done.job.status != Status::Succeeded {
        let why = done.job.error.map(|fault| format!(": {fault}")).unwrap_or_default();
        anyhow::bail!("{} is {}{why}", done.job.id, done.job.status);
    }
    Ok(())
}

/// Warns if no live worker has a handler for the job. The job is accepted anyway, since such a worker may start later.
/// A token that may only enqueue cannot know.
async fn warn_without_worker(admin: &dyn Administer, job: &JobInput) {
    let Ok(workers) = admin.workers().await else { return };
    let (now, queue) = (admin.now(), job.queue.as_deref().unwrap_or(DEFAULT_QUEUE));
    let mut live = workers.iter().filter(|worker| punctual::admin::is_live(worker, now)).peekable();
    if live.peek().is_some() && !live.any(|worker| worker.runs(queue, &job.name)) {
        eprintln!("note: no live worker handles `{}` in the queue `{queue}`", job.name);
    }
}

/// Enqueues the jobs of a file. All lines are checked before the first is stored, so that an invalid line stores
/// nothing.
async fn many(cli: &Cli, config: &Config, path: &Path, defaults: JobInput) -> Result<()> {
    let batches = batches(read_lines(path)?, &defaults)?;
    let admin = target::administer(cli, config).await?;
    let bar = progress_bar(cli.json);
    bar.set_length(batches.iter().map(Vec::len).sum::<usize>() as u64);
    bar.set_message("enqueued");
    let (mut ids, mut all) = (Some(std::io::BufWriter::new(std::io::stdout())), Vec::new());
    for batch in batches {
        let enqueued = admin.enqueue_all(batch).await?;
        bar.inc(enqueued.len() as u64);
        if cli.json {
            all.extend(enqueued);
            continue;
        }
        // All jobs are enqueued, also after the reader of the ids, such as `head`, has left.
        let written = ids.as_mut().map_or(Ok(()), |out| write_ids(out, &enqueued));
        ids = if is_open(written)? { ids } else { None };
    }
    bar.finish_and_clear();
    is_open(ids.as_mut().map_or(Ok(()), Write::flush))?;
    if cli.json { print_json(&serde_json::json!({ "jobs": all })) } else { Ok(()) }
}

/// Checks the lines and divides them into batches; fields that a line does not have are those of `defaults`.
fn batches(lines: Vec<(usize, String)>, defaults: &JobInput) -> Result<Vec<Vec<JobInput>>> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (number, text) in lines {
        let line = file_defaults::parse(&text, defaults)
            .map_err(|problem| Usage(format!("line {number}, {problem}; nothing was enqueued")))?;
        let refused = || format!("line {number}; nothing was enqueued");
        line.clone().draft().and_then(|draft| draft.check()).with_context(refused)?;
        if batch.len() == limits::BATCH_MAX_JOBS || bytes > BATCH_MAX_BYTES {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += text.len();
        batch.push(line);
    }
    batches.push(batch);
    Ok(batches.into_iter().filter(|batch| !batch.is_empty()).collect())
}

fn write_ids(out: &mut impl Write, enqueued: &[Enqueued]) -> std::io::Result<()> {
    enqueued.iter().try_for_each(|one| writeln!(out, "{}", one.id))
}

/// Whether the reader of the output is there.
fn is_open(written: std::io::Result<()>) -> Result<bool> {
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("cannot write to standard output"),
    }
}

fn read_lines(path: &Path) -> Result<Vec<(usize, String)>> {
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        let cannot = |error| Usage(format!("cannot read {}: {error}", path.display()));
        Box::new(std::fs::File::open(path).map_err(cannot)?)
    };
    let mut lines = Vec::new();
    for (index, line) in BufReader::new(input).lines().enumerate() {
        let line = line.map_err(|error| Usage(format!("line {}: {error}; nothing was enqueued", index + 1)))?;
        if !line.trim().is_empty() {
            lines.push((index + 1, line));
        }
    }
    Ok(lines)
}
