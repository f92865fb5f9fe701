//! Functions that call, also in a thread, and a panic that is caught.

#[inline(never)]
fn leaf(number: u64) -> u64 {
    std::hint::black_box(number) + 1
}

#[inline(never)]
fn part(number: u64) -> u64 {
    (0..number).map(leaf).sum()
}

fn main() {
    let sum: u64 = (0..5).map(part).sum();
    let caught = std::panic::catch_unwind(|| {
        if leaf(1) == 2 {
            std::panic::resume_unwind(Box::new(7_u32));
        }
    });
    let threads: Vec<_> = (0..3).map(|number| std::thread::spawn(move || part(number))).collect();
    let sums: u64 = threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum();
    println!("{sum} {} {sums}", caught.is_err());
}
