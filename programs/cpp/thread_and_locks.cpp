// std::thread with moved threads, lambdas and references, std::mutex, std::recursive_mutex, std::scoped_lock
// over two mutexes in opposite orders. Expected: no deadlock, no update lost.
#include "../support.h"

#include <cstdio>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace {

struct Account {
    std::mutex mutex;
    int balance = 100;
};

void transfer(Account &from, Account &to, int amount)
{
    std::scoped_lock both(from.mutex, to.mutex);
    from.balance -= amount;
    to.balance += amount;
}

} // namespace

int main()
{
    Account one, other;
    std::recursive_mutex nested;
    int entries = 0;

    std::vector<std::thread> threads;
    threads.emplace_back(transfer, std::ref(one), std::ref(other), 10);
    threads.emplace_back(transfer, std::ref(other), std::ref(one), 30);
    for (int i = 0; i < 2; i++)
        threads.push_back(std::thread([&] {
            std::lock_guard outer(nested);
            std::lock_guard inner(nested);
            entries++;
        }));
    CHECK(threads[0].get_id() != std::this_thread::get_id());
    for (auto &thread : threads)
        thread.join();
    std::printf("%d %d %d\n", one.balance, other.balance, entries);
}
