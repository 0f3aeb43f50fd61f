/* A full name is built by strcpy and strcat in place while another thread compares it. Expected: the
 * assertion fails when only the first half is there. */
#include <assert.h>
#include <pthread.h>
#include <string.h>

static char full_name[32] = "Grace Hopper";
static const char *first = "Ada ", *last = "Lovelace";

static void *rename_person(void *unused)
{
    strcpy(full_name, first);
    strcat(full_name, last);
    return unused;
}

int main(void)
{
    pthread_t thread;
    char copy[32];
    pthread_create(&thread, NULL, rename_person, NULL);
    strcpy(copy, full_name);
    pthread_join(thread, NULL);
    assert(strcmp(copy, "Ada ") != 0); /* FAIL */
    return 0;
}
