'use strict';

// Run jobs of Punctual in Node: docs/programs.md says how.
//
//     const { handler } = require('./punctual.js');
//
//     handler(async (job) => ({ pixels: job.payload.width * job.payload.height }));
//
// Run without Punctual, `handler` only returns its function, so that it can be exported and tested.

const fs = require('node:fs');
const util = require('node:util');

const LEVELS = ['debug', 'info', 'warn', 'error'];
const STDOUT = 1;
const NEWLINE = 0x0a;
// With the flag `u`, this finds only surrogates that are not one of a pair.
const LONE_SURROGATES = /\p{Surrogate}/gu;

/** The attempt failed, and trying again would not help. */
class Fail extends Error {}

/** The attempt failed; the next one starts after so many seconds, while attempts remain. */
class Retry extends Error {
  constructor(seconds, message = `asked for another attempt in ${seconds} s`) {
    super(message);
    this.seconds = seconds;
  }
}

/** Not now: run the job again after so many seconds, or when its handler's settings say. This spends no attempt. */
class Snooze extends Error {
  constructor(seconds) {
    super();
    this.seconds = seconds;
  }
}

/** What there is to do, and ways to tell how it goes. */
class Job {
  #ended = false;

  constructor(facts) {
    this.id = facts.id;
    this.name = facts.name;
    this.queue = facts.queue;
    this.attempt = facts.attempt;
    this.maxAttempts = facts.max_attempts;
    this.userId = facts.user_id ?? null;
    this.correlationId = facts.correlation_id ?? null;
    this.traceparent = facts.traceparent ?? null;
    this.tracestate = facts.tracestate ?? null;
    this.payload = facts.payload;
    this.parents = facts.parents ?? {};
  }

  /** Tell how far the job is, from 0 to 100. */
  progress(percent, message) {
    this.#send({ punctual: 'progress', percent, message: message == null ? undefined : asText(message) });
  }

  /** Write a line to the log of the attempt. */
  log(message, level = 'info') {
    if (!LEVELS.includes(level)) {
      throw new RangeError(`unknown level ${util.inspect(level)}: expected ${LEVELS.join(', ')}`);
    }
    this.#send({ punctual: 'log', level, message: asText(message) });
  }

  /** Hold the job for so long from now, beyond what the worker does by itself. */
  extend(seconds) {
    this.#send({ punctual: 'extend', seconds });
  }

  /** Send a user a notification: anything that JSON can say. */
  notify(user, message) {
    this.#send({ punctual: 'notify', user, message: message ?? null });
  }

  /** Send everybody a notification. */
  broadcast(message) {
    this.#send({ punctual: 'broadcast', message: message ?? null });
  }

  /** The last message of a job. It is no method, since a handler has no use for it: what it returns or throws is the end. */
  static end(job, message) {
    job.#write(asLastLine(message));
    job.#ended = true;
  }

  #send(message) {
    this.#write(asLine(message));
  }

  #write(line) {
    // What is said after the end of a job would be taken for the next one's.
    if (!this.#ended) {
      writeAll(line);
    }
  }
}

/** The job that runs now, if one does. */
let current = null;
let serving = false;

/** Serve jobs with this function if Punctual started the program; leave it alone otherwise. */
function handler(fn) {
  const protocol = process.env.PUNCTUAL_PROTOCOL;
  if (protocol) {
    if (serving) {
      throw new Error('handler was called twice: a program has one');
    }
    serving = true;
    serve(fn, protocol);
  }
  return fn;
}

async function serve(fn, protocol) {
  const servers = { once: serveOne, pool: serveMany };
  if (!Object.hasOwn(servers, protocol)) {
    throw new Error(`PUNCTUAL_PROTOCOL is '${protocol}', which this punctual.js does not know`);
  }
  process.stdout.write = process.stderr.write.bind(process.stderr);
  watch(protocol);
  await servers[protocol](fn);
  // Timers and connections that the handler left open would keep the process alive.
  process.exit();
}

async function serveOne(fn) {
  const chunks = [];
  for await (const chunk of process.stdin) {
    chunks.push(chunk);
  }
  await run(fn, new Job(factsOfEnvironment(Buffer.concat(chunks))));
}

async function serveMany(fn) {
  for await (const line of linesOf(process.stdin)) {
    await run(fn, new Job(JSON.parse(line)));
  }
}

async function run(fn, job) {
  current = job;
  end(await outcome(fn, job));
}

/** Run the job, and return the message that ends it. */
async function outcome(fn, job) {
  try {
    return { punctual: 'done', result: await fn(job) };
  } catch (error) {
    return endingOf(error);
  }
}

function end(message) {
  const job = current;
  current = null;
  Job.end(job, message);
}

/** The message for what a handler threw. */
function endingOf(error) {
  if (error instanceof Snooze) {
    return { punctual: 'snooze', seconds: error.seconds };
  }
  trace(error);
  if (error instanceof Fail) {
    return failure(error.message || 'Fail', false);
  }
  if (error instanceof Retry) {
    return failure(error.message, error.seconds);
  }
  return failure(error instanceof Error ? String(error) : `the handler threw ${util.inspect(error)}`);
}

function trace(error) {
  process.stderr.write(`${util.inspect(error)}\n`);
}

function failure(error, retry = true) {
  return { punctual: 'fail', error: asText(error), retry };
}

/** Sees to it that a job has an end where its handler neither returns nor throws. */
function watch(protocol) {
  const pool = protocol === 'pool';
  process.on('uncaughtException', (error) => {
    if (!current) {
      trace(error);
      process.exit(1);
    }
    end(endingOf(error));
    // Nobody knows what state a pool's process is in now; that of a single job has said all.
    process.exit(pool ? 1 : 0);
  });
  process.on('beforeExit', () => {
    if (current) {
      end(failure('the handler waits for something that can no longer happen'));
    }
  });
  process.on('exit', (code) => {
    // The exit code of a process that runs one job speaks for itself.
    if (current && pool) {
      end(failure(`the handler called exit with code ${code}`));
    }
  });
}

/** The line of a message that ends a job, or that of a failure which says why it cannot be written. */
function asLastLine(message) {
  try {
    return asLine(message);
  } catch (error) {
    return asLine(failure(`what the handler returned cannot be written as JSON: ${error.message}`, false));
  }
}

function asLine(message) {
  return Buffer.from(`${JSON.stringify(message, strictly)}\n`);
}

/** Refuses what JSON.stringify would change in silence, or write so that other readers of JSON refuse it. */
function strictly(key, value) {
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new TypeError(`${value} is no number of JSON`);
  }
  if (typeof value === 'function' || typeof value === 'symbol') {
    throw new TypeError(`a ${typeof value} has no form in JSON`);
  }
  for (const text of [key, value]) {
    if (typeof text === 'string' && text.search(LONE_SURROGATES) >= 0) {
      throw new TypeError('a text has half of a surrogate pair');
    }
  }
  return value;
}

/** Text for people, which may not fail for a character that UTF-8 does not have. */
function asText(value) {
  return (typeof value === 'string' ? value : util.inspect(value)).replace(LONE_SURROGATES, '\ufffd');
}

/** What a pool's line says of a job, for a process that runs one job. */
function factsOfEnvironment(payload) {
  const { env } = process;
  return {
    id: env.PUNCTUAL_JOB_ID,
    name: env.PUNCTUAL_JOB_NAME,
    queue: env.PUNCTUAL_QUEUE,
    attempt: Number(env.PUNCTUAL_ATTEMPT ?? 1),
    max_attempts: Number(env.PUNCTUAL_MAX_ATTEMPTS ?? 1),
    user_id: env.PUNCTUAL_USER_ID,
    correlation_id: env.PUNCTUAL_CORRELATION_ID,
    traceparent: env.TRACEPARENT,
    tracestate: env.TRACESTATE,
    payload: JSON.parse(payload),
    parents: parentsOf(env.PUNCTUAL_PARENT_RESULTS),
  };
}

function parentsOf(path) {
  return path ? JSON.parse(fs.readFileSync(path)) : {};
}

/** The lines of a stream, split at newlines only: newer versions of readline also split at U+2028, which JSON may contain as it is. */
async function* linesOf(stream) {
  let parts = [];
  for await (const chunk of stream) {
    let start = 0;
    for (let stop; (stop = chunk.indexOf(NEWLINE, start)) >= 0; start = stop + 1) {
      parts.push(chunk.subarray(start, stop));
      yield Buffer.concat(parts);
      parts = [];
    }
    parts.push(chunk.subarray(start));
  }
  const rest = Buffer.concat(parts);
  if (rest.length > 0) {
    yield rest;
  }
}

function writeAll(line) {
  for (let rest = line; rest.length > 0;) {
    rest = rest.subarray(writeSome(rest));
  }
}

/** Node makes pipes non-blocking, so that a full one has to be waited for. */
function writeSome(bytes) {
  try {
    return fs.writeSync(STDOUT, bytes);
  } catch (error) {
    if (error.code !== 'EAGAIN') {
      throw error;
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    return 0;
  }
}

module.exports = { handler, Fail, Retry, Snooze };
