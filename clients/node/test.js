'use strict';

// Tests of punctual.js that need no Punctual: they start small handlers as a worker would, and check their messages.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');
const { test } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');

const MEGABYTE = 1 << 20;
const CLIENT = path.join(__dirname, 'punctual.js');
const FIELDS = `handler((job) => [job.id, job.name, job.queue, job.attempt, job.maxAttempts, job.userId, job.correlationId,
  job.payload, job.parents]);`;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'punctual-node-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true }));

let programs = 0;

/** Starts a program with this body, after the import of everything that punctual.js exports. */
function start(protocol, body, variables = {}) {
  const file = path.join(folder, `program-${(programs += 1)}.js`);
  fs.writeFileSync(file, `const { handler, Fail, Retry, Snooze } = require(${JSON.stringify(CLIENT)});\n${body}`);
  const env = { PATH: process.env.PATH, ...variables };
  if (protocol) {
    env.PUNCTUAL_PROTOCOL = protocol;
  }
  return spawn(process.execPath, [file], { env, timeout: 60_000 });
}

/** Gives a program all of its input, and waits for its end. */
async function finish(program, data) {
  const ended = new Promise((resolve) => program.on('close', (code) => resolve(code)));
  // A program that does not read its input may close the pipe.
  program.stdin.on('error', () => {});
  program.stdin.end(data);
  const [stdout, log, code] = await Promise.all([textOf(program.stdout), textOf(program.stderr), ended]);
  // Each line has to be a message; anything else is an error of its own here.
  return { code, log, messages: stdout.split('\n').slice(0, -1).map((line) => JSON.parse(line)) };
}

async function textOf(stream) {
  const chunks = [];
  for await (const chunk of stream) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function once(body, payload = null, variables = {}) {
  return finish(start('once', body, variables), JSON.stringify(payload));
}

function pool(body, ...payloads) {
  return finish(start('pool', body), payloads.map((payload) => jobLine(payload)).join(''));
}

function jobLine(payload, fields = {}) {
  const job = {
    punctual: 'job', id: 'job_1', name: 'test', queue: 'default', attempt: 1, max_attempts: 3, timeout_ms: 300000,
    user_id: null, correlation_id: null, payload, parents: {}, ...fields,
  };
  return `${JSON.stringify(job)}\n`;
}

function assertEnds(ended, message, code = 0) {
  assert.deepEqual({ messages: ended.messages, code: ended.code }, { messages: [message], code }, ended.log);
}

test('the example of the documentation', async () => {
  const body = 'handler(async (job) => ({ pixels: job.payload.width * job.payload.height }));';
  const ended = await once(body, { width: 6, height: 7 });
  assertEnds(ended, { punctual: 'done', result: { pixels: 42 } });
  assert.equal(ended.log, '');
});

test('a handler need not be async', async () => {
  assertEnds(await once('handler((job) => job.payload + 1);', 1), { punctual: 'done', result: 2 });
});

test('the trace is known', async () => {
  const body = 'handler((job) => [job.traceparent, job.tracestate]);';
  const done = { punctual: 'done', result: ['p', 's'] };
  assertEnds(await once(body, null, { TRACEPARENT: 'p', TRACESTATE: 's' }), done);
  assertEnds(await finish(start('pool', body), jobLine(null, { traceparent: 'p', tracestate: 's' })), done);
});

test('no result', async () => {
  assertEnds(await once('handler(() => {});'), { punctual: 'done' });
});

test('a falsy result is a result', async () => {
  for (const result of [0, false, '', [], null]) {
    assertEnds(await once(`handler(() => (${JSON.stringify(result)}));`), { punctual: 'done', result });
  }
});

test('an exception fails with its text and leaves its trace in the log', async () => {
  for (const body of ["handler(() => { throw new TypeError('bad'); });", "handler(async () => { throw new TypeError('bad'); });"]) {
    const ended = await once(body);
    assertEnds(ended, { punctual: 'fail', error: 'TypeError: bad', retry: true });
    assert.match(ended.log, /TypeError: bad\n +at .*program-/);
  }
});

test('a thrown value that is not an Error', async () => {
  assertEnds(await once("handler(() => { throw { a: 1 }; });"), { punctual: 'fail', error: 'the handler threw { a: 1 }', retry: true });
});

test('Fail', async () => {
  const ended = await once("handler(() => { throw new Fail('no such image'); });");
  assertEnds(ended, { punctual: 'fail', error: 'no such image', retry: false });
});

test('Retry', async () => {
  const ended = await once("handler(() => { throw new Retry(90, 'the server is busy'); });");
  assertEnds(ended, { punctual: 'fail', error: 'the server is busy', retry: 90 });
  const withoutMessage = await once('handler(() => { throw new Retry(1.5); });');
  assertEnds(withoutMessage, { punctual: 'fail', error: 'retry requested in 1.5 s', retry: 1.5 });
});

test('Snooze', async () => {
  assertEnds(await once('handler(() => { throw new Snooze(60); });'), { punctual: 'snooze', seconds: 60 });
  const ended = await once('handler(() => { throw new Snooze(); });');
  assertEnds(ended, { punctual: 'snooze' });
  assert.equal(ended.log, '');
});

test('printed output goes to the log', async () => {
  const ended = await once(`
    handler(() => {
      console.log('{"punctual": "done", "result": "forged"}');
      console.error('error');
      process.stdout.write('no newline');
    });
  `);
  assertEnds(ended, { punctual: 'done' });
  assert.equal(ended.log, '{"punctual": "done", "result": "forged"}\nerror\nno newline');
});

test('messages', async () => {
  const ended = await once(`
    handler((job) => {
      job.progress(40, 'halfway');
      job.progress(62.5);
      job.log('plain');
      job.log('two\\nlines', 'warn');
      job.log({ a: 1 }, 'debug');
      job.extend(60);
      job.notify('ada', { done: 1 });
      job.notify('ada');
      job.broadcast(['to', 'all']);
    });
  `);
  assert.deepEqual(ended.messages, [
    { punctual: 'progress', percent: 40, message: 'halfway' },
    { punctual: 'progress', percent: 62.5 },
    { punctual: 'log', level: 'info', message: 'plain' },
    { punctual: 'log', level: 'warn', message: 'two\nlines' },
    { punctual: 'log', level: 'debug', message: '{ a: 1 }' },
    { punctual: 'extend', seconds: 60 },
    { punctual: 'notify', user: 'ada', message: { done: 1 } },
    { punctual: 'notify', user: 'ada', message: null },
    { punctual: 'broadcast', message: ['to', 'all'] },
    { punctual: 'done' },
  ]);
});

test('a level that does not exist', async () => {
  const ended = await once("handler((job) => job.log('x', 'warning'));");
  const error = "RangeError: unknown level 'warning': expected debug, info, warn, error";
  assertEnds(ended, { punctual: 'fail', error, retry: true });
});

test('the fields of the job, in a process of its own', async () => {
  const parents = path.join(folder, 'parents.json');
  fs.writeFileSync(parents, '{"job_0": 5, "first": 5}');
  const ended = await once(FIELDS, { a: 1 }, {
    PUNCTUAL_JOB_ID: 'job_1', PUNCTUAL_JOB_NAME: 'test', PUNCTUAL_QUEUE: 'slow', PUNCTUAL_ATTEMPT: '2', PUNCTUAL_MAX_ATTEMPTS: '3',
    PUNCTUAL_USER_ID: 'ada', PUNCTUAL_CORRELATION_ID: 'order-7', PUNCTUAL_PARENT_RESULTS: parents,
  });
  const result = ['job_1', 'test', 'slow', 2, 3, 'ada', 'order-7', { a: 1 }, { job_0: 5, first: 5 }];
  assertEnds(ended, { punctual: 'done', result });
});

test('the fields of the job, in a pool', async () => {
  const line = jobLine({ a: 1 }, { id: 'job_9', attempt: 2, user_id: 'ada', parents: { first: 5 } });
  const ended = await finish(start('pool', FIELDS), line);
  assertEnds(ended, { punctual: 'done', result: ['job_9', 'test', 'default', 2, 3, 'ada', null, { a: 1 }, { first: 5 }] });
});

test('unicode and a megabyte, in a process of its own', async () => {
  for (const text of ['Grüße, 世界, \u{1f600}, \u2028, \u0000', 'é'.repeat(MEGABYTE)]) {
    const ended = await once("handler((job) => { console.log('grüßt'); return job.payload; });", text);
    assertEnds(ended, { punctual: 'done', result: text });
    assert.equal(ended.log, 'grüßt\n');
  }
});

test('unicode and a megabyte, in a pool', async () => {
  const texts = ['Grüße, 世界, \u{1f600}, \u2028, \u0085', 'é'.repeat(MEGABYTE), 'ß'];
  const ended = await pool('handler((job) => job.payload);', ...texts);
  assert.deepEqual(ended.messages.map((message) => message.result), texts);
});

test('a character that UTF-8 cannot encode', async () => {
  const ended = await once("handler((job) => { job.log('a\\udcffb'); throw new Error('c\\udcffd'); });");
  assert.deepEqual(ended.messages, [
    { punctual: 'log', level: 'info', message: 'a\ufffdb' },
    { punctual: 'fail', error: 'Error: c\ufffdd', retry: true },
  ]);
});

test('a result that is not JSON', async () => {
  for (const result of ['1n', 'NaN', '[-Infinity]', '() => 1', "{ a: '\\udcff' }", 'circular']) {
    const body = `const circular = []; circular.push(circular); handler(() => (${result}));`;
    const { messages: [message, ...more], code } = await once(body);
    assert.deepEqual([message.punctual, message.retry, more, code], ['fail', false, [], 0], result);
    assert.match(message.error, /^the result cannot be written as JSON: /);
  }
});

test('a slow reader receives complete lines', async () => {
  const program = start('once', "handler((job) => { for (let i = 0; i < 200; i += 1) job.log(`${i} ${'x'.repeat(5000)}`); });");
  program.stdin.end('null');
  // Long enough for the pipe to be full, so that the program has to wait.
  await sleep(300);
  const ended = await finish(program);
  assert.deepEqual(ended.messages.slice(0, -1).map((message) => parseInt(message.message, 10)), [...Array(200).keys()]);
});

test('an error outside of the handler fails the running job', async () => {
  const bodies = [
    "handler(() => new Promise(() => setTimeout(() => { throw new Error('late'); }, 1)));",
    "handler(() => new Promise(() => { Promise.reject(new Error('late')); setTimeout(() => {}, 60000); }));",
  ];
  for (const body of bodies) {
    const failure = { punctual: 'fail', error: 'Error: late', retry: true };
    const single = await once(body);
    assertEnds(single, failure);
    assert.match(single.log, /Error: late\n +at /);
    assertEnds(await pool(body, 1, 2), failure, 1);
  }
});

test('an error while there is no job ends the program', async () => {
  const program = start('pool', "handler(() => {}); setTimeout(() => { throw new Error('idle'); }, 1);");
  const [code, log] = await Promise.all([new Promise((resolve) => program.on('close', resolve)), textOf(program.stderr)]);
  assert.equal(code, 1);
  assert.match(log, /Error: idle\n +at /);
});

test('a promise that never settles fails the job', async () => {
  const failure = { punctual: 'fail', error: 'the handler never settled: the event loop is empty', retry: true };
  assertEnds(await once('handler(() => new Promise(() => {}));'), failure);
  assertEnds(await pool('handler(() => new Promise(() => {}));', 1), failure);
});

test('exit sets the exit code in a process of its own, and fails the job in a pool', async () => {
  const body = 'handler(() => process.exit(75));';
  const single = await once(body);
  assert.deepEqual([single.messages, single.code], [[], 75]);
  assertEnds(await pool(body, 1), { punctual: 'fail', error: 'the handler called exit with code 75', retry: true }, 75);
});

test('open timers do not keep the process alive', async () => {
  const body = 'handler(() => { setInterval(() => {}, 1000); return 1; });';
  assertEnds(await once(body), { punctual: 'done', result: 1 });
  assertEnds(await pool(body, 1), { punctual: 'done', result: 1 });
});

test('a payload that is not JSON ends the program', async () => {
  const ended = await finish(start('once', 'handler(() => {});'), '');
  assert.deepEqual([ended.messages, ended.code], [[], 1]);
  assert.match(ended.log, /SyntaxError/);
});

test('an unknown protocol is refused', async () => {
  const ended = await finish(start('telepathy', 'handler(() => {});'), '');
  assert.deepEqual([ended.messages, ended.code], [[], 1]);
  assert.match(ended.log, /unknown PUNCTUAL_PROTOCOL 'telepathy': expected once, pool/);
});

test('one job after the other in a pool, also after the end of the input', async () => {
  const ended = await pool(`
    const before = [];
    handler(async (job) => {
      before.push(job.payload);
      await new Promise((resolve) => setTimeout(resolve, 20));
      job.progress(50);
      if (job.payload === 2) throw new TypeError('two');
      if (job.payload === 3) throw new Snooze();
      return before;
    });
  `, 1, 2, 3, 4);
  const progress = { punctual: 'progress', percent: 50 };
  assert.deepEqual(ended.messages, [
    progress, { punctual: 'done', result: [1] },
    progress, { punctual: 'fail', error: 'TypeError: two', retry: true },
    progress, { punctual: 'snooze' },
    progress, { punctual: 'done', result: [1, 2, 3, 4] },
  ]);
  assert.equal(ended.code, 0);
});

test('each answer of a pool comes before the next job', async () => {
  const program = start('pool', "handler((job) => { console.log('printed'); return job.payload; });");
  const answers = readline.createInterface({ input: program.stdout })[Symbol.asyncIterator]();
  for (const payload of ['a', 'b']) {
    program.stdin.write(jobLine(payload));
    assert.deepEqual(JSON.parse((await answers.next()).value), { punctual: 'done', result: payload });
  }
  const ended = await finish(program);
  assert.deepEqual([ended.code, ended.log], [0, 'printed\nprinted\n']);
});

test('a result that is not JSON fails only its job', async () => {
  const ended = await pool("handler((job) => (job.payload ? 1n : 'fine'));", true, false);
  assert.deepEqual(ended.messages.map((message) => message.punctual), ['fail', 'done']);
});

test('messages after the end of a job are dropped', async () => {
  const ended = await pool(`
    let old = null;
    handler((job) => {
      old?.log('too late');
      old = job;
    });
  `, 1, 2);
  assert.deepEqual(ended.messages, [{ punctual: 'done' }, { punctual: 'done' }]);
});

test('the end of the input is the end of the pool', async () => {
  const ended = await pool('handler(() => {});');
  assert.deepEqual([ended.messages, ended.code, ended.log], [[], 0, '']);
});

test('SIGTERM ends a pool', async () => {
  const program = start('pool', "handler((job) => { job.log('asleep'); return new Promise((resolve) => setTimeout(resolve, 60000)); });");
  program.stdin.write(jobLine(1));
  program.stdout.once('data', () => program.kill('SIGTERM'));
  const signal = await new Promise((resolve) => program.on('exit', (code, name) => resolve(name)));
  assert.equal(signal, 'SIGTERM');
});

test('a second handler is refused', async () => {
  const ended = await finish(start('pool', 'handler(() => {}); handler(() => {});'), '');
  assert.equal(ended.code, 1);
  assert.match(ended.log, /handler was called twice/);
});

test('without Punctual the function is returned unchanged', async () => {
  const program = start(null, 'console.log(handler(() => 1)());');
  assert.equal(await textOf(program.stdout), '1\n');
});
