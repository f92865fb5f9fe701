//! Access: the token, and the names by which a browser reaches the server.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Method};
use tracemill_answers::{Answer, ApiError, random_name};
use tracemill_model::error::Result;

/// The secrets of a server.
pub(crate) struct Guard {
    pub(crate) token: String,
    /// Good once, and not for long: other users of the machine see the command line of the browser.
    ticket: Mutex<Option<(String, Instant)>>,
    hosts: Hosts,
}

/// Names in `Host` by which a server is reached, without a port.
pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    /// The names of this machine, the address that a server listens on, which is printed, and may be one of this machine
    /// beside 127.0.0.1, and those that were allowed.
    pub(crate) fn new(allowed: &[String], address: IpAddr) -> Hosts {
        let printed = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        let own = ["127.0.0.1", "localhost", "[::1]", &printed];
        Hosts(own.into_iter().chain(allowed.iter().map(String::as_str)).map(str::to_ascii_lowercase).collect())
    }

    /// Is the name that a request asks for one of these?
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Answer<()> {
        let host = headers.get("host").map_or("", |value| value.to_str().unwrap_or("?"));
        match self.0.iter().any(|own| *own == without_port(host).to_ascii_lowercase()) {
            true => Ok(()),
            false => Err(ApiError::new(403, "host", "the server does not have this name; --allow-host lets one in")),
        }
    }
}

/// How long a ticket is good.
const TICKET_LIFE: Duration = Duration::from_secs(60);

impl Guard {
    /// Makes the secrets of a server with these names.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn new(hosts: Hosts) -> Result<Guard> {
        let ticket = (random_name()?, Instant::now());
        Ok(Guard { token: random_name()?, ticket: Mutex::new(Some(ticket)), hosts })
    }

    /// The ticket, for the address that is given to a browser.
    pub(crate) fn ticket(&self) -> Option<String> {
        self.ticket.lock().ok()?.as_ref().map(|(ticket, _)| ticket.clone())
    }

    /// The token for a ticket, once.
    pub(crate) fn redeem(&self, ticket: &str) -> Option<&str> {
        let mut own = self.ticket.lock().ok()?;
        let is_it = own.as_ref().is_some_and(|(own, made)| made.elapsed() < TICKET_LIFE && is_same(own, ticket));
        if is_it {
            *own = None;
        }
        is_it.then_some(&*self.token)
    }

    /// Is the request one that a page of this server makes, as far as the browser tells?
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn check_origin(&self, headers: &HeaderMap, is_api: bool) -> Answer<()> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        self.hosts.check(headers)?;
        let host = text("host").unwrap_or_default();
        let is_foreign = text("origin").is_some_and(|origin| origin != format!("http://{host}"));
        if is_foreign || is_api && text("sec-fetch-site") == Some("cross-site") {
            return Err(ApiError::new(403, "origin", "the request comes from a page of another server"));
        }
        Ok(())
    }

    /// Has the request the token?
    ///
    /// # Errors
    /// When it has not.
    pub(crate) fn check_token(&self, headers: &HeaderMap) -> Answer<()> {
        let given = headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        if given.is_some_and(|given| is_same(given, &self.token)) {
            return Ok(());
        }
        Err(ApiError::new(401, "token", "the request has no token of this server; open the address that it printed"))
    }
}

/// Is a method one that is answered here?
///
/// # Errors
/// When it is not.
pub(crate) fn check_method(method: &Method, is_post: bool) -> Answer<()> {
    let is_right = if is_post { method == Method::POST } else { method == Method::GET || method == Method::HEAD };
    if is_right { Ok(()) } else { Err(ApiError::new(405, "method", format!("{method} is not answered here"))) }
}

fn without_port(host: &str) -> &str {
    let end = if host.starts_with('[') { host.find(']').map(|at| at + 1) } else { host.find(':') };
    match end {
        Some(end)
            if host[end..].strip_prefix(':').is_none_or(|port| port.bytes().all(|byte| byte.is_ascii_digit())) =>
        {
            &host[..end]
        }
        _ => host,
    }
}

/// Are two texts the same? Takes as long for those that are not.
fn is_same(a: &str, b: &str) -> bool {
    let differs = a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differs) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (axum::http::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn names_and_origins_are_those_of_this_server() {
        let address = "127.0.0.2".parse().unwrap();
        let guard = Guard::new(Hosts::new(&["box.example".to_string()], address)).unwrap();
        let is_let_in = |list: &[(&'static str, &str)]| guard.check_origin(&headers(list), true).is_ok();
        for host in ["127.0.0.1", "127.0.0.1:80", "LOCALHOST:1", "[::1]:9", "[::1]", "box.example:7", "127.0.0.2:1"] {
            assert!(is_let_in(&[("host", host)]), "{host}");
        }
        for host in ["", "evil", "127.0.0.1.evil", "localhost:x", "[::2]:9", "localhost.evil:80", "127.0.0.1:80:80"] {
            assert!(!is_let_in(&[("host", host)]), "{host}");
        }
        assert!(is_let_in(&[("host", "localhost:1"), ("origin", "http://localhost:1")]));
        for origin in ["http://localhost:2", "https://localhost:1", "null", "file://"] {
            assert!(!is_let_in(&[("host", "localhost:1"), ("origin", origin)]), "{origin}");
        }
        assert!(!is_let_in(&[("host", "localhost:1"), ("sec-fetch-site", "cross-site")]));
    }

    #[test]
    fn a_ticket_is_good_once() {
        let guard = Guard::new(Hosts::new(&[], "fe80::1".parse().unwrap())).unwrap();
        assert!(guard.check_origin(&headers(&[("host", "[fe80::1]:7")]), true).is_ok());
        let ticket = guard.ticket().unwrap();
        assert_eq!(guard.redeem("x"), None);
        assert_eq!(guard.redeem(&ticket), Some(&*guard.token));
        assert_eq!(guard.redeem(&ticket), None);
        assert_eq!((guard.token.len(), is_same(&guard.token, &ticket)), (43, false));
        let bearer = format!("Bearer {}", guard.token);
        assert!(guard.check_token(&headers(&[("authorization", &bearer)])).is_ok());
        assert!(guard.check_token(&headers(&[("authorization", &bearer[..40])])).is_err());
        assert!(guard.check_token(&headers(&[])).is_err());
    }
}
