// Two threads move money between two accounts in an undivided region that an object's lifetime is, and the
// region ends by an exception. Expected: nobody sees the sum change, neither during the region nor after it.
#include "../support.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <unsnarl.h>

namespace {

std::atomic<int> here{100}, there{0};

void transfer()
{
    try {
        unsnarl::undivided whole;
        here -= 30;
        there += 30;
        throw std::runtime_error("out of here");
    } catch (const std::runtime_error &) {
    }
    unsnarl::undivided look;
    UNSNARL_ASSERT(here + there == 100, "the sum is kept");
}

} // namespace

int main()
{
    std::thread first(transfer), second(transfer);
    first.join();
    second.join();
    CHECK(there == 60);
}
