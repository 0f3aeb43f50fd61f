// A registry is created by the first thread that asks for it. The pointer is stored before the registry is filled.
// pattern: publication before construction
// line: capacity_ = capacity;
#include <cassert>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

class Registry {
public:
    static Registry *get() {
        Registry *registry = instance_;
        if (registry == nullptr) {
            registry = new Registry;
            instance_ = registry;
            registry->open("services", 16);
        }
        return registry;
    }

    int capacity() const { return capacity_; }

    const char *name() const { return name_; }

    void add(std::function<int(int)> service) { services_.push_back(std::move(service)); }

    int call(int value) const {
        for (const auto &service : services_)
            value = service(value);
        return value;
    }

private:
    Registry() = default;

    void open(const char *name, int capacity) {
        name_ = name;
        capacity_ = capacity;
    }

    static Registry *instance_;
    const char *name_;
    int capacity_;
    std::vector<std::function<int(int)>> services_;
};

Registry *Registry::instance_ = nullptr;

class Client {
public:
    explicit Client(int number) : number_(number) {}

    void run() {
        Registry *registry = Registry::get();
        slots_ = registry->capacity();
        assert(slots_ > 0);
    }

    int slots() const { return slots_; }
    int number() const { return number_; }

private:
    int number_;
    int slots_ = 0;
};

int main() {
    std::vector<std::unique_ptr<Client>> clients;
    for (int number = 0; number < 2; number++)
        clients.push_back(std::make_unique<Client>(number));
    std::vector<std::thread> threads;
    for (auto &client : clients)
        threads.emplace_back([&client] { client->run(); });
    for (auto &thread : threads)
        thread.join();
    int slots = 0;
    for (const auto &client : clients)
        slots += client->slots();
    std::printf("%d slots in %s\n", slots, Registry::get()->name());
    return 0;
}
