"""A worker in fifty lines: claims jobs over HTTP, keeps them while they run, and tells how they ended. Only Python's own library."""
import json, os, secrets, signal, socket, threading, time, urllib.request
from concurrent.futures import ThreadPoolExecutor

URL, TOKEN = os.environ.get("PUNCTUAL_URL", "http://127.0.0.1:7878"), os.environ.get("PUNCTUAL_TOKEN")
LEASE, SLOTS = int(os.environ.get("LEASE", 30)), int(os.environ.get("SLOTS", 4))
WORKER = "wrk_" + secrets.token_hex(16)  # one for each start
running, stopping, drained = set(), threading.Event(), threading.Event()


def resize(payload):
    time.sleep(payload.get("seconds", 0))
    return {"resized": payload["image"]}


HANDLERS = {"resize": resize}


def post(path, **body):
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {TOKEN}"} if TOKEN else {})}
    request = urllib.request.Request(URL + path, json.dumps({"worker": WORKER, **body}).encode(), headers)
    with urllib.request.urlopen(request, timeout=90) as answer:
        return json.loads(answer.read() or "null")


def patiently(path, **body):  # a server that starts anew, or is busy, is there again soon
    while True:
        try:
            return post(path, **body)
        except OSError as error:
            print("trying again:", error, flush=True)
            time.sleep(1)


def run(job):
    try:
        end = {"outcome": "succeeded", "result": HANDLERS[job["name"]](job["payload"])}
    except Exception as error:
        end = {"outcome": "failed", "error": repr(error)}
    settled = patiently("/v1/work/settle", jobs=[{"attempt_id": job["attempt_id"], **end}])["settled"][0]
    running.discard(job["attempt_id"])
    print(job["id"], end["outcome"] if settled else "was no longer ours", flush=True)


def keep():  # says that we are there, and that we still have what runs
    while not drained.is_set():
        beat = {"names": list(HANDLERS), "concurrency": SLOTS, "running": len(running), "pid": os.getpid()}
        patiently("/v1/work/beat", host=socket.gethostname(), **beat)
        patiently("/v1/work/extend", attempts=list(running), lease=f"{LEASE}s")
        drained.wait(min(10, LEASE / 3))


signal.signal(signal.SIGTERM, lambda *_: stopping.set())
signal.signal(signal.SIGINT, lambda *_: stopping.set())
keeper = threading.Thread(target=keep, daemon=True)
keeper.start()
with ThreadPoolExecutor(SLOTS) as pool:
    while not stopping.is_set():
        if len(running) == SLOTS:
            time.sleep(0.05)
            continue
        free = SLOTS - len(running)
        for job in patiently("/v1/work/claim", names=list(HANDLERS), limit=free, lease=f"{LEASE}s", wait="5s")["jobs"]:
            running.add(job["attempt_id"])
            pool.submit(run, job)
drained.set()
keeper.join()  # a beat that came after it would register the worker again
post("/v1/work/leave")
