"""Run jobs of Punctual in Python; documented in docs/programs.md.

    from punctual import handler

    @handler
    def resize(job):
        return {"pixels": job.payload["width"] * job.payload["height"]}

The decorator starts to serve jobs at once, so the function must be the last one in its file. If the file is imported, or
run without Punctual, the function is returned unchanged.
"""

import asyncio
import inspect
import json
import os
import sys
import threading
import traceback

__all__ = ["Fail", "Job", "Retry", "Snooze", "handler"]

LEVELS = ("debug", "info", "warn", "error")


class Fail(Exception):
    """Permanent failure: the job is not retried."""


class Retry(Exception):
    """The attempt failed; the next attempt starts after `seconds`, if attempts are left."""

    def __init__(self, seconds, message=None):
        super().__init__(message or f"retry requested in {seconds} s")
        self.seconds = seconds


class Snooze(Exception):
    """Run the job again after `seconds`, or after the delay in the settings of its handler. The attempt does not count."""

    def __init__(self, seconds=None):
        super().__init__(seconds)
        self.seconds = seconds


class Job:
    """A job, and methods to report its progress. The methods are thread-safe."""

    def __init__(self, fields, write):
        self.id = fields.get("id")
        self.name = fields.get("name")
        self.queue = fields.get("queue")
        self.attempt = fields.get("attempt")
        self.max_attempts = fields.get("max_attempts")
        self.user_id = fields.get("user_id")
        self.correlation_id = fields.get("correlation_id")
        self.traceparent = fields.get("traceparent")
        self.tracestate = fields.get("tracestate")
        self.payload = fields.get("payload")
        self.parents = fields.get("parents") or {}
        self._write = write
        self._lock = threading.Lock()
        self._ended = False

    def progress(self, percent, message=None):
        """Report the progress in percent, 0 to 100."""
        text = None if message is None else as_text(message)
        self._send(message_of("progress", percent=percent, message=text))

    def log(self, message, level="info"):
        """Write a line to the log of the attempt."""
        if level not in LEVELS:
            raise ValueError(f"unknown level {level!r}: expected {', '.join(LEVELS)}")
        self._send(message_of("log", level=level, message=as_text(message)))

    def extend(self, seconds):
        """Extend the lease to `seconds` from now; the worker also extends it by itself."""
        self._send(message_of("extend", seconds=seconds))

    def notify(self, user, message):
        """Send a notification, any JSON value, to a user."""
        self._send({"punctual": "notify", "user": user, "message": message})

    def broadcast(self, message):
        """Send a notification to all users."""
        self._send({"punctual": "broadcast", "message": message})

    def _send(self, message, last=False):
        line = as_line(message)
        with self._lock:
            # A message that a thread sends after the end of its job would be mistaken for a message of the next job.
            if not self._ended:
                self._ended = last
                self._write(line)

    def _end(self, message):
        # Printed output must precede the last message.
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            self._send(message, last=True)
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"the result cannot be written as JSON: {error}"
            self._send(failure(problem, retry=False), last=True)


def handler(function):
    """Serve jobs with this function if its file is the program that Punctual started; otherwise return it unchanged."""
    protocol = os.environ.get("PUNCTUAL_PROTOCOL")
    if protocol and getattr(function, "__module__", None) == "__main__":
        sys.exit(serve(function, protocol))
    return function


def serve(function, protocol):
    """Run all jobs that arrive, and return the exit code."""
    servers = {"once": serve_one, "pool": serve_many}
    if protocol not in servers:
        return f"unknown PUNCTUAL_PROTOCOL {protocol!r}: expected {', '.join(servers)}"
    source, write = take_channels()
    try:
        servers[protocol](function, source, write)
    except KeyboardInterrupt:
        return 130
    return 0


def serve_one(function, source, write):
    job = Job(job_from_environment(source.read()), write)
    job._end(outcome(function, job))


def serve_many(function, source, write):
    for line in source:
        job = Job(json.loads(line), write)
        try:
            ending = outcome(function, job)
        except SystemExit as exit_request:
            # Only this job has failed; the process can run the next one.
            ending = failure(f"the handler called exit with code {exit_request.code or 0}")
        job._end(ending)


def outcome(function, job):
    """Run the job, and return the message that ends it."""
    try:
        result = function(job)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        return message_of("done", result=result)
    except Snooze as snooze:
        return message_of("snooze", seconds=snooze.seconds)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # For example asyncio.CancelledError, which is not an Exception.
        traceback.print_exc()
        return failure_of(error)


def failure_of(error):
    if isinstance(error, Fail):
        return failure(str(error) or "Fail", retry=False)
    if isinstance(error, Retry):
        return failure(str(error), retry=error.seconds)
    name, text = type(error).__name__, str(error)
    return failure(f"{name}: {text}" if text else name)


def failure(error, retry=True):
    return message_of("fail", error=as_text(error), retry=retry)


def message_of(kind, **fields):
    """A message without the fields that are None."""
    return {"punctual": kind, **{name: value for name, value in fields.items() if value is not None}}


def as_line(message):
    """A message as one line of UTF-8. Lone surrogates and NaN are refused: they are not valid JSON."""
    return json.dumps(message, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def as_text(value):
    """Text for display. Characters that UTF-8 cannot encode, for example in file names, are escaped."""
    return str(value).encode(errors="backslashreplace").decode()


def job_from_environment(payload):
    """The fields of a job from the environment, for a process that runs one job. A pool receives them as a JSON line."""
    env = os.environ
    return {
        "id": env.get("PUNCTUAL_JOB_ID"),
        "name": env.get("PUNCTUAL_JOB_NAME"),
        "queue": env.get("PUNCTUAL_QUEUE"),
        "attempt": int(env.get("PUNCTUAL_ATTEMPT", "1")),
        "max_attempts": int(env.get("PUNCTUAL_MAX_ATTEMPTS", "1")),
        "user_id": env.get("PUNCTUAL_USER_ID"),
        "correlation_id": env.get("PUNCTUAL_CORRELATION_ID"),
        "traceparent": env.get("TRACEPARENT"),
        "tracestate": env.get("TRACESTATE"),
        "payload": json.loads(payload),
        "parents": parents_of(env.get("PUNCTUAL_PARENT_RESULTS")),
    }


def parents_of(path):
    if not path:
        return {}
    with open(path, "rb") as file:
        return json.load(file)


def take_channels():
    """Keep standard input and output for the protocol; other code gets an empty input, and the log as its output.

    The descriptors themselves are replaced, so that this also applies to C libraries and child processes.
    """
    source, target = os.fdopen(os.dup(0), "rb"), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    for stream in (sys.__stdout__, sys.__stderr__):
        # The log is UTF-8 whatever the locale, and is flushed after each line.
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    return source, lambda line: write_all(target, line)


def write_all(target, line):
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(target, rest):]
