//! Tests of random input: `TRACEMILL_SEED=17 cargo test` runs one seed only, `TRACEMILL_SEEDS=1000000` that many.

use std::ops::Range;

/// Random numbers of a seed.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    /// Numbers of a seed, however small it is.
    pub(crate) fn from_seed(seed: u64) -> Rng {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            rng.below(2);
        }
        rng
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Runs the seeds; a failure says which one.
pub(crate) fn for_each_rng(count: u64, case: impl Fn(&mut Rng)) {
    for seed in seeds(count) {
        let hook = Failed(seed, "");
        case(&mut Rng::from_seed(seed));
        std::mem::forget(hook);
    }
}

/// The seeds to run, so many unless the environment says otherwise.
pub(crate) fn seeds(count: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("TRACEMILL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TRACEMILL_SEEDS").unwrap_or(count),
    }
}

/// Shows the seed and its stream when a panic passes.
pub(crate) struct Failed<'a>(pub(crate) u64, pub(crate) &'a str);

impl Drop for Failed<'_> {
    fn drop(&mut self) {
        eprintln!("seed {}:\n{}", self.0, self.1);
    }
}
