//! `unsnarl replay --program`: the schedule of a failure on a changed build.

mod common;

use common::Place;

impl Place {
    /// Compiles a source into a program of this name. All of them come from one file, like builds of one program.
    fn build(&self, name: &str, source: &str) {
        self.write("prog.c", source);
        self.unsnarl(0, &["cc", "-O1", "-g", "-pthread", "-o", name, "prog.c"]);
    }

    /// Returns the complete output.
    #[track_caller]
    fn expect_output(&self, status: i32, args: &[&str]) -> String {
        let (stdout, stderr) = self.exits(status, args);
        stdout + &stderr
    }

    /// Returns the output for the other build.
    fn verdict(&self, status: i32, program: &str) -> String {
        let report = self.json(status, &["replay", "--json", "bug.snarl", "--program", program]);
        report["verdict"].as_str().expect("a verdict").to_owned()
    }
}

impl Place {
    /// Returns the verdict on the other build, whatever it is.
    fn any_verdict(&self, program: &str) -> String {
        let output = self.ends(&["replay", "--json", "bug.snarl", "--program", program]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        report["verdict"].as_str().expect("a verdict").to_owned()
    }
}

/// Returns a lost update, with `READ` and `WRITE` replaced.
fn account(head: &str, read: &str, write: &str, check: &str) -> String {
    format!(
        "#include <assert.h>\n#include <pthread.h>\n#include <stdlib.h>\n{head}\nint balance;\n\
         void *deposit(void *a) {{\n  {read}\n  {write}\n  return a;\n}}\n\
         int main(void) {{\n  pthread_t t[2];\n  for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, deposit, 0);\n\
         for (int i = 0; i < 2; i++) pthread_join(t[i], 0);\n  {check}\n}}\n"
    )
}

const READ: &str = "int now = balance;";
const WRITE: &str = "balance = now + 1;";
const CHECK: &str = "assert(balance == 2);";

#[test]
fn fix_check_distinguishes_fixed_failing_and_unreachable() {
    let place = Place::new("account");
    let lock = "#define L pthread_mutex_lock(&m)\n#define U pthread_mutex_unlock(&m)\npthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n";
    place.build("prog", &account("", READ, WRITE, CHECK));
    place.build("moved", &account("int unused;\nvoid nothing(void) {}\n\n", READ, WRITE, CHECK));
    place.build("locked", &account(lock, &format!("L;\n{READ}"), &format!("{WRITE}\nU;"), CHECK));
    place.build("half", &account(lock, &format!("L;\n{READ}\nU;"), &format!("L;\n{WRITE}\nU;"), CHECK));
    place.build("tolerant", &account("", READ, WRITE, "assert(balance > 0);"));
    place.build("gone", &account("", "int now = rand();", "(void)now;", "assert(balance == 0);"));
    place.build("other", &account("", READ, WRITE, "if (balance != 2) abort();"));
    place.unsnarl(100, &["hunt", "-o", "bug.snarl", "--", "./prog"]);

    assert_eq!(place.verdict(100, "./prog"), "failing", "nothing was changed");
    assert_eq!(place.verdict(100, "./moved"), "failing", "only the lines are others");
    assert_eq!(place.verdict(100, "./half"), "failing", "locks in the wrong places");
    assert_eq!(place.verdict(100, "./other"), "failing", "another end, and a bad one");
    assert_eq!(place.verdict(0, "./locked"), "unreachable");
    assert_eq!(place.verdict(0, "./gone"), "unreachable");
    assert_eq!(place.verdict(0, "./tolerant"), "fixed", "the same schedule, and it does no harm");

    let report = place.expect_output(0, &["replay", "bug.snarl", "--program", "./locked"]);
    assert!(report.starts_with("no longer reachable: ./locked"), "{report}");
    assert!(report.contains("is preempted before `write balance"), "{report}");
    assert!(report.contains("is blocked then, waiting to `lock m` at prog.c:"), "{report}");
    assert!(report.contains("unsnarl explore -- ./locked"), "{report}");
    let report = place.expect_output(0, &["replay", "bug.snarl", "--program", "./gone"]);
    assert!(report.contains("does not `read balance = 0` at prog.c:7 there any more"), "{report}");
    let report = place.expect_output(100, &["replay", "bug.snarl", "--program", "./other"]);
    assert!(
        report.starts_with("still failing: ./other follows the recorded schedule and fails in another way"),
        "{report}"
    );
    // Rebuilt at the same path: the old build is kept elsewhere.
    place.build("prog", &account("", READ, WRITE, "assert(balance > 0);"));
    assert_eq!(place.verdict(0, "./prog"), "fixed");
    place.expect_output(0, &["replay", "bug.snarl", "--expect", "fixed"]);
    let report = place.expect_output(96, &["replay", "bug.snarl"]);
    assert!(report.contains("`unsnarl replay --program PATH`"), "{report}");
}

#[test]
fn consistent_lock_order_makes_deadlock_unreachable() {
    let place = Place::new("deadlock");
    let source = |first: &str, second: &str| {
        format!(
            "#include <pthread.h>\npthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;\n\
             void both(pthread_mutex_t *x, pthread_mutex_t *y) {{ pthread_mutex_lock(x); pthread_mutex_lock(y); \
             pthread_mutex_unlock(y); pthread_mutex_unlock(x); }}\n\
             void *other(void *u) {{ both(&{first}, &{second}); return u; }}\n\
             int main(void) {{ pthread_t t; pthread_create(&t, 0, other, 0); both(&a, &b); return pthread_join(t, 0); }}\n"
        )
    };
    place.build("prog", &source("b", "a"));
    place.build("fixed", &source("a", "b"));
    place.unsnarl(100, &["hunt", "-o", "bug.snarl", "--", "./prog"]);
    assert_eq!(place.verdict(100, "./prog"), "failing");
    assert_eq!(place.verdict(0, "./fixed"), "unreachable");
    let report = place.expect_output(2, &["replay", "bug.snarl", "--program", "./fixed", "--relaxed"]);
    assert!(report.contains("cannot be used with"), "{report}");
}

/// A pool of workers that take jobs from a list on the heap: `taken` is counted without the lock. A job that is run
/// reads the same counters at other lines of the same functions.
const POOL: &str = r#"
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
/*HEAD*/
struct job { struct job *next; int cost; };
struct pool { pthread_mutex_t lock; struct job *jobs; int taken, idle, limit; };

static struct job *next_job(struct pool *pool) {
  pthread_mutex_lock(&pool->lock);
  struct job *job = pool->jobs;
  if (job) pool->jobs = job->next;
  pthread_mutex_unlock(&pool->lock);
  return job;
}

static int budget_left(struct pool *pool) {
  return pool->limit - pool->taken;
}

static void account_for(struct pool *pool, struct job *job) {
  /*BEFORE*/
  int before = pool->taken;
  if (before > pool->limit) abort();
  pool->taken = before + job->cost;
  /*AFTER*/
}

static void *work(void *argument) {
  struct pool *pool = argument;
  struct job *job;
  while (budget_left(pool) > 0 && (job = next_job(pool))) {
    account_for(pool, job);
    free(job);
  }
  pthread_mutex_lock(&pool->lock);
  pool->idle++;
  pthread_mutex_unlock(&pool->lock);
  return 0;
}

int main(void) {
  struct pool *pool = calloc(1, sizeof *pool);
  pthread_mutex_init(&pool->lock, 0);
  pool->limit = 100;
  for (int i = 0; i < 4; i++) {
    struct job *job = malloc(sizeof *job);
    job->next = pool->jobs, job->cost = 1, pool->jobs = job;
  }
  pthread_t workers[2];
  for (int i = 0; i < 2; i++) pthread_create(&workers[i], 0, work, pool);
  for (int i = 0; i < 2; i++) pthread_join(workers[i], 0);
  assert(pool->idle == 2 && pool->taken == 4);
  free(pool);
  return 0;
}
"#;

#[test]
fn builds_that_differ_elsewhere_still_fail() {
    let place = Place::new("pool");
    let locked = POOL
        .replace("/*BEFORE*/", "pthread_mutex_lock(&pool->lock);")
        .replace("/*AFTER*/", "pthread_mutex_unlock(&pool->lock);");
    place.build("prog", POOL);
    std::fs::copy(place.path("prog"), place.path("copy")).unwrap();
    place.build("rebuilt", POOL);
    place.build(
        "unrelated",
        &POOL.replace("/*HEAD*/", "int spare[100];\nint more(int n) { return spare[n] + n; }\n"),
    );
    place.build("other_line", &POOL.replace("/*BEFORE*/", "if (!job) return;"));
    place.build("renamed", &POOL.replace("account_for", "charge").replace("/*BEFORE*/", "if (!job) return;"));
    place.build("locked", &locked);
    for strategy in ["random", "race", "pct"] {
        for seed in ["1", "2", "3", "4"] {
            place.unsnarl(
                100,
                &["explore", "-o", "bug.snarl", "--strategy", strategy, "--seed", seed, "--", "./prog"],
            );
            let case = format!("{strategy}, seed {seed}");
            assert_eq!(place.verdict(100, "./copy"), "failing", "{case}");
            assert_eq!(place.verdict(100, "./rebuilt"), "failing", "{case}");
            assert_eq!(place.verdict(100, "./unrelated"), "failing", "{case}");
            let changed = place.any_verdict("./other_line");
            assert!(["failing", "cannot-tell"].contains(&changed.as_str()), "{case}: {changed}");
            let renamed = place.any_verdict("./renamed");
            assert!(["failing", "cannot-tell"].contains(&renamed.as_str()), "{case}: {renamed}");
            let locked = place.any_verdict("./locked");
            assert_ne!(locked, "failing", "{case}");
        }
    }
}
