/* Work to be traced, and a failure at its end to be sliced.
 * traced own N: its own hash table, no library. traced library N: malloc, snprintf, memcpy, strlen, free.
 * N is in thousands of rounds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 4096

static uint64_t keys[SLOTS];
static uint32_t counts[SLOTS];
static uint64_t state = 88172645463325252ull;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void insert(uint64_t key)
{
    unsigned at = key % SLOTS;
    for (unsigned tries = 0; tries < 8; tries++, at = (at + 1) % SLOTS) {
        if (keys[at] == 0 || keys[at] == key) {
            keys[at] = key;
            counts[at]++;
            return;
        }
    }
}

static void own(long rounds)
{
    for (long i = 0; i < rounds; i++)
        insert(next() % 3000 + 1);
}

static void library(long rounds)
{
    char *last = malloc(1);
    for (long i = 0; i < rounds; i++) {
        char text[64];
        int len = snprintf(text, sizeof text, "%ld:%lu", i, (unsigned long)(next() % 3000));
        char *copy = malloc(len + 1);
        memcpy(copy, text, len + 1);
        insert(strlen(copy) + (unsigned char)copy[len - 1]);
        free(last);
        last = copy;
    }
    free(last);
}

int main(int argc, char **argv)
{
    long rounds = argc > 2 ? atol(argv[2]) * 1000 : 1000;
    if (argc > 1 && strcmp(argv[1], "own") == 0)
        own(rounds);
    else
        library(rounds);
    uint64_t sum = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        sum += counts[i];
    return sum > 0 ? 3 : 4; /* always a failure, so that there is something to slice */
}
