/* Transfers between accounts that take both locks with trylock and retry, while an auditor sums up all accounts. The
   argument is the number of transfers of a thread. The error: the auditor releases each lock before it takes the next, so
   that it may see a transfer half done. */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define ACCOUNTS 4
#define TELLERS 3
#define START 100

static struct account {
    pthread_mutex_t mutex;
    int balance;
} accounts[ACCOUNTS];

static int transfers;
static int retries[TELLERS];

static int lock_both(struct account *a, struct account *b)
{
    pthread_mutex_lock(&a->mutex);
    if (pthread_mutex_trylock(&b->mutex) == 0)
        return 1;
    pthread_mutex_unlock(&a->mutex);
    return 0;
}

static void unlock_both(struct account *a, struct account *b)
{
    pthread_mutex_unlock(&b->mutex);
    pthread_mutex_unlock(&a->mutex);
}

static void transfer(int teller, struct account *from, struct account *to, int amount)
{
    while (!lock_both(from, to)) {
        retries[teller]++;
        sched_yield();
    }
    from->balance -= amount;
    to->balance += amount;
    unlock_both(from, to);
}

static void *work(void *argument)
{
    int teller = (int)(size_t)argument;
    unsigned draw = teller * 2654435761u + 1;
    for (int i = 0; i < transfers; i++) {
        draw = draw * 1664525u + 1013904223u;
        int from = draw >> 16 & (ACCOUNTS - 1);
        int to = (from + 1 + (draw >> 24) % (ACCOUNTS - 1)) % ACCOUNTS;
        transfer(teller, &accounts[from], &accounts[to], 1 + teller);
    }
    return NULL;
}

static int balance_of(struct account *account)
{
    pthread_mutex_lock(&account->mutex);
    int balance = account->balance;
    pthread_mutex_unlock(&account->mutex);
    return balance;
}

static void *audit(void *unused)
{
    int sum = 0;
    for (int i = 0; i < ACCOUNTS; i++)
        sum += balance_of(&accounts[i]);
    assert(sum == ACCOUNTS * START);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t tellers[TELLERS], auditor;
    transfers = argc > 1 ? atoi(argv[1]) : 20;
    for (int i = 0; i < ACCOUNTS; i++) {
        pthread_mutex_init(&accounts[i].mutex, NULL);
        accounts[i].balance = START;
    }
    for (size_t i = 0; i < TELLERS; i++)
        pthread_create(&tellers[i], NULL, work, (void *)i);
    for (int round = 0; round < 4; round++) {
        pthread_create(&auditor, NULL, audit, NULL);
        pthread_join(auditor, NULL);
    }
    for (int i = 0; i < TELLERS; i++)
        pthread_join(tellers[i], NULL);
    printf("%d retries\n", retries[0] + retries[1] + retries[2]);
    return 0;
}
