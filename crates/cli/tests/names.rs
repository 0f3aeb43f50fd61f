//! Objects on the heap are named by the expressions of the source that reach them.

mod common;

use common::Place;

/// A pool on the heap: work is counted as queued, then as active.
const POOL: &str = r#"#include <pthread.h>
#include <stdlib.h>

struct stats { long done; int peak; };
struct pool {
  pthread_mutex_t guard;
  pthread_cond_t idle;
  int queued, active;
  struct stats *stats;
  int costs[4];
};

static void *work(void *argument) {
  struct pool *pool = argument;
  for (;;) {
    pthread_mutex_lock(&pool->guard);
    if (pool->queued == 0) break;
    pool->queued--;
    pool->active++;
    int cost = pool->costs[pool->queued];
    pthread_mutex_unlock(&pool->guard);
    pthread_mutex_lock(&pool->guard);
    pool->active--;
    pool->stats->done += cost;
    pthread_cond_signal(&pool->idle);
    pthread_mutex_unlock(&pool->guard);
  }
  pthread_mutex_unlock(&pool->guard);
  return 0;
}

int main(void) {
  struct pool *pool = calloc(1, sizeof *pool);
  pool->stats = calloc(1, sizeof *pool->stats);
  pthread_mutex_init(&pool->guard, 0);
  pthread_cond_init(&pool->idle, 0);
  pool->queued = 2;
  pthread_t workers[2];
  for (int i = 0; i < 2; i++) pthread_create(&workers[i], 0, work, pool);
  pthread_mutex_lock(&pool->guard);
  while (pool->queued > 0) pthread_cond_wait(&pool->idle, &pool->guard);
  pthread_mutex_unlock(&pool->guard);
  for (int i = 0; i < 2; i++) pthread_join(workers[i], 0);
  return pool->stats->done != 0;
}
"#;

/// A queue with members of the standard library.
const QUEUE: &str = r#"#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

class Queue {
 public:
  void put(int item) {
    std::lock_guard<std::mutex> guard(mutex_);
    last_ = item;
    size_++;
    ready_.notify_one();
    puts_.fetch_add(1);
  }
  int take() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (size_ == 0) ready_.wait(lock);
    size_--;
    return last_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::atomic<int> puts_{0};
  int size_ = 0, last_ = 0;
};

int main() {
  auto queue = std::make_unique<Queue>();
  std::thread worker([&] { queue->take(); });
  queue->put(7);
  worker.join();
}
"#;

/// Compiles with this compiler, runs the program once, and returns the interleaving.
fn show(place: &Place, compiler: &str, compile: &[&str]) -> String {
    let mut command = place.command(common::UNSNARL, compile);
    let compiled = command.env("UNSNARL_CC", compiler).output().expect("unsnarl runs");
    assert!(compiled.status.success(), "{}", common::printed(&compiled));
    place.ends(&["record", "--points", "all", "-o", "t.snarl", "--", "./prog"]);
    place.unsnarl(0, &["show", "--all", "t.snarl"])
}

#[test]
fn members_of_heap_objects_are_named_in_c() {
    for (compiler, level) in [("gcc", "-O0"), ("gcc", "-O1"), ("clang", "-O0"), ("clang", "-O1")] {
        let place = Place::new(&format!("pool{compiler}{level}"));
        place.write("pool.c", POOL);
        let shown = show(&place, compiler, &["cc", level, "-g", "-pthread", "-o", "prog", "pool.c"]);
        for name in
            ["lock pool->guard", "signal pool->idle", "pool->queued", "pool->active", "pool->stats->done"]
        {
            assert!(shown.contains(name), "{compiler} {level}: no {name}\n{shown}");
        }
        assert!(!shown.contains("lock#") && !shown.contains("memory#"), "{compiler} {level}\n{shown}");
    }
}

#[test]
fn members_of_objects_are_named_in_cpp() {
    for level in ["-O0", "-O1"] {
        let place = Place::new(&format!("queue{level}"));
        place.write("queue.cpp", QUEUE);
        let shown =
            show(&place, "gcc", &["c++", "-std=c++17", level, "-g", "-pthread", "-o", "prog", "queue.cpp"]);
        for name in ["lock mutex_", "puts_", "size_", "last_"] {
            assert!(shown.contains(name), "{level}: no {name}\n{shown}");
        }
    }
}

#[test]
fn changed_source_names_nothing() {
    let place = Place::new("changed");
    place.write("pool.c", POOL);
    let shown = show(&place, "gcc", &["cc", "-O1", "-g", "-pthread", "-o", "prog", "pool.c"]);
    assert!(shown.contains("pool->queued"), "{shown}");
    let binary = std::fs::metadata(place.path("prog")).unwrap().modified().unwrap();
    place.write("pool.c", POOL.replace("pool->queued", "pool->active"));
    let later = binary + std::time::Duration::from_secs(5);
    std::fs::File::options().write(true).open(place.path("pool.c")).unwrap().set_modified(later).unwrap();
    let shown = place.unsnarl(0, &["show", "--all", "t.snarl"]);
    assert!(!shown.contains("pool->queued") && shown.contains("data at pool.c:"), "{shown}");
}
