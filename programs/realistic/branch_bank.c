/* Branches of a bank move money between accounts, while an auditor adds all of it up. Each account has its own lock. The
   error: a transfer reads the balance, computes a fee without the lock, and writes the balance back. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#define ACCOUNTS 4
#define BRANCHES 3
#define TRANSFERS 4
#define INITIAL 1000

struct account {
    pthread_mutex_t mutex;
    long balance;
    int movements;
};

struct order {
    int from, to;
    long amount;
};

static struct account accounts[ACCOUNTS];
static struct account fees;

static void open_account(struct account *account, long balance)
{
    pthread_mutex_init(&account->mutex, NULL);
    account->balance = balance;
    account->movements = 0;
}

static long balance_of(struct account *account)
{
    pthread_mutex_lock(&account->mutex);
    long balance = account->balance;
    pthread_mutex_unlock(&account->mutex);
    return balance;
}

static void set_balance(struct account *account, long balance)
{
    pthread_mutex_lock(&account->mutex);
    account->balance = balance;
    account->movements++;
    pthread_mutex_unlock(&account->mutex);
}

static void deposit(struct account *account, long amount)
{
    pthread_mutex_lock(&account->mutex);
    account->balance += amount;
    account->movements++;
    pthread_mutex_unlock(&account->mutex);
}

static long fee_of(long amount)
{
    long fee = 0;
    for (long rest = amount; rest >= 10; rest /= 10)
        fee++;
    return fee;
}

static int withdraw(struct account *account, long amount)
{
    long balance = balance_of(account);
    long fee = fee_of(amount);
    if (balance < amount + fee)
        return 0;
    set_balance(account, balance - amount - fee);
    deposit(&fees, fee);
    return 1;
}

static int transfer(const struct order *order)
{
    if (order->from == order->to)
        return 0;
    if (!withdraw(&accounts[order->from], order->amount))
        return 0;
    deposit(&accounts[order->to], order->amount);
    return 1;
}

static struct order next_order(unsigned *state)
{
    struct order order;
    *state = *state * 1103515245u + 12345u;
    order.from = (int)(*state >> 16) % ACCOUNTS;
    order.to = (int)(*state >> 20) % ACCOUNTS;
    order.amount = 1 + (long)((*state >> 8) % 50);
    return order;
}

static void *branch(void *argument)
{
    unsigned state = (unsigned)(size_t)argument * 77u + 5u;
    size_t done = 0;
    for (int i = 0; i < TRANSFERS; i++) {
        struct order order = next_order(&state);
        done += transfer(&order);
    }
    return (void *)done;
}

static long total(void)
{
    long sum = balance_of(&fees);
    for (int i = 0; i < ACCOUNTS; i++)
        sum += balance_of(&accounts[i]);
    return sum;
}

int main(void)
{
    pthread_t branches[BRANCHES];
    open_account(&fees, 0);
    for (int i = 0; i < ACCOUNTS; i++)
        open_account(&accounts[i], INITIAL);
    for (size_t i = 0; i < BRANCHES; i++)
        pthread_create(&branches[i], NULL, branch, (void *)i);
    size_t done = 0;
    for (int i = 0; i < BRANCHES; i++) {
        void *own;
        pthread_join(branches[i], &own);
        done += (size_t)own;
    }
    printf("%zu transfers\n", done);
    assert(total() == ACCOUNTS * INITIAL);
    return 0;
}
