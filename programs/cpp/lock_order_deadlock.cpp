// Two transfers in opposite directions lock their accounts one after the other. Expected: deadlock when each
// has one.
#include <functional>
#include <mutex>
#include <thread>

namespace {

struct Account {
    std::mutex mutex;
    int balance = 100;
};

void transfer(Account &from, Account &to)
{
    std::lock_guard first(from.mutex);
    std::lock_guard second(to.mutex);
    from.balance--;
    to.balance++;
}

} // namespace

int main()
{
    Account one, other;
    std::thread there(transfer, std::ref(one), std::ref(other));
    std::thread back(transfer, std::ref(other), std::ref(one));
    there.join();
    back.join();
}
