// Jobs with dependencies: a job is started when the last one that it depends on has ended. The error: the count of open
// dependencies is decremented and then read again, so that two threads may both start the job, or neither does.
#include <atomic>
#include <cassert>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

class Job {
public:
    explicit Job(std::string name) : name_(std::move(name)) {}

    void add_successor(Job &successor)
    {
        successors_.push_back(&successor);
        successor.open_dependencies_++;
    }

    void run()
    {
        int before = runs_.fetch_add(1);
        assert(before == 0);
    }

    // Returns whether all dependencies have ended.
    bool dependency_ended()
    {
        open_dependencies_--;
        return is_ready();
    }

    bool is_ready() const { return open_dependencies_ == 0; }
    int runs() const { return runs_; }
    const std::vector<Job *> &successors() const { return successors_; }
    const std::string &name() const { return name_; }

private:
    std::string name_;
    std::vector<Job *> successors_;
    std::atomic<int> open_dependencies_{0};
    std::atomic<int> runs_{0};
};

class ReadyQueue {
public:
    void push(Job *job)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        jobs_.push_back(job);
    }

    Job *pop()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (jobs_.empty())
            return nullptr;
        Job *job = jobs_.front();
        jobs_.pop_front();
        return job;
    }

private:
    std::mutex mutex_;
    std::deque<Job *> jobs_;
};

class Executor {
public:
    explicit Executor(const std::vector<std::unique_ptr<Job>> &jobs)
    {
        for (const auto &job : jobs)
            if (job->is_ready())
                queue_.push(job.get());
    }

    void work()
    {
        while (Job *job = queue_.pop()) {
            job->run();
            for (Job *successor : job->successors())
                if (successor->dependency_ended())
                    queue_.push(successor);
        }
    }

private:
    ReadyQueue queue_;
};

static std::vector<std::unique_ptr<Job>> build_graph()
{
    std::vector<std::unique_ptr<Job>> jobs;
    for (const char *name : {"parse a", "parse b", "check", "generate", "link"})
        jobs.push_back(std::make_unique<Job>(name));
    jobs[0]->add_successor(*jobs[2]);
    jobs[1]->add_successor(*jobs[2]);
    jobs[2]->add_successor(*jobs[3]);
    jobs[1]->add_successor(*jobs[4]);
    jobs[3]->add_successor(*jobs[4]);
    return jobs;
}

int main()
{
    auto jobs = build_graph();
    Executor executor(jobs);
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++)
        threads.emplace_back([&executor] { executor.work(); });
    for (auto &thread : threads)
        thread.join();
    executor.work();
    for (const auto &job : jobs)
        std::printf("%s: %d\n", job->name().c_str(), job->runs());
    return 0;
}
