//! A program that uses `tracing`, recorded: `cargo run -p tracemill-record --features tracing --example tracing -- run.ctf`.

use tracemill_record::Recorder;
use tracemill_record::tracing::Subscriber;
use tracing::{Level, info, info_span, trace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or("run.ctf".into());
    let recorder = Recorder::options(path).start()?;
    tracing::subscriber::set_global_default(Subscriber::new().with_max_level(Level::DEBUG))?;
    for id in 0..3_u64 {
        let _request = info_span!("request", id).entered();
        let _parse = info_span!("parse").entered();
        info!(bytes = 100 * id, "parsed");
        trace!("is not recorded, and costs nothing");
    }
    recorder.finish()?;
    Ok(())
}
