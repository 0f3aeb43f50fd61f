/* The owner of a job queue takes jobs from its tail, a thief steals them from its head, as in Cilk's THE protocol.
 * Each claims a job, then checks whether the other one claims the same. The owner's last check should be under the
 * thieves' lock, but is not. Expected: the assertion fails if both give up their claims and the job is lost, which
 * takes two preemptions. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

enum { JOBS = 2, NONE = -1 };

static pthread_mutex_t thieves = PTHREAD_MUTEX_INITIALIZER;
static int jobs[JOBS], times_run[JOBS];
static atomic_int head, tail; /* jobs from head up to tail are to be run */

static void push(int job)
{
    jobs[atomic_load(&tail)] = job;
    atomic_fetch_add(&tail, 1);
}

static int steal(void)
{
    int job = NONE;
    pthread_mutex_lock(&thieves);
    int claimed = atomic_fetch_add(&head, 1);
    if (claimed < atomic_load(&tail))
        job = jobs[claimed];
    else
        atomic_store(&head, claimed);
    pthread_mutex_unlock(&thieves);
    return job;
}

static int take(void)
{
    int job = NONE, claimed = atomic_fetch_sub(&tail, 1) - 1;
    if (atomic_load(&head) <= claimed)
        return jobs[claimed];
    /* The thief may be about to give in: look again. */
    if (atomic_load(&head) <= claimed)
        job = jobs[claimed];
    else
        atomic_store(&tail, claimed + 1);
    return job;
}

static void *be_thief(void *unused)
{
    for (int attempts = 0; attempts < 2; attempts++) {
        int job = steal();
        if (job != NONE)
            times_run[job]++;
    }
    return unused;
}

int main(void)
{
    pthread_t thief;
    pthread_create(&thief, NULL, be_thief, NULL);
    for (int job = 0; job < JOBS; job++)
        push(job);
    for (int job = take(); job != NONE; job = take())
        times_run[job]++;
    pthread_join(thief, NULL);
    for (int job = 0; job < JOBS; job++)
        assert(times_run[job] == 1); /* FAIL */
    return 0;
}
