// A mailbox of bounded size between tasks. The error: a receiver that was woken does not look again whether there is a mail,
// and another receiver may have taken it.
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

#[derive(Debug)]
struct Mail {
    sender: usize,
    number: usize,
}

#[derive(Default)]
struct State {
    mails: VecDeque<Mail>,
    closed: bool,
}

struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
}

impl State {
    fn is_empty(&self) -> bool {
        self.mails.is_empty()
    }

    fn is_full(&self, capacity: usize) -> bool {
        self.mails.len() >= capacity
    }
}

impl Mailbox {
    fn new(capacity: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), capacity }
    }

    fn send(&self, mail: Mail) {
        let mut state = self.state.lock().unwrap();
        while state.is_full(self.capacity) {
            state = self.changed.wait(state).unwrap();
        }
        state.mails.push_back(mail);
        self.changed.notify_all();
    }

    fn receive(&self) -> Option<Mail> {
        let mut state = self.state.lock().unwrap();
        if state.is_empty() {
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap();
        }
        if state.closed && state.is_empty() {
            return None;
        }
        let mail = state.mails.pop_front().expect("a mail has arrived");
        self.changed.notify_all();
        Some(mail)
    }

    fn close(&self) {
        self.state.lock().unwrap().closed = true;
        self.changed.notify_all();
    }
}

#[derive(Default)]
struct Tally {
    mails: usize,
    sum: usize,
}

impl Tally {
    fn add(&mut self, mail: &Mail) {
        self.mails += 1;
        self.sum += 10 * mail.sender + mail.number;
    }
}

fn receive_all(mailbox: &Mailbox) -> Tally {
    let mut tally = Tally::default();
    while let Some(mail) = mailbox.receive() {
        tally.add(&mail);
    }
    tally
}

fn main() {
    let mailbox = Arc::new(Mailbox::new(1));
    let receivers: Vec<_> = (0..2)
        .map(|_| {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || receive_all(&mailbox))
        })
        .collect();
    for number in 0..3 {
        mailbox.send(Mail { sender: 1, number });
    }
    mailbox.close();
    let tallies: Vec<Tally> = receivers.into_iter().map(|receiver| receiver.join().unwrap()).collect();
    let mails: usize = tallies.iter().map(|tally| tally.mails).sum();
    println!("{mails} mails, sum {}", tallies.iter().map(|tally| tally.sum).sum::<usize>());
}
