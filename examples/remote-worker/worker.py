"""A worker: claims jobs over HTTP, extends their leases while they run, and settles them. Standard library only."""
import json, os, secrets, signal, socket, threading, time, urllib.request
from concurrent.futures import ThreadPoolExecutor

URL, TOKEN = os.environ.get("PUNCTUAL_URL", "http://127.0.0.1:7878"), os.environ.get("PUNCTUAL_TOKEN")
LEASE, SLOTS = int(os.environ.get("LEASE", 30)), int(os.environ.get("SLOTS", 4))
WORKER = "wrk_" + secrets.token_hex(16)  # new for each start
running, suspects, stopping, drained = set(), set(), threading.Event(), threading.Event()


def resize(payload):
    time.sleep(payload.get("seconds", 0))
    return {"resized": payload["image"]}


HANDLERS = {"resize": resize}


def post(path, **body):
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {TOKEN}"} if TOKEN else {})}
    request = urllib.request.Request(URL + path, json.dumps({"worker": WORKER, **body}).encode(), headers)
    with urllib.request.urlopen(request, timeout=90) as response:
        return json.loads(response.read() or "null")


def with_retries(path, **body):  # a server that restarts or is busy is available again soon
    while True:
        try:
            return post(path, **body)
        except OSError as error:
            print("retrying:", error, flush=True)
            time.sleep(1)


def run(job):
    attempt = job["attempt_id"]
    if job["confirm"] and not with_retries("/v1/work/confirm", attempts=[attempt])["held"][0]:
        return forget(attempt)
    try:
        end = {"outcome": "succeeded", "result": HANDLERS[job["name"]](job["payload"])}
    except Exception as error:
        end = {"outcome": "failed", "error": repr(error)}
    settled = with_retries("/v1/work/settle", jobs=[{"attempt_id": attempt, **end}])["settled"][0]
    forget(attempt)
    print(job["id"], end["outcome"] if settled else "not settled: this worker no longer held the job", flush=True)


def forget(attempt):
    running.discard(attempt)
    suspects.discard(attempt)


def start(pool, job):
    running.add(job["attempt_id"])
    if job["suspect"]:  # claim no other suspect until it has ended
        suspects.add(job["attempt_id"])
    while job["runs_alone"] and len(running) > 1:  # it may crash this process: wait until the others have ended
        time.sleep(0.05)
    ended = pool.submit(run, job)
    if job["runs_alone"]:
        ended.result()


def keep_alive():  # sends heartbeats and extends leases
    while not drained.is_set():
        heartbeat = {"names": list(HANDLERS), "concurrency": SLOTS, "running": len(running), "pid": os.getpid()}
        with_retries("/v1/work/heartbeat", host=socket.gethostname(), **heartbeat)
        attempts = list(running)
        held = with_retries("/v1/work/extend", attempts=attempts, lease=f"{LEASE}s")["held"]
        for attempt in (one for one, is_held in zip(attempts, held) if not is_held and one in running):
            print(attempt, "is no longer held: its handler should stop if it can", flush=True)
        drained.wait(min(10, LEASE / 3))


signal.signal(signal.SIGTERM, lambda *_: stopping.set())
signal.signal(signal.SIGINT, lambda *_: stopping.set())
keep_alive_thread = threading.Thread(target=keep_alive, daemon=True)
keep_alive_thread.start()
with ThreadPoolExecutor(SLOTS) as pool:
    while not stopping.is_set():
        if len(running) == SLOTS:
            time.sleep(0.05)
            continue
        params = {"limit": SLOTS - len(running), "confirms": True, "suspects": "elsewhere" if suspects else "beside"}
        for job in with_retries("/v1/work/claim", names=list(HANDLERS), lease=f"{LEASE}s", wait="5s", **params)["jobs"]:
            start(pool, job)
drained.set()
keep_alive_thread.join()  # a later heartbeat would register the worker again
post("/v1/work/deregister")
