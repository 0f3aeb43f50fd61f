//! Runs of a rewound process equal runs of separate processes, event for event and value for value.

mod common;

use common::{Place, UNSNARL};
use unsnarl_exec::{Executor, Settings, SnapshotResult};
use unsnarl_model::{OutcomeKind, Plan, Points, Policy, Prefix, Program, Segment, ThreadId, ThreadIx, Trace};

/// A program, run in both ways.
struct PairedExecutors {
    rewound: Executor,
    forked: Executor,
    prefix: Prefix,
}

impl PairedExecutors {
    fn of(place: &Place, source: &str) -> Self {
        place.compile("program", source, &[UNSNARL, "cc"], &["-O1", "-w"]);
        let text = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
        let program = Program {
            path: text(&place.path("program")),
            args: vec![b"program".to_vec()],
            cwd: text(&place.0),
            ..Program::default()
        };
        let [rewound, mut forked] = [true, false].map(|rewind| {
            let settings = Settings { serve: true, rewind, ..Settings::default() };
            Executor::new(program.clone(), settings).expect("it can be used")
        });
        let single_thread_points =
            forked.run(&plan(Prefix::default(), 0)).expect("a run").single_thread_points() as u32;
        let segments = vec![Segment { thread: ThreadIx::MAIN, points: single_thread_points }];
        let prefix = Prefix { threads: vec![ThreadId::main()], segments, ..Prefix::default() };
        let mut both = Self { rewound, forked, prefix };
        let plan = plan(both.prefix.clone(), 0);
        for executor in [&mut both.rewound, &mut both.forked] {
            let snapshot = executor.take_snapshot(&plan, single_thread_points as usize);
            assert_eq!(snapshot.expect("no error"), SnapshotResult::Taken);
        }
        both
    }

    /// Makes one run of each and compares them; returns whether the process of the first was rewound.
    fn run(&mut self, seed: u64) -> (Trace, bool) {
        let plan = plan(self.prefix.clone(), seed);
        let run = self.rewound.run(&plan).expect("a run");
        let was_rewound = run.is_rewound();
        let rewound = run.trace();
        let run = self.forked.run(&plan).expect("a run");
        assert!(!run.is_rewound());
        let forked = run.trace();
        for (number, (a, b)) in rewound.events.iter().zip(&forked.events).enumerate() {
            assert_eq!((a, rewound.site(a)), (b, forked.site(b)), "seed {seed}, event {number}");
        }
        assert_eq!(rewound.events.len(), forked.events.len(), "seed {seed}");
        assert_eq!(rewound.outcome, forked.outcome, "seed {seed}");
        assert_eq!(rewound.output, forked.output, "seed {seed}");
        assert_eq!(rewound.races, forked.races, "seed {seed}");
        (rewound, was_rewound)
    }
}

/// Returns a plan in which every access is an event with its value, including pointers.
fn plan(prefix: Prefix, seed: u64) -> Plan {
    Plan { prefix, tail: Policy::Random, seed, points: Points::All, conflicts: true, ..Plan::default() }
}

/// Writes all kinds of memory, maps and unmaps, and checks its initial state.
const USES_MEMORY: &str = r#"
#define _GNU_SOURCE
#include <assert.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int rounds = 7, written[3000];
static __thread long own = 5;
static void *volatile seen[64];
static int count;
static char page[4096] __attribute__((aligned(4096)));

static void note(void *pointer)
{
    pthread_mutex_lock(&mutex);
    seen[count++ % 64] = pointer;
    pthread_mutex_unlock(&mutex);
}

static int deep(int n)
{
    volatile char room[5000];
    room[0] = n;
    return n == 0 ? room[0] : deep(n - 1) + room[0];
}

static void *inner(void *unused)
{
    char *block = calloc(1, 200000);
    for (int i = 0; i < 200000; i += 4096) {
        assert(block[i] == 0);
        block[i] = 1;
    }
    note(block);
    free(block);
    return unused;
}

static void *work(void *number)
{
    assert(own == 5 && rounds == 7);
    own += (long)number;
    char *small = malloc(24), *large = malloc(300000);
    memset(large, 1, 300000);
    note(small);
    large = realloc(large, 700000);
    assert(large[299999] == 1);
    note(large);
    char *mapped = mmap(0, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 5; i++) {
        assert(mapped[i * 4096] == 0);
        mapped[i * 4096] = 1;
    }
    note(mapped);
    mprotect(mapped, 4096, PROT_READ);
    pthread_t thread;
    assert(pthread_create(&thread, 0, inner, 0) == 0);
    munmap(mapped + 4096, 2 * 4096);
    deep(20 + (long)number);
    assert(pthread_join(thread, 0) == 0);
    for (int i = 0; i < 3000; i += 500)
        __atomic_fetch_add(&written[i], 1, __ATOMIC_RELAXED);
    munmap(mapped, 4096);
    for (int i = 0; i < 2; i++) {
        char *guarded = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert(guarded[0] == 0 && guarded[4096] == 0);
        memset(guarded, 7, 3 * 4096);
        assert(mprotect(guarded, 4096, PROT_NONE) == 0);
        note(guarded);
        if (i == 0)
            assert(mprotect(guarded, 4096, PROT_READ | PROT_WRITE) == 0 && guarded[5] == 7);
        munmap(guarded, 3 * 4096);
    }
    free(large);
    free(small);
    return 0;
}

int main(void)
{
    pthread_t threads[3];
    memset(page, 9, sizeof page);
    for (long i = 0; i < 3; i++)
        assert(pthread_create(&threads[i], 0, work, (void *)i) == 0);
    assert(page[100] == 9);
    deep(80);
    for (int i = 0; i < 40; i++)
        note(malloc(10000));
    for (int i = 0; i < 3; i++)
        assert(pthread_join(threads[i], 0) == 0);
    rounds = 8;
    assert(written[500] == 3);
    malloc_trim(0);
    madvise(page, sizeof page, MADV_DONTNEED);
    printf("%d noted\n", count);
}
"#;

#[test]
fn memory_is_restored_before_each_run() {
    let mut both = PairedExecutors::of(&Place::new("memory"), USES_MEMORY);
    let rewound = (1..=40).filter(|&seed| {
        let (trace, rewound) = both.run(seed);
        assert_eq!(trace.outcome.kind, OutcomeKind::Exit(0), "{}", trace.outcome.message);
        assert_eq!(trace.output.stdout, b"58 noted\n");
        rewound
    });
    assert_eq!(rewound.count(), 40);
}

/// Opens memory that was closed at its start, and closes it again.
const OPENS_AND_CLOSES: &str = r#"
#include <assert.h>
#include <pthread.h>
#include <sys/mman.h>

static char *sealed, *reserved;

static void *work(void *unused)
{
    assert(*sealed == 1);
    mprotect(sealed, 4096, PROT_READ | PROT_WRITE);
    *sealed = 2;
    mprotect(sealed, 4096, PROT_READ);
    mprotect(reserved, 2 * 4096, PROT_READ | PROT_WRITE);
    assert(reserved[4096] == 0);
    reserved[4096] = 2;
    mprotect(reserved, 2 * 4096, PROT_NONE);
    return unused;
}

int main(void)
{
    pthread_t thread;
    sealed = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *sealed = 1;
    mprotect(sealed, 4096, PROT_READ);
    reserved = mmap(0, 32 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(pthread_create(&thread, 0, work, 0) == 0);
    assert(pthread_join(thread, 0) == 0);
}
"#;

#[test]
fn reprotected_memory_is_restored() {
    let mut both = PairedExecutors::of(&Place::new("closed"), OPENS_AND_CLOSES);
    for seed in 1..=10 {
        let (trace, _) = both.run(seed);
        assert_eq!(trace.outcome.kind, OutcomeKind::Exit(0), "{}", trace.outcome.message);
    }
    // Without irreversible calls, processes are rewound.
    let source = OPENS_AND_CLOSES
        .replace("    mprotect(sealed, 4096, PROT_READ | PROT_WRITE);\n    *sealed = 2;\n", "");
    assert_ne!(source, OPENS_AND_CLOSES);
    let mut both = PairedExecutors::of(&Place::new("reserved"), &source);
    assert_eq!((1..=10).filter(|&seed| both.run(seed).1).count(), 10);
}

/// Checks the contents of its stack where it was never used, and then uses it.
const GROWS: &str = r#"
#include <assert.h>
#include <pthread.h>

static __attribute__((noinline, no_sanitize("thread"))) long below(void)
{
    volatile long room[60000];
    long bits = 0;
    for (int i = 0; i < 40000; i++)
        bits |= room[i];
    return bits;
}

static int deep(int n)
{
    volatile char room[5000];
    room[n] = 1;
    return n == 0 ? room[0] : deep(n - 1) + room[n];
}

static void *work(void *unused)
{
    return unused;
}

int main(void)
{
    pthread_t thread;
    assert(pthread_create(&thread, 0, work, 0) == 0);
    /* Runs go on from here. */
    assert(pthread_join(thread, 0) == 0);
    assert(below() == 0);
    deep(80);
}
"#;

#[test]
fn stack_growth_is_undone_before_each_run() {
    let mut both = PairedExecutors::of(&Place::new("grows"), GROWS);
    let rewound = (1..=10).filter(|&seed| {
        let (trace, rewound) = both.run(seed);
        assert_eq!(trace.outcome.kind, OutcomeKind::Exit(0), "{}", trace.outcome.message);
        rewound
    });
    assert_eq!(rewound.count(), 10);
}

/// Changes its directory in some schedules, and starts a process in some.
const REQUESTS_MORE_MEMORY: &str = r#"
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int first;

static void *work(void *number)
{
    int none = 0, me = (long)number;
    if (__atomic_compare_exchange_n(&first, &none, me, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return 0;
    if (none == 1) {
        assert(chdir(".") == 0);
    } else if (none == 2) {
        assert(system("exit 3") == 3 << 8);
    }
    return 0;
}

int main(void)
{
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        assert(pthread_create(&threads[i], 0, work, (void *)(i % 2 + 1)) == 0);
    work((void *)3);
    for (int i = 0; i < 2; i++)
        assert(pthread_join(threads[i], 0) == 0);
}
"#;

#[test]
fn irreversible_system_calls_fall_back_to_fork() {
    let mut both = PairedExecutors::of(&Place::new("more"), REQUESTS_MORE_MEMORY);
    let rewound = (1..=60).filter(|&seed| {
        let (trace, rewound) = both.run(seed);
        assert_eq!(trace.outcome.kind, OutcomeKind::Exit(0), "{}", trace.outcome.message);
        rewound
    });
    let rewound = rewound.count();
    assert!((1..60).contains(&rewound), "{rewound} of 60");
}

/// One thread unmaps memory that another one may still read.
const USES_AFTER_UNMAPPING: &str = r#"
#include <pthread.h>
#include <stdlib.h>

static char *volatile block;

static void *release(void *unused)
{
    free(block);
    return unused;
}

int main(void)
{
    pthread_t thread;
    block = calloc(1, 1 << 20);
    block[1000] = 1;
    char *again = block;
    pthread_create(&thread, 0, release, 0);
    char *other = calloc(1, 1 << 20);
    other[1000] = again[1000];
    pthread_join(thread, 0);
    return other[1000] - 1;
}
"#;

#[test]
fn crash_ends_the_process_and_next_run_gets_a_new_one() {
    let mut both = PairedExecutors::of(&Place::new("crash"), USES_AFTER_UNMAPPING);
    let (mut ended, mut crashed) = (0, 0);
    for seed in 1..=40 {
        match both.run(seed).0.outcome.kind {
            OutcomeKind::Exit(0) => ended += 1,
            OutcomeKind::Signal(_) => crashed += 1,
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(ended > 0 && crashed > 0, "{ended} ended, {crashed} crashed");
}
