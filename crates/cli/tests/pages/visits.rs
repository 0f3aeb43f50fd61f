//! A page counts its visits by a load and a store instead of one update.
// pattern: lost update
// line: self.hits.store(seen + 1, Ordering::SeqCst);
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

struct Page {
    path: &'static str,
    hits: AtomicUsize,
}

impl Page {
    fn visit(&self) {
        let seen = self.hits.load(Ordering::SeqCst);
        self.hits.store(seen + 1, Ordering::SeqCst);
    }
}

struct Site {
    pages: Vec<Page>,
    log: Mutex<Vec<String>>,
}

impl Site {
    fn new(paths: &[&'static str]) -> Self {
        let pages = paths.iter().map(|path| Page { path, hits: AtomicUsize::new(0) }).collect();
        Self { pages, log: Mutex::new(Vec::new()) }
    }

    fn serve(&self, path: &str) -> bool {
        let Some(page) = self.pages.iter().find(|page| page.path == path) else {
            self.log.lock().unwrap().push(format!("no page {path}"));
            return false;
        };
        page.visit();
        true
    }

    fn hits(&self) -> usize {
        self.pages.iter().map(|page| page.hits.load(Ordering::SeqCst)).sum()
    }
}

fn main() {
    let site = Arc::new(Site::new(&["/", "/about"]));
    let (served, results) = mpsc::channel();
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (site, served) = (Arc::clone(&site), served.clone());
            thread::spawn(move || served.send(site.serve("/about")).unwrap())
        })
        .collect();
    drop(served);
    for thread in threads {
        thread.join().unwrap();
    }
    let answered = results.iter().filter(|&found| found).count();
    assert_eq!(site.hits(), answered);
}
