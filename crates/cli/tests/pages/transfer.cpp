// Two transfers in opposite directions lock the accounts in opposite orders.
// pattern: lock-order deadlock
// line: to.mutex_
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

class Account {
public:
    Account(std::string owner, long balance) : owner_(std::move(owner)), balance_(balance) {}

    void transfer(Account &to, long amount) {
        std::lock_guard<std::mutex> from_guard(mutex_);
        if (balance_ < amount)
            throw std::runtime_error(owner_ + " has too little");
        std::lock_guard<std::mutex> to_guard(to.mutex_);
        balance_ -= amount;
        to.balance_ += amount;
    }

    long balance() const { return balance_; }

private:
    std::string owner_;
    long balance_;
    std::mutex mutex_;
};

class Bank {
public:
    void open(const std::string &owner, long balance) {
        accounts_.emplace(owner, std::make_shared<Account>(owner, balance));
    }

    std::shared_ptr<Account> account(const std::string &owner) const { return accounts_.at(owner); }

    void pay(const std::string &from, const std::string &to, long amount) {
        account(from)->transfer(*account(to), amount);
    }

    long total() const {
        long sum = 0;
        for (const auto &[owner, account] : accounts_)
            sum += account->balance();
        return sum;
    }

private:
    std::map<std::string, std::shared_ptr<Account>> accounts_;
};

int main() {
    Bank bank;
    bank.open("ada", 100);
    bank.open("bob", 50);
    std::vector<std::thread> tellers;
    tellers.emplace_back([&] { bank.pay("ada", "bob", 30); });
    tellers.emplace_back([&] { bank.pay("bob", "ada", 20); });
    for (auto &teller : tellers)
        teller.join();
    std::printf("total %ld\n", bank.total());
    return 0;
}
