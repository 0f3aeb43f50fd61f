// A limiter of requests by a bucket of tokens that a refiller fills. The error: `try_take` checks and takes in two atomic
// steps, so that the number of tokens may become negative.
#include <atomic>
#include <cassert>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

class Bucket {
public:
    Bucket(int tokens, int capacity) : tokens_(tokens), capacity_(capacity) {}

    bool try_take()
    {
        if (!has_tokens())
            return false;
        take();
        return true;
    }

    void refill(int number)
    {
        for (int i = 0; i < number; i++)
            add();
    }

    int tokens() const { return tokens_.load(); }

private:
    bool has_tokens() const { return tokens() > 0; }

    void take()
    {
        int left = tokens_.fetch_sub(1) - 1;
        assert(left >= 0);
    }

    void add()
    {
        int now = tokens_.load();
        while (now < capacity_ && !tokens_.compare_exchange_weak(now, now + 1)) {
        }
    }

    std::atomic<int> tokens_;
    const int capacity_;
};

class Statistics {
public:
    void count(bool accepted) { (accepted ? accepted_ : refused_)++; }
    int accepted() const { return accepted_; }
    int refused() const { return refused_; }

private:
    std::atomic<int> accepted_{0};
    std::atomic<int> refused_{0};
};

class Server {
public:
    Server(Bucket &bucket, Statistics &statistics) : bucket_(bucket), statistics_(statistics) {}

    void handle(int requests)
    {
        for (int i = 0; i < requests; i++) {
            bool accepted = bucket_.try_take();
            statistics_.count(accepted);
            if (accepted)
                answer(i);
        }
    }

private:
    void answer(int request) { bytes_ += 10 * request + 1; }

    Bucket &bucket_;
    Statistics &statistics_;
    int bytes_ = 0;
};

class Refiller {
public:
    explicit Refiller(Bucket &bucket) : bucket_(bucket) {}

    void run(int rounds)
    {
        for (int i = 0; i < rounds; i++)
            bucket_.refill(1);
    }

private:
    Bucket &bucket_;
};

int main()
{
    Bucket bucket(2, 3);
    Statistics statistics;
    Refiller refiller(bucket);
    std::vector<std::unique_ptr<Server>> servers;
    for (int i = 0; i < 3; i++)
        servers.push_back(std::make_unique<Server>(bucket, statistics));
    std::vector<std::thread> threads;
    for (auto &server : servers)
        threads.emplace_back([&server] { server->handle(3); });
    threads.emplace_back([&refiller] { refiller.run(3); });
    for (auto &thread : threads)
        thread.join();
    std::printf("%d accepted, %d refused\n", statistics.accepted(), statistics.refused());
    return 0;
}
