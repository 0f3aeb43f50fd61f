// Two threads and main race to initialise a function's static variable; the constructor waits on a lock in
// the middle. Expected: it is built exactly once, and everyone sees it complete.
#include "../support.h"

#include <cstdio>
#include <mutex>
#include <thread>

namespace {

std::mutex mutex;
int constructions = 0;

struct Settings {
    int verbosity = 0;
    Settings()
    {
        constructions++;
        std::lock_guard guard(mutex);
        verbosity = 3;
    }
};

const Settings &settings()
{
    static Settings instance;
    return instance;
}

void use()
{
    {
        std::lock_guard guard(mutex);
    }
    CHECK(settings().verbosity == 3);
}

} // namespace

int main()
{
    std::thread one(use), other(use);
    use();
    one.join();
    other.join();
    std::printf("%d\n", constructions);
}
