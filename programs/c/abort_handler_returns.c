/* A handler of SIGABRT that returns does not keep abort from ending the program. Expected: abort, after the
 * handler's word. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void say(int signal)
{
    (void)signal;
    if (write(1, "handled\n", 8) != 8)
        _exit(1);
}

int main(void)
{
    signal(SIGABRT, say);
    abort(); /* FAIL */
}
