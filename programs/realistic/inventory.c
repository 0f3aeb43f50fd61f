/* A shop with a stock of articles. Orders of several articles are reserved one by one. The error: `reserve` checks the stock
   in one critical section, and takes from it in another, so that more may be sold than there is. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define ARTICLES 3
#define CUSTOMERS 3
#define ORDERS 2

struct article {
    pthread_mutex_t mutex;
    const char *name;
    int stock;
    int reserved;
};

struct order {
    int quantities[ARTICLES];
};

static struct article articles[ARTICLES] = {
    {PTHREAD_MUTEX_INITIALIZER, "bolts", 4, 0},
    {PTHREAD_MUTEX_INITIALIZER, "nuts", 6, 0},
    {PTHREAD_MUTEX_INITIALIZER, "washers", 5, 0},
};

static int in_stock(struct article *article)
{
    pthread_mutex_lock(&article->mutex);
    int stock = article->stock;
    pthread_mutex_unlock(&article->mutex);
    return stock;
}

static void take(struct article *article, int quantity)
{
    pthread_mutex_lock(&article->mutex);
    article->stock -= quantity;
    article->reserved += quantity;
    assert(article->stock >= 0);
    pthread_mutex_unlock(&article->mutex);
}

static void put_back(struct article *article, int quantity)
{
    pthread_mutex_lock(&article->mutex);
    article->stock += quantity;
    article->reserved -= quantity;
    pthread_mutex_unlock(&article->mutex);
}

static int reserve(struct article *article, int quantity)
{
    if (in_stock(article) < quantity)
        return 0;
    take(article, quantity);
    return 1;
}

static void cancel(const struct order *order, int up_to)
{
    for (int i = 0; i < up_to; i++)
        if (order->quantities[i] > 0)
            put_back(&articles[i], order->quantities[i]);
}

static int place(const struct order *order)
{
    for (int i = 0; i < ARTICLES; i++) {
        if (order->quantities[i] > 0 && !reserve(&articles[i], order->quantities[i])) {
            cancel(order, i);
            return 0;
        }
    }
    return 1;
}

static struct order next_order(int customer, int number)
{
    struct order order;
    memset(&order, 0, sizeof order);
    for (int i = 0; i < ARTICLES; i++)
        order.quantities[i] = (customer + number + i) % 3;
    return order;
}

static void *customer(void *argument)
{
    int own = (int)(size_t)argument;
    size_t placed = 0;
    for (int i = 0; i < ORDERS; i++) {
        struct order order = next_order(own, i);
        placed += place(&order);
    }
    return (void *)placed;
}

int main(void)
{
    pthread_t customers[CUSTOMERS];
    size_t placed = 0;
    for (size_t i = 0; i < CUSTOMERS; i++)
        pthread_create(&customers[i], NULL, customer, (void *)i);
    for (int i = 0; i < CUSTOMERS; i++) {
        void *own;
        pthread_join(customers[i], &own);
        placed += (size_t)own;
    }
    printf("%zu orders\n", placed);
    return 0;
}
