// Sensors notify observers. The error: `notify` copies the list of observers under the lock and calls them without it, so
// that an observer may be called after it was removed.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

class Observer {
public:
    virtual ~Observer() = default;
    virtual void changed(int value) = 0;
};

class Display : public Observer {
public:
    void changed(int value) override
    {
        assert(attached_);
        last_ = value;
        updates_++;
    }

    void attach() { attached_ = true; }
    void detach() { attached_ = false; }
    int updates() const { return updates_; }

private:
    std::atomic<bool> attached_{false};
    std::atomic<int> last_{0};
    std::atomic<int> updates_{0};
};

class Sensor {
public:
    void add(Observer *observer)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        observers_.push_back(observer);
    }

    void remove(Observer *observer)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        observers_.erase(std::remove(observers_.begin(), observers_.end(), observer), observers_.end());
    }

    void measure(int value)
    {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            value_ = value;
        }
        notify(value);
    }

    int value() const
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return value_;
    }

private:
    std::vector<Observer *> observers() const
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return observers_;
    }

    void notify(int value)
    {
        for (Observer *observer : observers())
            observer->changed(value);
    }

    mutable std::mutex mutex_;
    std::vector<Observer *> observers_;
    int value_ = 0;
};

class Window {
public:
    explicit Window(Sensor &sensor) : sensor_(sensor) {}

    void open()
    {
        display_.attach();
        sensor_.add(&display_);
    }

    void close()
    {
        sensor_.remove(&display_);
        display_.detach();
    }

    int updates() const { return display_.updates(); }

private:
    Sensor &sensor_;
    Display display_;
};

int main()
{
    Sensor sensor;
    std::vector<std::unique_ptr<Window>> windows;
    for (int i = 0; i < 2; i++)
        windows.push_back(std::make_unique<Window>(sensor));
    for (auto &window : windows)
        window->open();
    std::thread measuring([&sensor] {
        for (int i = 0; i < 4; i++)
            sensor.measure(20 + i);
    });
    std::thread closing([&windows] {
        for (auto &window : windows)
            window->close();
    });
    measuring.join();
    closing.join();
    std::printf("value %d, %d updates\n", sensor.value(), windows[0]->updates() + windows[1]->updates());
    return 0;
}
