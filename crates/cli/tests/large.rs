//! Programs that are large in some way: thousands of threads, a huge heap, deep stacks, plugins that are loaded while
//! threads run. Each runs by one schedule, and must give the right result and replay event for event.

mod common;

use common::Place;

fn compile(place: &Place, compiler: &str, source: (&str, &str), flags: &[&str]) {
    place.write(source.0, source.1);
    place.runs(0, compiler, &[&["-O1", "-g", "-pthread", source.0], flags].concat());
}

/// Records `./program` by a random schedule and, on kernel threads, by the fair one, and replays both.
fn runs_and_replays(place: &Place, threads: u64) {
    for options in [&["--seed", "1"][..], &["--threads", "kernel"]] {
        let record = [&["record", "--json", "-o", "t.snarl"], options, &["--", "./program"]].concat();
        let report = place.json(0, &record);
        assert_eq!(report["stats"]["threads"], threads, "{options:?}");
        let report = place.json(0, &["replay", "--json", "t.snarl"]);
        assert_eq!(report["identical"], true, "{options:?}: {report}");
    }
}

#[test]
fn thousand_threads_run_at_once() {
    let place = Place::new("threads");
    let source = r#"
#include <pthread.h>
#define THREADS 1000
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_there = PTHREAD_COND_INITIALIZER;
static int there;
static void *arrive(void *unused)
{
    pthread_mutex_lock(&mutex);
    if (++there == THREADS)
        pthread_cond_broadcast(&all_there);
    while (there < THREADS)
        pthread_cond_wait(&all_there, &mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}
int main(void)
{
    static pthread_t threads[THREADS];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], &small, arrive, 0))
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return there != THREADS;
}
"#;
    compile(&place, "gcc", ("program.c", source), &["-o", "program"]);
    runs_and_replays(&place, 1001);
}

#[test]
fn sixteen_gigabyte_heap_is_supported() {
    let place = Place::new("heap");
    let source = r#"
#include <pthread.h>
#include <stdlib.h>
#define SIZE (16ull << 30)
#define STEP (64ull << 20)
static char *heap;
static void *write_some(void *first)
{
    for (size_t at = (size_t)first; at < SIZE; at += 2 * STEP)
        heap[at] = at / STEP;
    return 0;
}
int main(void)
{
    pthread_t threads[2];
    heap = calloc(1, SIZE);
    if (!heap)
        return 1;
    pthread_create(&threads[0], 0, write_some, (void *)0);
    pthread_create(&threads[1], 0, write_some, (void *)STEP);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    for (size_t at = 0; at < SIZE; at += STEP)
        if (heap[at] != (char)(at / STEP))
            return 2;
    return 0;
}
"#;
    compile(&place, "gcc", ("program.c", source), &["-o", "program"]);
    runs_and_replays(&place, 3);
}

#[test]
fn stacks_of_hundreds_of_megabytes_are_supported() {
    let place = Place::new("stack");
    let source = r#"
#include <pthread.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long sum;
static long deep(long level)
{
    volatile char frame[64 << 10];
    frame[0] = level;
    if (level == 0) {
        pthread_mutex_lock(&mutex);
        sum++;
        pthread_mutex_unlock(&mutex);
        return 0;
    }
    return deep(level - 1) + frame[0] - (char)level + 1;
}
static void *worker(void *unused)
{
    return deep(3500) == 3500 ? unused : (void *)1;
}
int main(void)
{
    pthread_t threads[2];
    pthread_attr_t large;
    void *wrong;
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, 256 << 20);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], &large, worker, 0))
            return 1;
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &wrong);
        if (wrong)
            return 2;
    }
    return sum != 2;
}
"#;
    compile(&place, "gcc", ("program.c", source), &["-o", "program"]);
    runs_and_replays(&place, 3);
}

#[test]
fn cpp_plugin_with_own_threads_is_controlled() {
    let place = Place::new("plugin");
    let plugin = r#"
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>
static std::mutex mutex;
static int total;
static thread_local int mine;
struct Loaded { Loaded() { total = 1; } } static loaded;
extern "C" int work(int count)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < count; i++)
        threads.emplace_back([] {
            try {
                mine++;
                throw std::runtime_error("caught");
            } catch (const std::exception &) {
                std::lock_guard<std::mutex> guard(mutex);
                total += mine;
            }
        });
    for (auto &thread : threads)
        thread.join();
    return total;
}
"#;
    let source = r#"
#include <dlfcn.h>
#include <pthread.h>
static void *use(void *result)
{
    void *plugin = dlopen("./plugin.so", RTLD_NOW);
    int (*work)(int) = plugin ? (int (*)(int))dlsym(plugin, "work") : 0;
    *(int *)result = work ? work(3) : -1;
    return 0;
}
int main(void)
{
    pthread_t thread;
    int result = 0;
    pthread_create(&thread, 0, use, &result);
    pthread_join(thread, 0);
    return result != 4;
}
"#;
    compile(&place, "g++", ("plugin.cpp", plugin), &["-shared", "-fPIC", "-o", "plugin.so"]);
    compile(&place, "gcc", ("program.c", source), &["-o", "program", "-ldl"]);
    runs_and_replays(&place, 5);
}
