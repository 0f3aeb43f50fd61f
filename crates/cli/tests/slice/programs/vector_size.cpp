// Two threads add to a vector of our own.
#include "noise.h"
#include <cstdlib>
#include <thread>
class Numbers {
public:
    void add(int number)
    {
        unsigned at = size; // ROOT
        room[at] = number;
        size = at + 1; // ROOT
    }
    unsigned count() const { return size; }

private:
    int room[8];
    volatile unsigned size = 0;
};
static Numbers numbers;
int main()
{
    pthread_t other;
    pthread_create(&other, nullptr, noise, nullptr);
    std::thread a([] { numbers.add(1); });
    std::thread b([] { numbers.add(2); });
    a.join();
    b.join();
    pthread_join(other, nullptr); // UNRELATED
    if (numbers.count() != 2)
        abort(); // CAUSE
}
