// std::shared_mutex: two readers are inside together (each waits for the other), a writer is alone. Expected:
// a reader sees all of the writer's change or nothing of it.
#include "../support.h"

#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <thread>

namespace {

std::shared_mutex lock;
int left = 0, right = 0;

std::mutex meeting_mutex;
std::condition_variable met;
int inside = 0;

void meet_other_reader()
{
    std::unique_lock guard(meeting_mutex);
    inside++;
    met.notify_all();
    met.wait(guard, [] { return inside == 2; });
}

void read_together()
{
    std::shared_lock guard(lock);
    meet_other_reader();
}

void read()
{
    std::shared_lock guard(lock);
    CHECK(left == right);
}

void write()
{
    std::unique_lock guard(lock);
    left++;
    right++;
}

} // namespace

int main()
{
    std::thread one(read_together), other(read_together);
    one.join();
    other.join();
    std::thread writer(write), reader(read);
    read();
    writer.join();
    reader.join();
    CHECK(lock.try_lock_shared() && !lock.try_lock());
    lock.unlock_shared();
    CHECK(left == 1 && right == 1);
}
