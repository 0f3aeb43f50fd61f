// An inventory checks the stock in one critical section and takes from it in another.
// pattern: check-then-act
// line: if (item->stock < count)
#include <cassert>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct Item {
    std::string name;
    int stock;
};

class Inventory {
public:
    void add(int number, const std::string &name, int stock) {
        std::lock_guard<std::mutex> guard(mutex_);
        items_[number] = std::make_shared<Item>(Item{name, stock});
    }

    std::shared_ptr<Item> find(int number) {
        std::lock_guard<std::mutex> guard(mutex_);
        auto found = items_.find(number);
        return found == items_.end() ? nullptr : found->second;
    }

    bool reserve(int number, int count) {
        auto item = find(number);
        if (!item)
            return false;
        {
            std::lock_guard<std::mutex> guard(mutex_);
            if (item->stock < count)
                return false;
        }
        std::lock_guard<std::mutex> guard(mutex_);
        item->stock -= count;
        reserved_ += count;
        return true;
    }

    int stock(int number) { return find(number)->stock; }
    int reserved() const { return reserved_; }

private:
    std::mutex mutex_;
    std::map<int, std::shared_ptr<Item>> items_;
    int reserved_ = 0;
};

class Order {
public:
    Order(Inventory &inventory, int number, int count)
        : inventory_(inventory), number_(number), count_(count) {}

    void process() { accepted_ = inventory_.reserve(number_, count_); }

private:
    Inventory &inventory_;
    int number_;
    int count_;
    bool accepted_ = false;
};

int main() {
    Inventory inventory;
    inventory.add(17, "lamp", 5);
    Order first(inventory, 17, 3), second(inventory, 17, 4);
    std::thread one([&] { first.process(); });
    std::thread two([&] { second.process(); });
    one.join();
    two.join();
    assert(inventory.stock(17) >= 0);
    std::printf("%d reserved\n", inventory.reserved());
    return 0;
}
