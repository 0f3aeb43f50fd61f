// The thrown exception depends on a variable that another thread has changed.
#include "noise.h"
#include <cstdlib>
#include <stdexcept>
#include <thread>
static volatile int state = 1;
static int caught;
static void close_it()
{
    state = 0; // ROOT
}
static void use()
{
    if (state == 0) // ROOT
        throw std::runtime_error("closed"); // CAUSE
}
int main()
{
    pthread_t other;
    pthread_create(&other, nullptr, noise, nullptr);
    std::thread a(close_it);
    std::thread b([] {
        try {
            use();
        } catch (const std::exception &) {
            caught = 1; // CAUSE
        }
    });
    a.join();
    b.join();
    pthread_join(other, nullptr); // UNRELATED
    if (caught)
        abort(); // CAUSE
}
