//! A parallel sum, sort and reduction by rayon.

use rayon::prelude::*;

fn main() {
    rayon::ThreadPoolBuilder::new().num_threads(4).build_global().expect("a pool");
    let mut numbers: Vec<u64> = (0..20_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).collect();
    let sum: u64 = numbers.par_iter().map(|n| n % 1000).sum();
    numbers.par_sort_unstable();
    let folded = numbers.par_chunks(500).map(|part| part.iter().fold(0u64, |a, n| a.rotate_left(3) ^ n)).reduce(|| 0, |a, b| a ^ b);
    let (left, right) = rayon::join(|| numbers[..100].iter().sum::<u64>(), || numbers[100..200].iter().max().copied());
    println!("{sum} {folded} {left} {right:?} {}", numbers.is_sorted());
}
