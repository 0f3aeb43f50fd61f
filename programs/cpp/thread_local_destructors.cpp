// Objects that are thread_local are built on first use in each thread and destroyed before join returns; a
// thread that does not use them builds none. Expected: the same line in every schedule.
#include "../support.h"

#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

namespace {

std::mutex mutex;
int alive = 0, built = 0;

struct Tracked {
    std::string text;
    explicit Tracked(const char *initial) : text(initial)
    {
        std::lock_guard guard(mutex);
        alive++;
        built++;
    }
    ~Tracked()
    {
        CHECK(text.back() == '!');
        std::lock_guard guard(mutex);
        alive--;
    }
};

thread_local Tracked first("a thread's own first text, too long to be stored in place");
thread_local Tracked second("a thread's own second text, too long to be stored in place");

void use_both()
{
    first.text += '!';
    std::this_thread::yield();
    second.text += '!';
}

} // namespace

int main()
{
    std::thread one(use_both), other(use_both), idle([] { std::this_thread::yield(); });
    one.join();
    other.join();
    idle.join();
    std::printf("%d built, %d alive\n", built, alive);
}
