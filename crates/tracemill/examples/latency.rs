//! The longest time from one event to the next of another: `.. --example latency -- demo orders:taken orders:sent payload.id`.
use tracemill::Result;

pub(crate) fn run([path, from, to, by]: [&str; 4]) -> Result<Option<String>> {
    let traces = tracemill::open([path])?;
    let report = traces.latency(from, to).by(by).run()?;
    let longest = report.rows.iter().max_by_key(|row| row.durations.moments.max_ns);
    Ok(longest.map(|row| {
        let (moments, all) = (&row.durations.moments, report.all());
        let mean_us = all.mean_ns().unwrap_or_default() / 1e3;
        let longest_us = moments.max_ns as f64 / 1e3;
        format!("{:?}: {longest_us:.3} us; the mean of {} is {mean_us:.3} us", row.key, all.count)
    }))
}

pub(crate) fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, default: &'static str| arguments.get(at).map_or(default, |text| text);
    let [path, from, to] = [argument(0, "demo"), argument(1, "orders:taken"), argument(2, "orders:sent")];
    match run([path, from, to, argument(3, "payload.id")])? {
        Some(text) => println!("{text}"),
        None => println!("no `{to}` comes after a `{from}`"),
    }
    Ok(())
}
