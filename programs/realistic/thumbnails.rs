// Workers make thumbnails of pictures that they receive from a channel, and report their progress. The error: the number of
// pending pictures is loaded and stored, not subtracted atomically.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

struct Picture {
    number: usize,
    pixels: Vec<u8>,
}

struct Thumbnail {
    number: usize,
    brightness: u8,
}

#[derive(Default)]
struct Progress {
    pending: AtomicUsize,
}

impl Progress {
    fn new(pending: usize) -> Self {
        Self { pending: AtomicUsize::new(pending) }
    }

    fn pending(&self) -> usize {
        self.pending.load(Ordering::SeqCst)
    }

    fn finish_one(&self) {
        let pending = self.pending();
        self.pending.store(pending - 1, Ordering::SeqCst);
    }
}

impl Picture {
    fn new(number: usize) -> Self {
        Self { number, pixels: (0..4).map(|at| (number * 40 + at * 9) as u8).collect() }
    }

    fn thumbnail(&self) -> Thumbnail {
        let sum: u32 = self.pixels.iter().map(|&pixel| u32::from(pixel)).sum();
        Thumbnail { number: self.number, brightness: (sum / self.pixels.len() as u32) as u8 }
    }
}

struct Worker {
    pictures: Arc<Mutex<Receiver<Picture>>>,
    thumbnails: Sender<Thumbnail>,
    progress: Arc<Progress>,
}

impl Worker {
    fn next(&self) -> Option<Picture> {
        self.pictures.lock().unwrap().try_recv().ok()
    }

    fn run(self) -> usize {
        let mut made = 0;
        while let Some(picture) = self.next() {
            self.thumbnails.send(picture.thumbnail()).unwrap();
            self.progress.finish_one();
            made += 1;
        }
        made
    }
}

fn brightest(thumbnails: &[Thumbnail]) -> Option<&Thumbnail> {
    thumbnails.iter().max_by_key(|thumbnail| (thumbnail.brightness, thumbnail.number))
}

fn main() {
    const PICTURES: usize = 4;
    let (send, pictures) = channel();
    for number in 0..PICTURES {
        send.send(Picture::new(number)).unwrap();
    }
    drop(send);
    let pictures = Arc::new(Mutex::new(pictures));
    let progress = Arc::new(Progress::new(PICTURES));
    let (thumbnails, results) = channel();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let worker = Worker {
                pictures: Arc::clone(&pictures),
                thumbnails: thumbnails.clone(),
                progress: Arc::clone(&progress),
            };
            thread::spawn(move || worker.run())
        })
        .collect();
    drop(thumbnails);
    let made: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    let results: Vec<Thumbnail> = results.iter().collect();
    let best = brightest(&results).map(|thumbnail| thumbnail.number);
    println!("{made} thumbnails, the brightest is {best:?}");
    assert_eq!(progress.pending(), 0, "no picture is pending");
}
