//! Transfers between accounts on the heap. The check of the balance and the withdrawal are two critical sections.
use std::sync::{Arc, Mutex};
use std::thread;

struct Ledger {
    accounts: Vec<Mutex<i64>>,
    fees: Mutex<i64>,
}

impl Ledger {
    fn balance(&self, account: usize) -> i64 {
        *self.accounts[account].lock().unwrap()
    }

    fn withdraw(&self, account: usize, amount: i64) -> bool {
        if cfg!(feature = "fixed") {
            let mut balance = self.accounts[account].lock().unwrap();
            if *balance < amount {
                return false;
            }
            *balance -= amount;
            return true;
        }
        if self.balance(account) < amount {
            return false;
        }
        let mut balance = self.accounts[account].lock().unwrap();
        *balance -= amount;
        true
    }

    fn deposit(&self, account: usize, amount: i64) {
        *self.accounts[account].lock().unwrap() += amount - 1;
        *self.fees.lock().unwrap() += 1;
    }
}

fn main() {
    let ledger =
        Arc::new(Ledger { accounts: [10, 0, 0].into_iter().map(Mutex::new).collect(), fees: Mutex::new(0) });
    let transfers: Vec<_> = (1..3)
        .map(|to| {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                if ledger.withdraw(0, 7) {
                    ledger.deposit(to, 7);
                }
            })
        })
        .collect();
    for transfer in transfers {
        transfer.join().unwrap();
    }
    let left = ledger.balance(0);
    assert!(left >= 0, "overdrawn by {}", -left);
}
