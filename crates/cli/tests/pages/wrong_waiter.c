// A warehouse with one condition variable for two kinds of goods. `store` wakes one waiter, which may be one that waits for
// the other kind.
// pattern: signal consumed by another waiter
// line: pthread_cond_signal(&house->changed);
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum kind { APPLES, PEARS, KINDS };

struct warehouse {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int stock[KINDS];
    int sold;
};

struct customer {
    struct warehouse *house;
    enum kind wants;
    pthread_t thread;
};

static void store(struct warehouse *house, enum kind kind) {
    pthread_mutex_lock(&house->lock);
    house->stock[kind]++;
    pthread_cond_signal(&house->changed);
    pthread_mutex_unlock(&house->lock);
}

static void buy(struct warehouse *house, enum kind kind) {
    pthread_mutex_lock(&house->lock);
    while (house->stock[kind] == 0)
        pthread_cond_wait(&house->changed, &house->lock);
    house->stock[kind]--;
    house->sold++;
    pthread_mutex_unlock(&house->lock);
}

static void *visit(void *arg) {
    struct customer *customer = arg;
    buy(customer->house, customer->wants);
    return NULL;
}

static struct customer *send_customer(struct warehouse *house, enum kind wants) {
    struct customer *customer = calloc(1, sizeof *customer);
    customer->house = house;
    customer->wants = wants;
    pthread_create(&customer->thread, NULL, visit, customer);
    return customer;
}

int main(void) {
    struct warehouse *house = calloc(1, sizeof *house);
    pthread_mutex_init(&house->lock, NULL);
    pthread_cond_init(&house->changed, NULL);
    struct customer *apples = send_customer(house, APPLES);
    struct customer *pears = send_customer(house, PEARS);
    store(house, PEARS);
    pthread_join(pears->thread, NULL);
    store(house, APPLES);
    pthread_join(apples->thread, NULL);
    printf("sold %d\n", house->sold);
    free(apples);
    free(pears);
    free(house);
    return 0;
}
