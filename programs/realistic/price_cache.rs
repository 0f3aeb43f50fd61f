// Prices that are expensive to compute are kept in a cache behind a read-write lock. The error: a miss is computed and
// inserted without looking again under the write lock, so that a price is computed twice.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Price {
    cents: u64,
    revision: u32,
}

#[derive(Default)]
struct Statistics {
    hits: AtomicU32,
    misses: AtomicU32,
}

impl Statistics {
    fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    fn miss(&self) -> u32 {
        self.misses.fetch_add(1, Ordering::Relaxed)
    }

    fn hits(&self) -> u32 {
        self.hits.load(Ordering::Relaxed)
    }

    fn misses(&self) -> u32 {
        self.misses.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct Cache {
    prices: RwLock<BTreeMap<&'static str, Price>>,
    statistics: Statistics,
}

impl Cache {
    fn find(&self, article: &str) -> Option<Price> {
        self.prices.read().unwrap().get(article).copied()
    }

    fn insert(&self, article: &'static str, price: Price) {
        self.prices.write().unwrap().insert(article, price);
    }

    fn price(&self, article: &'static str) -> Price {
        if let Some(price) = self.find(article) {
            self.statistics.hit();
            return price;
        }
        let price = self.compute(article);
        self.insert(article, price);
        price
    }

    fn compute(&self, article: &str) -> Price {
        let revision = self.statistics.miss();
        let cents = article.bytes().fold(7, |sum, byte| (sum * 31 + u64::from(byte)) % 10_000);
        Price { cents, revision }
    }

    fn len(&self) -> usize {
        self.prices.read().unwrap().len()
    }
}

struct Cart {
    articles: Vec<(&'static str, Price)>,
}

impl Cart {
    fn fill(cache: &Cache, articles: &[&'static str], first: usize) -> Self {
        let order = (0..articles.len()).map(|at| articles[(at + first) % articles.len()]);
        Self { articles: order.map(|article| (article, cache.price(article))).collect() }
    }

    fn total(&self) -> u64 {
        self.articles.iter().map(|(_, price)| price.cents).sum()
    }

    fn revisions(&self) -> Vec<(&'static str, u32)> {
        let mut all: Vec<_> = self.articles.iter().map(|(name, price)| (*name, price.revision)).collect();
        all.sort_unstable();
        all
    }
}

fn main() {
    const ARTICLES: [&str; 3] = ["bolt", "nut", "screw"];
    let cache = Arc::new(Cache::default());
    let customers: Vec<_> = (0..2)
        .map(|number| {
            let cache = Arc::clone(&cache);
            thread::spawn(move || Cart::fill(&cache, &ARTICLES, number))
        })
        .collect();
    let carts: Vec<Cart> = customers.into_iter().map(|customer| customer.join().unwrap()).collect();
    for cart in &carts {
        println!("{} cents", cart.total());
    }
    println!("{} hits, {} misses", cache.statistics.hits(), cache.statistics.misses());
    assert_eq!(carts[0].revisions(), carts[1].revisions(), "all customers see the same prices");
    assert_eq!(cache.len(), ARTICLES.len());
}
