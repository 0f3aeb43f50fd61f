// A singleton is built on first use, without any lock. Expected: the assertion fails when two threads build
// one each.
#include <atomic>
#include <cassert>
#include <thread>

namespace {

std::atomic<int> built{0};

struct Registry {
    Registry() { built++; }
};

Registry *instance = nullptr;

void use()
{
    if (instance == nullptr)
        instance = new Registry;
}

} // namespace

int main()
{
    std::thread one(use), other(use);
    one.join();
    other.join();
    assert(built == 1); /* FAIL */
}
