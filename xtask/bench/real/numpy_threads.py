"""NumPy in Python's threads, while its own library computes in threads too. Prints the same under every schedule."""
import concurrent.futures
import queue
import threading

import numpy

jobs = queue.Queue(3)
results = []


def work():
    while (job := jobs.get()) is not None:
        results.append(int(numpy.dot(job, job)))


threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for n in range(9):
    jobs.put(numpy.arange(n * 10))
for _ in threads:
    jobs.put(None)
for thread in threads:
    thread.join()
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    products = list(pool.map(lambda n: int((numpy.ones((n, n)) @ numpy.ones((n, n))).sum()), range(6)))
print(sorted(results), products)
