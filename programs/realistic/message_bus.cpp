// A bus with room for one message: senders wait for room, and receivers for a message of their kind. The error: all wait
// on one condition variable, and `notify_one` may wake one that can do nothing with it.
#include <array>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

enum class Kind { order, invoice };

struct Message {
    Kind kind;
    int number;
};

class Bus {
public:
    void send(Message message)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return is_free(); });
        message_ = message;
        changed_.notify_one();
    }

    Message receive(Kind kind)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this, kind] { return has(kind); });
        Message message = *message_;
        message_.reset();
        received_++;
        changed_.notify_one();
        return message;
    }

    int received() const
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return received_;
    }

private:
    bool is_free() const { return !message_.has_value(); }
    bool has(Kind kind) const { return message_.has_value() && message_->kind == kind; }

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Message> message_;
    int received_ = 0;
};

class Department {
public:
    Department(Bus &bus, Kind kind, int expected) : bus_(bus), kind_(kind), expected_(expected) {}

    void work()
    {
        for (int i = 0; i < expected_; i++)
            handle(bus_.receive(kind_));
    }

    int sum() const { return sum_; }

private:
    void handle(const Message &message) { sum_ += message.number; }

    Bus &bus_;
    Kind kind_;
    int expected_;
    int sum_ = 0;
};

static void send_all(Bus &bus, int count)
{
    for (int i = 1; i <= count; i++) {
        bus.send({Kind::order, i});
        bus.send({Kind::invoice, 10 * i});
    }
}

int main()
{
    constexpr int messages = 2;
    Bus bus;
    std::array<Department, 2> departments{
        Department(bus, Kind::order, messages),
        Department(bus, Kind::invoice, messages),
    };
    std::vector<std::thread> threads;
    for (auto &department : departments)
        threads.emplace_back([&department] { department.work(); });
    threads.emplace_back([&bus] { send_all(bus, messages); });
    for (auto &thread : threads)
        thread.join();
    for (const auto &department : departments)
        std::printf("sum %d\n", department.sum());
    std::printf("%d messages\n", bus.received());
    return 0;
}
