//! `tracemill recv`: recordings of calls that other machines send.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use tracemill_live::calls_network::{CALLS_PORT, CallReceiver, ReceivedRecording};
use tracemill_model::error::Error;

use crate::args::RecvOptions;
use crate::interrupt;
use crate::report::{Outcome, Reporter};

/// Receives recordings until an interrupt.
pub(crate) fn run(options: &RecvOptions) -> Result<Outcome, Error> {
    let address = options.listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let folder = options.data.as_deref().unwrap_or(Path::new("."));
    let receiver = CallReceiver::listen(address, options.port.unwrap_or(CALLS_PORT), folder)?;
    let mut reporter = Reporter::new(options.messages);
    let address = receiver.address().map_err(|error| Error::io("listen on", folder, &error))?;
    reporter.note(&format!("listening on {address}: an interrupt (Ctrl-C) ends it"));
    interrupt::ends_growing();
    receiver.run(|happened| {
        let mut has_one = false;
        for one in happened {
            match one {
                ReceivedRecording::Begun(peer, folder) => {
                    reporter.note(&format!("{peer} sends {}", folder.display()));
                }
                ReceivedRecording::Whole(folder, bytes) => {
                    reporter.note(&format!("{} is complete: {bytes} bytes of records", folder.display()));
                    has_one = true;
                }
                ReceivedRecording::Broken(error) => {
                    reporter.fault(&error);
                    has_one = true;
                }
            }
        }
        let is_over = options.once && has_one || interrupt::has_ended_growing();
        !is_over
    });
    Ok(reporter.outcome())
}
