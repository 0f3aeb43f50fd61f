// The initialiser of a function's static variable throws the first time: that caller gets the exception, the
// next one (perhaps asleep on the guard) tries again. Expected: one failure, then one object that all others
// share.
#include "../support.h"

#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace {

std::mutex mutex;
int attempts = 0, failures = 0, successes = 0;

struct Connection {
    Connection()
    {
        std::lock_guard guard(mutex);
        if (++attempts == 1)
            throw std::runtime_error("no route to host");
    }
};

void connect()
{
    try {
        static Connection connection;
        std::lock_guard guard(mutex);
        successes++;
    } catch (const std::runtime_error &) {
        std::lock_guard guard(mutex);
        failures++;
    }
}

} // namespace

int main()
{
    std::thread one(connect), other(connect), third(connect);
    one.join();
    other.join();
    third.join();
    std::printf("%d attempts, %d failed, %d connected\n", attempts, failures, successes);
}
