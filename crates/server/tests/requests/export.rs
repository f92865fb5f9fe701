//! Traces that are cut for somebody who goes away.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tracemill_model::error::{Error, ErrorKind};

use crate::{demo, input_of, served_of};

/// Far enough for a machine that is busy.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_cut_ends_when_nobody_waits_for_it() {
    let (tell, told) = channel();
    let mut input = input_of(&[demo("traces/mill")], &[]);
    input.cut = Some(Box::new(move |cut, path| {
        let begun = Instant::now();
        tell.send((path.to_path_buf(), false)).expect("somebody listens");
        while !cut.stop.load(Ordering::Relaxed) && begun.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(5));
        }
        tell.send((path.to_path_buf(), cut.stop.load(Ordering::Relaxed))).expect("somebody listens");
        Err(Error::new(ErrorKind::Io, "nobody waits"))
    }));
    let served = served_of(input);
    served.when_counted();
    let mut stream = TcpStream::connect(&served.address).expect("it listens");
    let body = r#"{"what":"trace"}"#;
    let request = format!(
        "POST /api/export HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        served.address,
        served.token,
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    let (path, _) = told.recv_timeout(LONG).expect("it begins");
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a time");
    assert!(stream.read(&mut [0; 16]).is_err(), "there is no answer yet");
    drop(stream);
    assert!(told.recv_timeout(2 * LONG).expect("it ends").1, "it goes on for nobody");
    // The file written so far is removed, too.
    let begun = Instant::now();
    while path.parent().is_some_and(std::path::Path::exists) && begun.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(path.parent().is_some_and(|folder| !folder.exists()));
    served.end();
}
