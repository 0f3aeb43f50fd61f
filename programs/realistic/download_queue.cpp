// Downloads with priorities, and workers that fetch them. The error: `finish` wakes one worker only, so that another one
// that waits at that moment waits for ever.
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

struct Download {
    int priority;
    std::string name;

    bool operator<(const Download &other) const { return priority < other.priority; }
};

class DownloadQueue {
public:
    void add(Download download)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        waiting_.push(std::move(download));
        changed_.notify_one();
    }

    void pause()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        paused_ = true;
    }

    void resume()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        paused_ = false;
        changed_.notify_all();
    }

    void finish()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        finished_ = true;
        changed_.notify_one();
    }

    bool next(Download &download)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!may_start() && !is_over())
            changed_.wait(lock);
        if (waiting_.empty())
            return false;
        download = waiting_.top();
        waiting_.pop();
        return true;
    }

private:
    bool may_start() const { return !paused_ && !waiting_.empty(); }
    bool is_over() const { return finished_ && !paused_; }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::priority_queue<Download> waiting_;
    bool paused_ = false;
    bool finished_ = false;
};

class Worker {
public:
    explicit Worker(DownloadQueue &queue) : queue_(queue) {}

    void run()
    {
        Download download;
        while (queue_.next(download))
            fetch(download);
    }

    int bytes() const { return bytes_; }

private:
    void fetch(const Download &download)
    {
        for (char c : download.name)
            bytes_ += c == ' ' ? 0 : 1;
    }

    DownloadQueue &queue_;
    int bytes_ = 0;
};

static void control(DownloadQueue &queue)
{
    queue.pause();
    queue.add({3, "film"});
    queue.resume();
}

int main()
{
    DownloadQueue queue;
    queue.add({1, "song"});
    queue.add({2, "large book"});
    std::vector<Worker> workers(2, Worker(queue));
    std::vector<std::thread> threads;
    for (auto &worker : workers)
        threads.emplace_back([&worker] { worker.run(); });
    std::thread user([&queue] { control(queue); });
    user.join();
    queue.finish();
    for (auto &thread : threads)
        thread.join();
    std::printf("%d bytes\n", workers[0].bytes() + workers[1].bytes());
    return 0;
}
