"""Run jobs of Punctual in Python: docs/programs.md says how.

    from punctual import handler

    @handler
    def resize(job):
        return {"pixels": job.payload["width"] * job.payload["height"]}

The decorated function serves at once, so it comes last in its file. Imported, or run without Punctual, it stays a function.
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
    """The attempt failed, and trying again would not help."""


class Retry(Exception):
    """The attempt failed; the next one starts after so many seconds, while attempts remain."""

    def __init__(self, seconds, message=None):
        super().__init__(message or f"asked for another attempt in {seconds} s")
        self.seconds = seconds


class Snooze(Exception):
    """Not now: run the job again after so many seconds, or when its handler's settings say. This spends no attempt."""

    def __init__(self, seconds=None):
        super().__init__(seconds)
        self.seconds = seconds


class Job:
    """What there is to do, and ways to tell how it goes; all of them may be used by several threads at once."""

    def __init__(self, facts, write):
        self.id = facts.get("id")
        self.name = facts.get("name")
        self.queue = facts.get("queue")
        self.attempt = facts.get("attempt")
        self.max_attempts = facts.get("max_attempts")
        self.user_id = facts.get("user_id")
        self.correlation_id = facts.get("correlation_id")
        self.traceparent = facts.get("traceparent")
        self.tracestate = facts.get("tracestate")
        self.payload = facts.get("payload")
        self.parents = facts.get("parents") or {}
        self._write = write
        self._lock = threading.Lock()
        self._ended = False

    def progress(self, percent, message=None):
        """Tell how far the job is, from 0 to 100."""
        text = None if message is None else as_text(message)
        self._deliver(message_of("progress", percent=percent, message=text))

    def log(self, message, level="info"):
        """Write a line to the log of the attempt."""
        if level not in LEVELS:
            raise ValueError(f"unknown level {level!r}: expected {', '.join(LEVELS)}")
        self._deliver(message_of("log", level=level, message=as_text(message)))

    def extend(self, seconds):
        """Hold the job for so long from now, beyond what the worker does by itself."""
        self._deliver(message_of("extend", seconds=seconds))

    def notify(self, user, message):
        """Send a user a notification: anything that JSON can say."""
        self._deliver({"punctual": "notify", "user": user, "message": message})

    def broadcast(self, message):
        """Send everybody a notification."""
        self._deliver({"punctual": "broadcast", "message": message})

    def _deliver(self, message, last=False):
        line = as_line(message)
        with self._lock:
            # What a thread says after the end of its job would be taken for the next job's.
            if not self._ended:
                self._ended = last
                self._write(line)

    def _end(self, message):
        # What was printed belongs before the end.
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            self._deliver(message, last=True)
        except (TypeError, ValueError, RecursionError) as error:
            refusal = f"what the handler returned cannot be written as JSON: {error}"
            self._deliver(failure(refusal, retry=False), last=True)


def handler(function):
    """Serve jobs with this function if its file is the program that Punctual started; leave it alone otherwise."""
    protocol = os.environ.get("PUNCTUAL_PROTOCOL")
    if protocol and getattr(function, "__module__", None) == "__main__":
        sys.exit(serve(function, protocol))
    return function


def serve(function, protocol):
    """Run all jobs that come, and return the exit code."""
    servers = {"once": serve_one, "pool": serve_many}
    if protocol not in servers:
        return f"PUNCTUAL_PROTOCOL is {protocol!r}, which this punctual.py does not know"
    source, write = take_channels()
    try:
        servers[protocol](function, source, write)
    except KeyboardInterrupt:
        return 130
    return 0


def serve_one(function, source, write):
    job = Job(facts_of_environment(source.read()), write)
    job._end(outcome(function, job))


def serve_many(function, source, write):
    for line in source:
        job = Job(json.loads(line), write)
        try:
            ending = outcome(function, job)
        except SystemExit as leave:
            # The process can take the next job; only this one did not end.
            ending = failure(f"the handler called exit with code {leave.code or 0}")
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
    except BaseException as error:  # asyncio.CancelledError, for one, is no Exception.
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
    """A message with those of the fields that say something."""
    return {"punctual": kind, **{name: value for name, value in fields.items() if value is not None}}


def as_line(message):
    """One line of UTF-8. A lone surrogate is refused here, as NaN is: no reader of JSON on the other side would take it."""
    return json.dumps(message, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def as_text(value):
    """Text for people, which may not fail for a character that UTF-8 does not have, such as one in a file's name."""
    return str(value).encode(errors="backslashreplace").decode()


def facts_of_environment(payload):
    """What a pool's line says of a job, for a process that runs one job."""
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
    """Keep standard input and output for the protocol, and give all others an empty input and the log instead.

    This is done to the descriptors themselves, so that it holds for libraries in C and for other programs as well.
    """
    source, target = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    for stream in (sys.__stdout__, sys.__stderr__):
        # The log is UTF-8 whatever the locale, and it shows each line when it is written.
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    return source, lambda line: write_all(target, line)


def write_all(target, line):
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(target, rest):]
