// main takes a finished worker for one that need not be joined. Expected: when it has finished by then, the
// destructor of the joinable std::thread terminates the program.
#include <atomic>
#include <thread>

int main()
{
    std::atomic<bool> is_finished{false};
    std::thread worker([&] { is_finished = true; });
    if (!is_finished)
        worker.join();
}
