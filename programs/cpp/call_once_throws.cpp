// std::call_once whose function throws the first time: that caller gets the exception, another one calls it
// again. Expected: one failure, one success, and nobody returns before the success.
#include "../support.h"

#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace {

std::once_flag once;
std::mutex mutex;
int calls = 0, failures = 0;
bool is_ready = false;

void initialise()
{
    std::lock_guard guard(mutex);
    if (++calls == 1)
        throw std::runtime_error("not yet");
    is_ready = true;
}

void use()
{
    try {
        std::call_once(once, initialise);
        std::lock_guard guard(mutex);
        CHECK(is_ready);
    } catch (const std::runtime_error &) {
        std::lock_guard guard(mutex);
        failures++;
    }
}

} // namespace

int main()
{
    std::thread one(use), other(use), third(use);
    one.join();
    other.join();
    third.join();
    std::printf("%d calls, %d failed\n", calls, failures);
}
