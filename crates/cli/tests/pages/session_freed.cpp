// A server closes a session while a request still uses it.
// pattern: use after free
// line: delete session;
#include <cassert>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

struct Session {
    int user;
    int requests;
    int limit;
};

class Server {
public:
    int open(int user) {
        std::lock_guard<std::mutex> guard(mutex_);
        int number = ++last_;
        sessions_[number] = new Session{user, 0, 3};
        return number;
    }

    Session *find(int number) {
        std::lock_guard<std::mutex> guard(mutex_);
        auto found = sessions_.find(number);
        return found == sessions_.end() ? nullptr : found->second;
    }

    void close(int number) {
        std::lock_guard<std::mutex> guard(mutex_);
        auto found = sessions_.find(number);
        if (found == sessions_.end())
            return;
        Session *session = found->second;
        sessions_.erase(found);
        session->limit = 0;
        delete session;
    }

    bool handle(int number) {
        Session *session = find(number);
        if (session == nullptr)
            return false;
        session->requests++;
        assert(session->limit == 3);
        return true;
    }

private:
    std::mutex mutex_;
    std::map<int, Session *> sessions_;
    int last_ = 0;
};

int main() {
    Server server;
    int number = server.open(17);
    bool answered = false;
    std::vector<std::function<void()>> actions{
        [&] { answered = server.handle(number); },
        [&] { server.close(number); },
    };
    std::vector<std::thread> threads;
    for (auto &action : actions)
        threads.emplace_back(action);
    for (auto &thread : threads)
        thread.join();
    std::printf("%s\n", answered ? "answered" : "closed");
    return 0;
}
