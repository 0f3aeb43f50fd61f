// Accounts in a ledger, each with its own lock. The error: a transfer locks the payer first and then the payee, so that two
// transfers in opposite directions wait for each other.
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

struct Account {
    name: &'static str,
    balance: i64,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    other: usize,
    amount: i64,
}

struct Ledger {
    accounts: Vec<Mutex<Account>>,
}

impl Account {
    fn new(name: &'static str, balance: i64) -> Self {
        Self { name, balance, entries: Vec::new() }
    }

    fn can_pay(&self, amount: i64) -> bool {
        self.balance >= amount
    }

    fn book(&mut self, other: usize, amount: i64) {
        self.balance += amount;
        self.entries.push(Entry { other, amount });
    }

    fn turnover(&self) -> i64 {
        self.entries.iter().map(|entry| entry.amount.abs()).sum()
    }

    fn partners(&self) -> usize {
        let mut others: Vec<usize> = self.entries.iter().map(|entry| entry.other).collect();
        others.sort_unstable();
        others.dedup();
        others.len()
    }
}

impl Ledger {
    fn new(names: &[&'static str]) -> Self {
        let accounts = names.iter().map(|name| Mutex::new(Account::new(name, 100)));
        Self { accounts: accounts.collect() }
    }

    fn account(&self, number: usize) -> MutexGuard<'_, Account> {
        self.accounts[number].lock().unwrap()
    }

    fn transfer(&self, from: usize, to: usize, amount: i64) -> bool {
        let mut payer = self.account(from);
        if !payer.can_pay(amount) {
            return false;
        }
        let mut payee = self.account(to);
        payer.book(to, -amount);
        payee.book(from, amount);
        true
    }

    fn total(&self) -> i64 {
        (0..self.accounts.len()).map(|number| self.account(number).balance).sum()
    }

    fn print(&self) {
        for number in 0..self.accounts.len() {
            let account = self.account(number);
            println!(
                "{}: {} after {} with {} partners",
                account.name,
                account.balance,
                account.turnover(),
                account.partners()
            );
        }
    }
}

fn standing_orders(clerk: usize, accounts: usize) -> Vec<(usize, usize, i64)> {
    let order = |number: usize| {
        let from = (clerk + number) % accounts;
        let to = (from + 1 + clerk) % accounts;
        (from, to, 5 + (clerk * 3 + number) as i64)
    };
    (0..2).map(order).filter(|(from, to, _)| from != to).collect()
}

fn main() {
    let names = ["rent", "wages", "sales"];
    let ledger = Arc::new(Ledger::new(&names));
    let clerks: Vec<_> = (0..2)
        .map(|clerk| {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                let orders = standing_orders(clerk, 3);
                orders.iter().filter(|(from, to, amount)| ledger.transfer(*from, *to, *amount)).count()
            })
        })
        .collect();
    let done: usize = clerks.into_iter().map(|clerk| clerk.join().unwrap()).sum();
    println!("{done} transfers");
    ledger.print();
    assert_eq!(ledger.total(), 300);
}
