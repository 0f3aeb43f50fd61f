// Two customers buy the last item: the check and the sale are two holds of the lock. Expected: in that
// schedule the second sale throws, nobody catches it, and the program terminates.
#include <mutex>
#include <stdexcept>
#include <thread>

namespace {

std::mutex mutex;
int stock = 1;

bool in_stock()
{
    std::lock_guard guard(mutex);
    return stock > 0;
}

void sell()
{
    std::lock_guard guard(mutex);
    if (stock == 0)
        throw std::logic_error("sold out"); /* FAIL */
    stock--;
}

void buy()
{
    if (in_stock())
        sell();
}

} // namespace

int main()
{
    std::thread one(buy), other(buy);
    one.join();
    other.join();
}
