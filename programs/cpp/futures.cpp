// promise and future, shared_future, packaged_task, async in both launch modes, an exception through a
// future, a wait_for that may time out. Expected: the same line in every schedule.
#include "../support.h"

#include <chrono>
#include <cstdio>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

int main()
{
    std::promise<int> promise;
    std::shared_future<int> answer = promise.get_future().share();
    auto doubled = std::async(std::launch::async, [answer] { return 2 * answer.get(); });
    auto lazy = std::async(std::launch::deferred, [answer] { return answer.get() + 1; });
    auto failing = std::async(std::launch::async, []() -> int { throw std::runtime_error("as promised"); });
    std::packaged_task<int(int)> task([](int n) { return n * n; });
    auto squared = task.get_future();
    std::thread runner(std::move(task), 5);

    CHECK(answer.wait_for(std::chrono::milliseconds(1)) == std::future_status::timeout);
    std::thread fulfiller([&] { promise.set_value(21); });
    if (answer.wait_for(std::chrono::seconds(1)) == std::future_status::timeout)
        answer.wait();

    std::string caught;
    try {
        failing.get();
    } catch (const std::runtime_error &error) {
        caught = error.what();
    }
    std::printf("%d %d %d %s\n", doubled.get(), lazy.get(), squared.get(), caught.c_str());
    runner.join();
    fulfiller.join();
}
