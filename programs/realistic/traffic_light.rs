// Traffic lights at a crossing, controlled by two directions of traffic. The error: a direction checks that the other one is
// red, and then turns green itself in a second step.
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Color {
    Red,
    Green,
}

struct Light {
    color: AtomicU8,
    changes: AtomicUsize,
}

struct Crossing {
    lights: [Light; 2],
    inside: [AtomicUsize; 2],
}

impl Light {
    fn new() -> Self {
        Self { color: AtomicU8::new(0), changes: AtomicUsize::new(0) }
    }

    fn color(&self) -> Color {
        match self.color.load(Ordering::SeqCst) {
            0 => Color::Red,
            _ => Color::Green,
        }
    }

    fn set(&self, color: Color) {
        self.color.store(u8::from(color == Color::Green), Ordering::SeqCst);
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    fn changes(&self) -> usize {
        self.changes.load(Ordering::SeqCst)
    }
}

impl Crossing {
    fn new() -> Self {
        Self {
            lights: [Light::new(), Light::new()],
            inside: [AtomicUsize::new(0), AtomicUsize::new(0)],
        }
    }

    fn other(direction: usize) -> usize {
        1 - direction
    }

    fn try_green(&self, direction: usize) -> bool {
        if self.lights[Self::other(direction)].color() == Color::Green {
            return false;
        }
        self.lights[direction].set(Color::Green);
        true
    }

    fn red(&self, direction: usize) {
        self.lights[direction].set(Color::Red);
    }

    fn pass(&self, direction: usize) {
        self.inside[direction].fetch_add(1, Ordering::SeqCst);
        let crossing = self.inside[Self::other(direction)].load(Ordering::SeqCst);
        assert_eq!(crossing, 0, "cars of both directions are on the crossing");
        self.inside[direction].fetch_sub(1, Ordering::SeqCst);
    }
}

fn drive(crossing: &Crossing, direction: usize, cars: usize) -> usize {
    let mut passed = 0;
    for _ in 0..cars {
        if crossing.try_green(direction) {
            crossing.pass(direction);
            crossing.red(direction);
            passed += 1;
        }
    }
    passed
}

fn main() {
    let crossing = Arc::new(Crossing::new());
    let morning = Arc::new(Barrier::new(2));
    let directions: Vec<_> = (0..2)
        .map(|direction| {
            let (crossing, morning) = (Arc::clone(&crossing), Arc::clone(&morning));
            thread::spawn(move || {
                morning.wait();
                drive(&crossing, direction, 4)
            })
        })
        .collect();
    for (direction, cars) in directions.into_iter().enumerate() {
        let passed = cars.join().expect("no crash");
        println!("direction {direction}: {passed} cars, {} changes", crossing.lights[direction].changes());
    }
}
