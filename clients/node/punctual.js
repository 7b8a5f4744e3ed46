'use strict';

// Run jobs of Punctual in Node; documented in docs/programs.md.
//
//     const { handler } = require('./punctual.js');
//
//     handler(async (job) => ({ pixels: job.payload.width * job.payload.height }));
//
// Without Punctual, `handler` returns the function unchanged, so that it can be exported and tested.

const fs = require('node:fs');
const util = require('node:util');

const LEVELS = ['debug', 'info', 'warn', 'error'];
const STDOUT = 1;
const NEWLINE = 0x0a;
// With the flag `u`, this finds only surrogates that are not one of a pair.
const LONE_SURROGATES = /\p{Surrogate}/gu;

/** Permanent failure: the job is not retried. */
class Fail extends Error {}

/** The attempt failed; the next attempt starts after `seconds`, if attempts are left. */
class Retry extends Error {
  constructor(seconds, message = `retry requested in ${seconds} s`) {
    super(message);
    this.seconds = seconds;
  }
}

/** Run the job again after `seconds`, or after the delay in the settings of its handler. The attempt does not count. */
class Snooze extends Error {
  constructor(seconds) {
    super();
    this.seconds = seconds;
  }
}

/** A job, and methods to report its progress. */
class Job {
  #ended = false;

  constructor(fields) {
    this.id = fields.id;
    this.name = fields.name;
    this.queue = fields.queue;
    this.attempt = fields.attempt;
    this.maxAttempts = fields.max_attempts;
    this.userId = fields.user_id ?? null;
    this.correlationId = fields.correlation_id ?? null;
    this.traceparent = fields.traceparent ?? null;
    this.tracestate = fields.tracestate ?? null;
    this.payload = fields.payload;
    this.parents = fields.parents ?? {};
  }

  /** Report the progress in percent, 0 to 100. */
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

  /** Extend the lease to `seconds` from now; the worker also extends it by itself. */
  extend(seconds) {
    this.#send({ punctual: 'extend', seconds });
  }

  /** Send a notification, any JSON value, to a user. */
  notify(user, message) {
    this.#send({ punctual: 'notify', user, message: message ?? null });
  }

  /** Send a notification to all users. */
  broadcast(message) {
    this.#send({ punctual: 'broadcast', message: message ?? null });
  }

  /** Sends the last message of a job. Not a method of the instance: a handler ends its job by returning or throwing. */
  static end(job, message) {
    job.#write(asLastLine(message));
    job.#ended = true;
  }

  #send(message) {
    this.#write(asLine(message));
  }

  #write(line) {
    // A message after the end of a job would be mistaken for a message of the next job.
    if (!this.#ended) {
      writeAll(line);
    }
  }
}

/** The job that runs now, or null. */
let current = null;
let serving = false;

/** Serve jobs with this function if Punctual started the program; otherwise return it unchanged. */
function handler(fn) {
  const protocol = process.env.PUNCTUAL_PROTOCOL;
  if (protocol) {
    if (serving) {
      throw new Error('handler was called twice; a program has one handler');
    }
    serving = true;
    serve(fn, protocol);
  }
  return fn;
}

async function serve(fn, protocol) {
  const servers = { once: serveOne, pool: serveMany };
  if (!Object.hasOwn(servers, protocol)) {
    throw new Error(`unknown PUNCTUAL_PROTOCOL '${protocol}': expected ${Object.keys(servers).join(', ')}`);
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
  await run(fn, new Job(jobFromEnvironment(Buffer.concat(chunks))));
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
    return endOf(error);
  }
}

function end(message) {
  const job = current;
  current = null;
  Job.end(job, message);
}

/** The message for what a handler threw. */
function endOf(error) {
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

/** Ends the job if its handler neither returns nor throws. */
function watch(protocol) {
  const pool = protocol === 'pool';
  process.on('uncaughtException', (error) => {
    if (!current) {
      trace(error);
      process.exit(1);
    }
    end(endOf(error));
    // The state of the process is unknown now, so a process of a pool must not run another job.
    process.exit(pool ? 1 : 0);
  });
  process.on('beforeExit', () => {
    if (current) {
      end(failure('the handler never settled: the event loop is empty'));
    }
  });
  process.on('exit', (code) => {
    // The worker reads the exit code of a process that runs one job.
    if (current && pool) {
      end(failure(`the handler called exit with code ${code}`));
    }
  });
}

/** The line of a message that ends a job; if the message cannot be written as JSON, that of a failure. */
function asLastLine(message) {
  try {
    return asLine(message);
  } catch (error) {
    return asLine(failure(`the result cannot be written as JSON: ${error.message}`, false));
  }
}

function asLine(message) {
  return Buffer.from(`${JSON.stringify(message, checkValue)}\n`);
}

/** Refuses values that JSON.stringify would drop or change, or write as invalid JSON. */
function checkValue(key, value) {
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new TypeError(`${value} is not a valid number in JSON`);
  }
  if (typeof value === 'function' || typeof value === 'symbol') {
    throw new TypeError(`a ${typeof value} cannot be written as JSON`);
  }
  for (const text of [key, value]) {
    if (typeof text === 'string' && text.search(LONE_SURROGATES) >= 0) {
      throw new TypeError('a string has half of a surrogate pair');
    }
  }
  return value;
}

/** Text for display. Characters that UTF-8 cannot encode are replaced. */
function asText(value) {
  return (typeof value === 'string' ? value : util.inspect(value)).replace(LONE_SURROGATES, '\ufffd');
}

/** The fields of a job from the environment, for a process that runs one job. A pool receives them as a JSON line. */
function jobFromEnvironment(payload) {
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

/** Pipes are non-blocking in Node: waits while the pipe is full. */
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
