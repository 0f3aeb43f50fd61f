//! Signals, their dispositions and timers.

use crate::common::Place;

/// Between two threads: one sets SIGPROF's action again and again, while the kernel's timer sends it. The program ends
/// normally: the signal is either handled or ignored.
#[test]
fn signal_is_handled_or_ignored_whatever_was_set_before() {
    let place = Place::new("reset");
    place.compile("reset", RESET, &["gcc"], &[]);
    for seed in 1..=3 {
        let seed = seed.to_string();
        place.exits(0, &["record", "--seed", &seed, "-o", "t.snarl", "--", "./reset"]);
    }
}

const RESET: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/time.h>
static volatile int handled;
static void handler(int signal) { handled += signal; }
static void *resets(void *unused)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    for (int i = 0; i < 400000; i++) {
        action.sa_handler = i % 2 ? SIG_IGN : handler;
        sigaction(SIGPROF, &action, NULL);
    }
    return unused;
}
int main(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    struct itimerval often = {{0, 10}, {0, 10}};
    pthread_t threads[2];
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, resets, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return 0;
}
"#;

/// Setting the action and arming the timer come before the handler, whichever thread it interrupts.
#[test]
fn handler_is_ordered_after_its_installation_and_its_timer() {
    let place = Place::new("ordered");
    place.cc("ordered", ORDERED);
    place.exits(0, &["explore", "--fail-on", "race", "--runs", "20", "--", "./ordered"]);
    place.exits(0, &["record", "-o", "t.snarl", "--", "./ordered"]);
    assert_eq!(place.json(0, &["replay", "--json", "t.snarl"])["identical"], true);
}

const ORDERED: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/time.h>
static int *read_by_handler, value;
static atomic_int done;
static void handler(int signal)
{
    if (signal == SIGPROF && *read_by_handler == 17) atomic_store_explicit(&done, 1, memory_order_relaxed);
}
__attribute__((no_sanitize("thread"), noinline)) static void computes(void)
{
    for (volatile int i = 0; i < 200000; i++) {}
}
static void *runs(void *unused)
{
    while (!atomic_load_explicit(&done, memory_order_relaxed)) computes();
    return unused;
}
int main(void)
{
    struct itimerval soon = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    pthread_t thread;
    pthread_create(&thread, NULL, runs, NULL);
    value = 17;
    read_by_handler = &value;
    signal(SIGPROF, handler);
    setitimer(ITIMER_PROF, &soon, NULL);
    pthread_join(thread, NULL);
    setitimer(ITIMER_PROF, &never, NULL);
    return 0;
}
"#;

/// A signal of a kernel's timer also ends a loop of a program's only thread.
#[test]
fn timer_of_the_kernel_ends_a_loop_of_the_only_thread() {
    let place = Place::new("only_thread");
    place.compile("only", ONLY, &["gcc"], &[]);
    place.exits(0, &["record", "-o", "t.snarl", "--", "./only"]);
    assert_eq!(place.json(0, &["replay", "--json", "t.snarl"])["identical"], true);
}

const ONLY: &str = r#"
#include <signal.h>
#include <stddef.h>
#include <sys/time.h>
static volatile int done;
static void handler(int signal) { done = signal; }
int main(void)
{
    struct itimerval soon = {{0, 0}, {0, 1000}};
    signal(SIGVTALRM, handler);
    setitimer(ITIMER_VIRTUAL, &soon, NULL);
    while (!done) {}
    return done != SIGVTALRM;
}
"#;
