"""Tests of punctual.py that need no Punctual: they start small handlers as a worker would, and check their messages."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
MEGABYTE = 1 << 20
FIELDS = """
@handler
def f(job):
    return [job.id, job.name, job.queue, job.attempt, job.max_attempts, job.user_id, job.correlation_id,
            job.payload, job.parents]
"""


class Ended:
    """The output and the exit code of a program that has ended."""

    def __init__(self, code, stdout, stderr):
        self.code = code
        # Each line has to be a message; anything else is an error of its own here.
        self.messages = [json.loads(line) for line in stdout.decode().split("\n")[:-1]]
        self.log = stderr.decode()


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, protocol, body, **env):
        """Start a program with this body, after the import of everything that punctual.py exports."""
        path = os.path.join(self.folder, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write("from punctual import handler, Fail, Retry, Snooze\n" + textwrap.dedent(body))
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": HERE, "PYTHONDONTWRITEBYTECODE": "1", **env}
        if protocol:
            env["PUNCTUAL_PROTOCOL"] = protocol
        pipe = subprocess.PIPE
        program = subprocess.Popen([sys.executable, path], stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=self.folder)
        # Last added, first done: it must have ended before its pipes are closed.
        self.addCleanup(program.__exit__, None, None, None)
        self.addCleanup(program.kill)
        return program

    def run_with(self, protocol, body, data, **env):
        program = self.start(protocol, body, **env)
        stdout, stderr = program.communicate(data, timeout=60)
        return Ended(program.returncode, stdout, stderr)

    def once(self, body, payload=None, **env):
        return self.run_with("once", body, json.dumps(payload).encode(), **env)

    def pool(self, body, *payloads):
        return self.run_with("pool", body, b"".join(job_line(payload) for payload in payloads))

    def assert_ends(self, ended, message, code=0):
        self.assertEqual((ended.messages, ended.code), ([message], code), ended.log)


def job_line(payload, **fields):
    job = {"punctual": "job", "id": "job_1", "name": "test", "queue": "default", "attempt": 1, "max_attempts": 3,
           "timeout_ms": 300000, "user_id": None, "correlation_id": None, "payload": payload, "parents": {}, **fields}
    return json.dumps(job, ensure_ascii=False).encode() + b"\n"


class Once(Case):
    def test_the_example_of_the_documentation(self):
        ended = self.once("""
            @handler
            def resize(job):
                return {"pixels": job.payload["width"] * job.payload["height"]}
        """, {"width": 6, "height": 7})
        self.assert_ends(ended, {"punctual": "done", "result": {"pixels": 42}})
        self.assertEqual(ended.log, "")

    def test_the_trace_is_known(self):
        body = "@handler\ndef f(job): return [job.traceparent, job.tracestate]"
        done = {"punctual": "done", "result": ["p", "s"]}
        self.assert_ends(self.once(body, TRACEPARENT="p", TRACESTATE="s"), done)
        self.assert_ends(self.run_with("pool", body, job_line(None, traceparent="p", tracestate="s")), done)

    def test_no_result(self):
        self.assert_ends(self.once("@handler\ndef f(job): pass"), {"punctual": "done"})

    def test_a_falsy_result_is_a_result(self):
        for result in ("0", "False", "''", "[]"):
            self.assert_ends(self.once(f"@handler\ndef f(job): return {result}"), {"punctual": "done", "result": eval(result)})

    def test_async(self):
        ended = self.once("""
            import asyncio

            @handler
            async def f(job):
                await asyncio.sleep(0.01)
                return job.payload + 1
        """, 1)
        self.assert_ends(ended, {"punctual": "done", "result": 2})

    def test_an_async_handler_that_was_cancelled_failed(self):
        ended = self.once("""
            import asyncio

            @handler
            async def f(job):
                raise asyncio.CancelledError
        """)
        self.assert_ends(ended, {"punctual": "fail", "error": "CancelledError", "retry": True})

    def test_an_exception_fails_with_its_text_and_leaves_its_trace_in_the_log(self):
        ended = self.once("@handler\ndef f(job):\n    return {}['missing']")
        self.assert_ends(ended, {"punctual": "fail", "error": "KeyError: 'missing'", "retry": True})
        self.assertIn("Traceback (most recent call last)", ended.log)
        self.assertIn("program.py", ended.log)
        self.assertEqual(ended.log.splitlines()[-1], "KeyError: 'missing'")

    def test_fail(self):
        ended = self.once("@handler\ndef f(job): raise Fail('no such image')")
        self.assert_ends(ended, {"punctual": "fail", "error": "no such image", "retry": False})

    def test_retry(self):
        ended = self.once("@handler\ndef f(job): raise Retry(90, 'the server is busy')")
        self.assert_ends(ended, {"punctual": "fail", "error": "the server is busy", "retry": 90})

    def test_retry_without_a_message(self):
        ended = self.once("@handler\ndef f(job): raise Retry(1.5)")
        self.assert_ends(ended, {"punctual": "fail", "error": "retry requested in 1.5 s", "retry": 1.5})

    def test_snooze(self):
        self.assert_ends(self.once("@handler\ndef f(job): raise Snooze(60)"), {"punctual": "snooze", "seconds": 60})
        ended = self.once("@handler\ndef f(job): raise Snooze")
        self.assert_ends(ended, {"punctual": "snooze"})
        self.assertEqual(ended.log, "")

    def test_printed_output_goes_to_the_log(self):
        ended = self.once("""
            import os, subprocess
            print("before")

            @handler
            def f(job):
                print('{"punctual": "done", "result": "forged"}')
                os.write(1, b"by descriptor\\n")
                subprocess.run(["echo", "by a program"])
                print("no newline", end="")
        """)
        self.assert_ends(ended, {"punctual": "done"})
        lines = ["before", '{"punctual": "done", "result": "forged"}', "by descriptor", "by a program", "no newline"]
        self.assertEqual(ended.log.splitlines(), lines)

    def test_messages(self):
        ended = self.once("""
            @handler
            def f(job):
                job.progress(40, "halfway")
                job.progress(62.5)
                job.log("plain")
                job.log("two\\nlines", "warn")
                job.extend(60)
                job.notify("ada", {"done": 1})
                job.notify("ada", None)
                job.broadcast(["to", "all"])
        """)
        self.assertEqual(ended.messages, [
            {"punctual": "progress", "percent": 40, "message": "halfway"},
            {"punctual": "progress", "percent": 62.5},
            {"punctual": "log", "level": "info", "message": "plain"},
            {"punctual": "log", "level": "warn", "message": "two\nlines"},
            {"punctual": "extend", "seconds": 60},
            {"punctual": "notify", "user": "ada", "message": {"done": 1}},
            {"punctual": "notify", "user": "ada", "message": None},
            {"punctual": "broadcast", "message": ["to", "all"]},
            {"punctual": "done"},
        ])

    def test_a_level_that_does_not_exist(self):
        ended = self.once("@handler\ndef f(job): job.log('x', 'warning')")
        error = "ValueError: unknown level 'warning': expected debug, info, warn, error"
        self.assert_ends(ended, {"punctual": "fail", "error": error, "retry": True})

    def test_the_fields_of_the_job(self):
        parents = os.path.join(self.folder, "parents.json")
        with open(parents, "w", encoding="utf-8") as file:
            json.dump({"job_0": 5, "first": 5}, file)
        ended = self.once(FIELDS, {"a": 1}, PUNCTUAL_JOB_ID="job_1", PUNCTUAL_JOB_NAME="test", PUNCTUAL_QUEUE="slow",
                          PUNCTUAL_ATTEMPT="2", PUNCTUAL_MAX_ATTEMPTS="3", PUNCTUAL_USER_ID="ada", PUNCTUAL_CORRELATION_ID="order-7",
                          PUNCTUAL_PARENT_RESULTS=parents)
        result = ["job_1", "test", "slow", 2, 3, "ada", "order-7", {"a": 1}, {"job_0": 5, "first": 5}]
        self.assert_ends(ended, {"punctual": "done", "result": result})
        self.assert_ends(self.once(FIELDS), {"punctual": "done", "result": [None, None, None, 1, 1, None, None, None, {}]})

    def test_unicode(self):
        text = "Grüße, 世界, \U0001f600, \u2028, \u0000"
        ended = self.once("""
            @handler
            def f(job):
                print("grüßt")
                job.log(job.payload)
                return job.payload
        """, text, LC_ALL="C")
        log = {"punctual": "log", "level": "info", "message": text}
        self.assertEqual(ended.messages, [log, {"punctual": "done", "result": text}])
        self.assertEqual(ended.log, "grüßt\n")

    def test_a_character_that_utf8_cannot_encode(self):
        ended = self.once("@handler\ndef f(job):\n    job.log('a\\udcffb')\n    raise ValueError('c\\udcffd')")
        log = {"punctual": "log", "level": "info", "message": "a\\udcffb"}
        self.assertEqual(ended.messages, [log, {"punctual": "fail", "error": "ValueError: c\\udcffd", "retry": True}])

    def test_a_megabyte(self):
        ended = self.once("@handler\ndef f(job): return job.payload", "é" * MEGABYTE)
        self.assert_ends(ended, {"punctual": "done", "result": "é" * MEGABYTE})

    def test_a_result_that_is_not_json(self):
        for result in ("{1, 2}", "float('nan')", "[float('-inf')]", "'\\udcff'", "object()"):
            ended = self.once(f"@handler\ndef f(job): return {result}")
            [message] = ended.messages
            self.assertEqual((message["punctual"], message["retry"], ended.code), ("fail", False, 0))
            self.assertTrue(message["error"].startswith("the result cannot be written as JSON: "), message)

    def test_threads_that_log_at_the_same_time(self):
        ended = self.once("""
            import threading

            @handler
            def f(job):
                def chatter(number):
                    for count in range(50):
                        job.log(f"{number} {count} " + "x" * 5000)
                threads = [threading.Thread(target=chatter, args=(number,)) for number in range(8)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
        """)
        logged = {message["message"].rstrip("x").strip() for message in ended.messages[:-1]}
        self.assertEqual(logged, {f"{number} {count}" for number in range(8) for count in range(50)})
        self.assertEqual(len(ended.messages), 401)

    def test_exit_sets_the_exit_code(self):
        ended = self.once("import sys\n@handler\ndef f(job): sys.exit(75)")
        self.assertEqual((ended.messages, ended.code), ([], 75))

    def test_an_interrupt_ends_it_quietly(self):
        ended = self.once("@handler\ndef f(job): raise KeyboardInterrupt")
        self.assertEqual((ended.messages, ended.code, ended.log), ([], 130, ""))

    def test_a_payload_that_is_not_json_ends_the_program(self):
        ended = self.run_with("once", "@handler\ndef f(job): pass", b"")
        self.assertEqual((ended.messages, ended.code), ([], 1))
        self.assertIn("JSONDecodeError", ended.log.splitlines()[-1])

    def test_an_unknown_protocol_is_refused(self):
        ended = self.run_with("telepathy", "@handler\ndef f(job): pass", b"")
        log = "unknown PUNCTUAL_PROTOCOL 'telepathy': expected once, pool\n"
        self.assertEqual((ended.messages, ended.code, ended.log), ([], 1, log))


class Pool(Case):
    def test_one_job_after_the_other(self):
        ended = self.pool("""
            import os
            before = []

            @handler
            def f(job):
                before.append(job.payload)
                job.progress(50)
                if job.payload == 2:
                    raise ValueError("two")
                if job.payload == 3:
                    raise Snooze
                return [before, os.getpid()]
        """, 1, 2, 3, 4)
        progress = {"punctual": "progress", "percent": 50}
        self.assertEqual([message["punctual"] for message in ended.messages[::2]], ["progress"] * 4)
        first, second, third, fourth = ended.messages[1::2]
        self.assertEqual(ended.messages[0], progress)
        self.assertEqual(second, {"punctual": "fail", "error": "ValueError: two", "retry": True})
        self.assertEqual(third, {"punctual": "snooze"})
        self.assertEqual((first["result"][0], fourth["result"][0]), ([1], [1, 2, 3, 4]))
        self.assertEqual(first["result"][1], fourth["result"][1])
        self.assertEqual(ended.code, 0)

    def test_each_answer_comes_before_the_next_job(self):
        program = self.start("pool", "@handler\nasync def f(job): return job.payload")
        for payload in ("a", "b"):
            program.stdin.write(job_line(payload))
            program.stdin.flush()
            self.assertEqual(json.loads(program.stdout.readline()), {"punctual": "done", "result": payload})
        program.stdin.close()
        self.assertEqual(program.wait(timeout=60), 0)

    def test_the_fields_of_the_job(self):
        line = job_line({"a": 1}, id="job_9", attempt=2, user_id="ada", parents={"first": 5})
        ended = self.run_with("pool", FIELDS, line)
        result = ["job_9", "test", "default", 2, 3, "ada", None, {"a": 1}, {"first": 5}]
        self.assert_ends(ended, {"punctual": "done", "result": result})

    def test_the_end_of_the_input_is_the_end(self):
        ended = self.pool("@handler\ndef f(job): pass")
        self.assertEqual((ended.messages, ended.code, ended.log), ([], 0, ""))

    def test_printed_output_goes_to_the_log_at_once(self):
        program = self.start("pool", "@handler\ndef f(job): print('printed', job.payload)")
        for payload in (1, 2):
            program.stdin.write(job_line(payload))
            program.stdin.flush()
            self.assertEqual(program.stderr.readline(), b"printed %d\n" % payload)
            self.assertEqual(json.loads(program.stdout.readline()), {"punctual": "done"})
        program.stdin.close()
        self.assertEqual(program.wait(timeout=60), 0)

    def test_other_programs_do_not_read_the_jobs(self):
        program = self.start("pool", """
            import subprocess

            @handler
            def f(job):
                return subprocess.run(["cat"], timeout=10).returncode
        """)
        # The input stays open, so that a program that reads it would not end.
        program.stdin.write(job_line(1))
        program.stdin.flush()
        self.assertEqual(json.loads(program.stdout.readline()), {"punctual": "done", "result": 0})

    def test_exit_fails_the_job_only(self):
        ended = self.pool("""
            import sys

            @handler
            def f(job):
                if job.payload != "stay":
                    sys.exit(job.payload)
        """, 3, None, "stay")
        self.assertEqual(ended.messages, [
            {"punctual": "fail", "error": "the handler called exit with code 3", "retry": True},
            {"punctual": "fail", "error": "the handler called exit with code 0", "retry": True},
            {"punctual": "done"},
        ])
        self.assertEqual(ended.code, 0)

    def test_a_result_that_is_not_json_fails_the_job_only(self):
        ended = self.pool("@handler\ndef f(job): return {1} if job.payload else 'fine'", True, False)
        self.assertEqual([message["punctual"] for message in ended.messages], ["fail", "done"])
        self.assertIs(ended.messages[0]["retry"], False)

    def test_messages_of_a_thread_after_its_job_are_dropped(self):
        ended = self.pool("""
            import threading
            old, sent = [], threading.Event()

            def send(job):
                job.log("too late")
                sent.set()

            @handler
            def f(job):
                if old:
                    threading.Thread(target=send, args=old).start()
                    sent.wait()
                old.append(job)
        """, 1, 2)
        self.assertEqual(ended.messages, [{"punctual": "done"}] * 2)

    def test_unicode_and_a_megabyte(self):
        text = "Grüße, 世界, \U0001f600, \u2028, \u0085"
        ended = self.pool("@handler\ndef f(job): return job.payload", text, "é" * MEGABYTE, text)
        self.assertEqual([message["result"] for message in ended.messages], [text, "é" * MEGABYTE, text])

    def test_sigterm_ends_it(self):
        program = self.start("pool", """
            import time

            @handler
            def f(job):
                job.log("asleep")
                time.sleep(60)
        """)
        program.stdin.write(job_line(1))
        program.stdin.flush()
        program.stdout.readline()
        program.terminate()
        self.assertEqual(program.wait(timeout=60), -signal.SIGTERM)

    def test_a_line_that_is_not_a_job_ends_the_program(self):
        ended = self.run_with("pool", "@handler\ndef f(job): pass", b"nonsense\n")
        self.assertEqual((ended.messages, ended.code), ([], 1))


class Alone(Case):
    def test_without_punctual_the_function_is_returned(self):
        program = self.start(None, "@handler\ndef f(job): return 1\nprint(f(None))")
        self.assertEqual(program.communicate(timeout=60), (b"1\n", b""))

    def test_imported_the_function_is_returned(self):
        with open(os.path.join(self.folder, "jobs.py"), "w", encoding="utf-8") as file:
            file.write("from punctual import handler\n@handler\ndef f(job): return 1\n")
        program = self.start("once", "import jobs\nprint(jobs.f(None))")
        self.assertEqual(program.communicate(timeout=60), (b"1\n", b""))


if __name__ == "__main__":
    unittest.main()
