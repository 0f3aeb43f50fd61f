// Two threads are in the middle of handling their exceptions when they switch: in a catch block, in a
// destructor run by unwinding, and in a rethrow. Expected: each sees its own exception to the end.
#include "../support.h"

#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

struct YieldsWhenUnwound {
    ~YieldsWhenUnwound()
    {
        CHECK(std::uncaught_exceptions() == 1);
        std::this_thread::yield();
        CHECK(std::uncaught_exceptions() == 1);
    }
};

void rethrow(const std::string &name)
{
    try {
        YieldsWhenUnwound guard;
        throw std::runtime_error(name);
    } catch (const std::runtime_error &error) {
        std::this_thread::yield();
        CHECK(error.what() == name && std::uncaught_exceptions() == 0);
        throw;
    }
}

void handle(const std::string &name)
{
    for (int i = 0; i < 2; i++) {
        try {
            rethrow(name);
        } catch (const std::exception &error) {
            std::this_thread::yield();
            CHECK(error.what() == name);
        }
    }
}

} // namespace

int main()
{
    std::thread one(handle, "one"), other(handle, "other");
    handle("main");
    one.join();
    other.join();
}
