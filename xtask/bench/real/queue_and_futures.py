"""Python's queue, condition, event and thread pool. Prints the same under every schedule."""
import concurrent.futures
import queue
import threading
import time

jobs = queue.Queue(2)
results = []
changed = threading.Condition()
begin = threading.Event()


def work():
    begin.wait(5)
    while True:
        try:
            job = jobs.get(timeout=1)
        except queue.Empty:
            continue
        if job is None:
            return
        with changed:
            results.append(job * job)
            changed.notify_all()
        time.sleep(0.001)


threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
begin.set()
for job in range(12):
    jobs.put(job)
with changed:
    assert changed.wait_for(lambda: len(results) == 12, 10)
for _ in threads:
    jobs.put(None)
for thread in threads:
    thread.join()
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    sums = list(pool.map(lambda n: sum(range(n * 1000)), range(8)))
print(sorted(results), sums)
