// condition_variable with a predicate, wait_for that may time out at any moment, and condition_variable_any
// on a recursive mutex. Expected: every message arrives.
#include "../support.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>

namespace {

std::mutex mutex;
std::condition_variable filled;
std::queue<int> messages;

std::recursive_mutex done_mutex;
std::condition_variable_any done_changed;
bool is_done = false;

void receive(int expected, int &sum)
{
    for (int received = 0; received < expected;) {
        std::unique_lock lock(mutex);
        if (!filled.wait_for(lock, std::chrono::seconds(1), [] { return !messages.empty(); }))
            continue;
        sum += messages.front();
        messages.pop();
        received++;
    }
    std::lock_guard lock(done_mutex);
    is_done = true;
    done_changed.notify_all();
}

} // namespace

int main()
{
    int sum = 0;
    std::thread receiver(receive, 3, std::ref(sum));
    for (int message : { 1, 2, 4 }) {
        std::lock_guard lock(mutex);
        messages.push(message);
        filled.notify_one();
    }
    {
        std::unique_lock lock(done_mutex);
        done_changed.wait(lock, [] { return is_done; });
    }
    receiver.join();
    std::printf("%d\n", sum);
}
