// std::atomic of integers, a pointer, a bool and a small struct, std::atomic_flag, and a shared_ptr handed
// over atomically. Expected: the same line in every schedule.
#include "../support.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>

namespace {

struct Point {
    int x, y;
};

std::atomic<long> sum{0};
std::atomic<Point> point{Point{0, 0}};
std::atomic_flag winner_known = ATOMIC_FLAG_INIT;
std::atomic<int> winners{0};
std::shared_ptr<int> shared = std::make_shared<int>(0);

void work()
{
    sum += 5;
    sum.fetch_sub(1, std::memory_order_relaxed);
    Point seen = point.load();
    while (!point.compare_exchange_weak(seen, Point{seen.x + 1, seen.y + 1}))
        ;
    if (!winner_known.test_and_set())
        ++winners;
    auto current = std::atomic_load(&shared);
    std::shared_ptr<int> next;
    do
        next = std::make_shared<int>(*current + 1);
    while (!std::atomic_compare_exchange_weak(&shared, &current, next));
}

} // namespace

int main()
{
    std::thread one(work), other(work);
    one.join();
    other.join();
    Point last = point;
    CHECK(last.x == last.y);
    std::printf("%ld %d %d %d\n", sum.load(), last.x, winners.load(), *shared);
}
