// std::random_device asks the processor itself, and programs seed by their process id: both give the same
// numbers in every run. Expected: exit 0, and what is printed does not change from run to run.
#include "../support.h"

#include <mutex>
#include <random>
#include <thread>
#include <unistd.h>

int main()
{
    std::random_device device;
    std::mutex mutex;
    auto draw = [&] {
        std::lock_guard<std::mutex> guard(mutex);
        std::mt19937 generator(device() ^ static_cast<unsigned>(getpid()) ^ static_cast<unsigned>(gettid()));
        std::printf("%u\n", static_cast<unsigned>(generator()));
    };
    std::thread first(draw), second(draw);
    first.join();
    second.join();
    std::printf("%d %d\n", getpid(), getppid());
}
