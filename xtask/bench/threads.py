"""Threads that share a queue, a lock and a dictionary."""

import hashlib
import queue
import threading

jobs, results, lock = queue.Queue(), {}, threading.Lock()


def work():
    while (size := jobs.get()) is not None:
        digest = hashlib.sha256(b"x" * size).hexdigest()
        with lock:
            results[size] = digest


threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for size in range(40):
    jobs.put(size)
for _ in threads:
    jobs.put(None)
for thread in threads:
    thread.join()
print(hashlib.sha256(repr(sorted(results.items())).encode()).hexdigest())
