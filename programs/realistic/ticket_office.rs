// Ticket offices sell seats of several shows. The error: an office looks for a free seat under the lock, asks the customer,
// and marks the seat as sold under the lock again without looking.
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    Free,
    Sold(usize),
}

struct Show {
    name: &'static str,
    seats: Vec<Seat>,
    sales: usize,
}

struct Theatre {
    shows: Vec<Mutex<Show>>,
}

impl Show {
    fn new(name: &'static str, seats: usize) -> Self {
        Self { name, seats: vec![Seat::Free; seats], sales: 0 }
    }

    fn free_seat(&self) -> Option<usize> {
        self.seats.iter().position(|seat| *seat == Seat::Free)
    }

    fn sell(&mut self, seat: usize, customer: usize) {
        assert_eq!(self.seats[seat], Seat::Free, "seat {seat} is sold twice");
        self.seats[seat] = Seat::Sold(customer);
        self.sales += 1;
    }

    fn customers(&self) -> Vec<usize> {
        let sold = self.seats.iter().filter_map(|seat| match seat {
            Seat::Sold(customer) => Some(*customer),
            Seat::Free => None,
        });
        sold.collect()
    }
}

impl Theatre {
    fn new() -> Self {
        let shows = [("Hamlet", 3), ("Faust", 2)];
        Self { shows: shows.iter().map(|(name, seats)| Mutex::new(Show::new(name, *seats))).collect() }
    }

    fn offer(&self, show: usize) -> Option<usize> {
        self.shows[show].lock().unwrap().free_seat()
    }

    fn confirm(&self, show: usize, seat: usize, customer: usize) {
        self.shows[show].lock().unwrap().sell(seat, customer);
    }

    fn print(&self) {
        for show in &self.shows {
            let show = show.lock().unwrap();
            println!("{}: {} sold to {:?}", show.name, show.sales, show.customers());
        }
    }
}

struct Office {
    number: usize,
    theatre: Arc<Theatre>,
}

impl Office {
    fn wants(&self, customer: usize, seat: usize) -> bool {
        (customer * 7 + seat * 3 + self.number) % 5 != 0
    }

    fn serve(&self, customer: usize) -> bool {
        let show = customer % 2;
        let Some(seat) = self.theatre.offer(show) else { return false };
        if !self.wants(customer, seat) {
            return false;
        }
        self.theatre.confirm(show, seat, customer);
        true
    }

    fn open(&self) -> usize {
        (0..3).filter(|at| self.serve(10 * self.number + at)).count()
    }
}

fn main() {
    let theatre = Arc::new(Theatre::new());
    let offices: Vec<_> = (0..2)
        .map(|number| {
            let office = Office { number, theatre: Arc::clone(&theatre) };
            thread::spawn(move || office.open())
        })
        .collect();
    let results: Vec<_> = offices.into_iter().map(|office| office.join()).collect();
    for result in results {
        println!("{} tickets", result.expect("the office closes without an error"));
    }
    theatre.print();
}
