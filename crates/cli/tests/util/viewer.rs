//! A server of the viewer that runs, and what it answers.
#![allow(dead_code, reason = "every test file compiles this module and uses a part of it")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A server that runs.
pub(crate) struct Viewer {
    pub(crate) child: Child,
    pub(crate) address: String,
    token: String,
}

impl Viewer {
    pub(crate) fn new(options: &[&str]) -> Viewer {
        Viewer::spawn(Command::new(env!("CARGO_BIN_EXE_tracemill")), options)
    }

    /// A server that may have only so many files open.
    #[cfg(unix)]
    pub(crate) fn with_few_files(files: u32, options: &[&str]) -> Viewer {
        let mut command = Command::new("sh");
        let line = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
        command.args(["-c", &line, env!("CARGO_BIN_EXE_tracemill")]);
        Viewer::spawn(command, options)
    }

    fn spawn(mut command: Command, options: &[&str]) -> Viewer {
        // The indexes of a test are not kept for the user.
        let usual: &[&str] = if options.contains(&"--cache-dir") { &[] } else { &["--no-cache"] };
        command.args(["view", "--no-open"]).args(usual).args(options).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let (address, token) = line.trim().trim_start_matches("http://").split_once("/#token=").expect("an address");
        let viewer = Viewer { address: address.to_string(), token: token.to_string(), child };
        while !String::from_utf8_lossy(&viewer.ask("GET", "/api/session", "").1).contains("\"complete\"") {
            std::thread::sleep(Duration::from_millis(20));
        }
        viewer
    }

    /// Status and body of the answer to a request.
    pub(crate) fn ask(&self, method: &str, target: &str, body: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        // A browser fetches a file without the token.
        let secret = match target.starts_with("/api/") {
            true => format!("Authorization: Bearer {}\r\n", self.token),
            false => String::new(),
        };
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{secret}Content-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let status = String::from_utf8_lossy(&answer[9..12]).parse().expect("a status");
        (status, answer.split_off(end + 4))
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", &format!("/api/{path}"), "");
        assert_eq!(status, 200, "{path}");
        serde_json::from_slice(&body).expect("JSON")
    }

    /// Asks until the answer is as wanted.
    pub(crate) fn until(&self, path: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let answer = self.get(path);
            if is_wanted(&answer) {
                return answer;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{answer}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn export(&self, question: &Value) -> (u16, Value) {
        let (status, body) = self.ask("POST", "/api/export", &question.to_string());
        (status, serde_json::from_slice(&body).expect("JSON"))
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
