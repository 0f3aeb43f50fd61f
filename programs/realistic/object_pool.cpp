// A pool of objects that are used again. The error: `acquire` asks `empty()`, which takes the lock for itself, and then takes
// an object; in between, another thread may take the last one.
#include <cstdio>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

class Connection {
public:
    explicit Connection(int number) : number_(number) {}

    int query(int argument)
    {
        queries_++;
        return number_ + argument;
    }

    int queries() const { return queries_; }
    void reset() { dirty_ = false; }
    void use() { dirty_ = true; }
    bool is_dirty() const { return dirty_; }

private:
    int number_;
    int queries_ = 0;
    bool dirty_ = false;
};

class Pool {
public:
    explicit Pool(int size)
    {
        for (int i = 0; i < size; i++)
            free_.push_back(std::make_unique<Connection>(i));
    }

    bool empty() const
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return free_.empty();
    }

    std::unique_ptr<Connection> acquire()
    {
        if (empty())
            return create();
        return take();
    }

    void release(std::unique_ptr<Connection> connection)
    {
        if (connection->is_dirty())
            connection->reset();
        std::lock_guard<std::mutex> lock(mutex_);
        free_.push_back(std::move(connection));
    }

    int created() const
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return created_;
    }

private:
    std::unique_ptr<Connection> create()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return std::make_unique<Connection>(100 + created_++);
    }

    std::unique_ptr<Connection> take()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (free_.empty())
            throw std::logic_error("the pool is empty");
        auto connection = std::move(free_.back());
        free_.pop_back();
        return connection;
    }

    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<Connection>> free_;
    int created_ = 0;
};

class Client {
public:
    Client(Pool &pool, int number) : pool_(pool), number_(number) {}

    void run(int requests)
    {
        for (int i = 0; i < requests; i++) {
            auto connection = pool_.acquire();
            connection->use();
            sum_ += connection->query(number_ + i);
            pool_.release(std::move(connection));
        }
    }

    long sum() const { return sum_; }

private:
    Pool &pool_;
    int number_;
    long sum_ = 0;
};

int main()
{
    Pool pool(1);
    std::vector<Client> clients;
    for (int i = 0; i < 3; i++)
        clients.emplace_back(pool, i);
    std::vector<std::thread> threads;
    for (auto &client : clients)
        threads.emplace_back([&client] { client.run(3); });
    for (auto &thread : threads)
        thread.join();
    std::printf("%d more connections\n", pool.created());
    return 0;
}
