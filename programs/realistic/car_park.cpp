// A car park with several entrances. The error: an entrance reads the number of free places, opens the barrier, and then
// writes the number back.
#include <atomic>
#include <cassert>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

class CarPark {
public:
    explicit CarPark(int places) : places_(places), free_(places) {}

    int free_places() const { return free_.load(); }
    int capacity() const { return places_; }
    int inside() const { return inside_.load(); }

    bool enter()
    {
        int free = free_places();
        if (free == 0) {
            refused_++;
            return false;
        }
        open_barrier();
        set_free(free - 1);
        return true;
    }

    void leave()
    {
        inside_--;
        free_++;
    }

    int refused() const { return refused_.load(); }

private:
    void open_barrier()
    {
        int now = inside_.fetch_add(1) + 1;
        assert(now <= places_);
    }

    void set_free(int free) { free_.store(free); }

    const int places_;
    std::atomic<int> free_;
    std::atomic<int> inside_{0};
    std::atomic<int> refused_{0};
};

class Driver {
public:
    Driver(CarPark &park, std::string name, int trips) : park_(park), name_(std::move(name)), trips_(trips) {}

    void drive()
    {
        for (int i = 0; i < trips_; i++) {
            if (!park_.enter())
                continue;
            parked_++;
            shop(i);
            park_.leave();
        }
    }

    int parked() const { return parked_; }
    const std::string &name() const { return name_; }

private:
    void shop(int trip)
    {
        for (int i = 0; i <= trip; i++)
            spent_ += 3 * i + 1;
    }

    CarPark &park_;
    std::string name_;
    int trips_;
    int parked_ = 0;
    int spent_ = 0;
};

static std::vector<Driver> drivers(CarPark &park)
{
    std::vector<Driver> all;
    for (const char *name : {"Ada", "Ben", "Cleo"})
        all.emplace_back(park, name, 2);
    return all;
}

int main()
{
    CarPark park(2);
    std::vector<Driver> all = drivers(park);
    std::vector<std::thread> threads;
    for (auto &driver : all)
        threads.emplace_back([&driver] { driver.drive(); });
    for (auto &thread : threads)
        thread.join();
    for (const auto &driver : all)
        std::printf("%s parked %d times\n", driver.name().c_str(), driver.parked());
    std::printf("%d refused, %d of %d places free\n", park.refused(), park.free_places(), park.capacity());
    return 0;
}
