// timed_mutex, recursive_timed_mutex and shared_timed_mutex: try_lock_for and try_lock_until give up on what
// main holds. Expected: every attempt fails, and not before its time.
#include "../support.h"

#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using std::chrono::system_clock;

namespace {

template <typename Attempt> void must_time_out(Attempt attempt)
{
    auto start = steady_clock::now();
    CHECK(!attempt());
    CHECK(steady_clock::now() - start >= 1ms);
}

} // namespace

int main()
{
    std::timed_mutex timed;
    std::recursive_timed_mutex recursive;
    std::shared_timed_mutex shared;
    std::lock_guard hold_timed(timed);
    std::lock_guard hold_recursive(recursive);
    std::shared_lock hold_shared(shared);
    CHECK(recursive.try_lock_for(1ms));

    std::thread worker([&] {
        must_time_out([&] { return timed.try_lock_for(1ms); });
        must_time_out([&] { return timed.try_lock_until(system_clock::now() + 2ms); });
        must_time_out([&] { return recursive.try_lock_until(steady_clock::now() + 1ms); });
        must_time_out([&] { return shared.try_lock_for(1ms); });
        CHECK(shared.try_lock_shared_for(1h));
        shared.unlock_shared();
    });
    worker.join();
    recursive.unlock();
}
