//! Addresses of sessions of a relay daemon: `net://HOST[:PORT]/host/TARGET/SESSION`.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use tracemill_model::error::{Error, Result};

/// The port on which a relay daemon listens to viewers.
pub const PORT: u16 = 5344;

/// The address of a relay daemon, and perhaps of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveUrl {
    /// The version of the internet protocol, when it is said.
    pub family: Option<AddressFamily>,
    /// Name or address of the machine, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The session: the name of the machine that is traced, and its own.
    pub session: Option<(String, String)>,
}

/// A version of the internet protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Is this an address of a relay daemon?
pub fn is_live(path: &Path) -> bool {
    path.to_str().is_some_and(|text| scheme(text).is_some())
}

fn scheme(text: &str) -> Option<(Option<AddressFamily>, &str)> {
    let (name, rest) = text.split_once("://")?;
    match name {
        "net" => Some((None, rest)),
        "net4" => Some((Some(AddressFamily::V4), rest)),
        "net6" => Some((Some(AddressFamily::V6), rest)),
        _ => None,
    }
}

impl LiveUrl {
    /// Reads an address.
    ///
    /// # Errors
    /// Misuse, with the part that is wrong.
    pub fn parse(text: &str) -> Result<LiveUrl> {
        let wrong = |what: &str| {
            let error = Error::misuse(format!("`{text}` is no address of a live session: {what}"));
            error.with_help("write net://HOST[:PORT]/host/TARGET/SESSION, or net://HOST[:PORT] for all sessions")
        };
        let (family, rest) = scheme(text).ok_or_else(|| wrong("it does not begin with net://"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => {
                let (host, after) = inner.split_once(']').ok_or_else(|| wrong("a bracket is not closed"))?;
                match after {
                    "" => (host, None),
                    after => (host, Some(after.strip_prefix(':').ok_or_else(|| wrong("`:PORT` must follow `]`"))?)),
                }
            }
            None if authority.matches(':').count() > 1 => return Err(wrong("an IPv6 address stands in brackets")),
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        let port = match port {
            None => PORT,
            Some(port) => port.parse().ok().filter(|&port| port > 0).ok_or_else(|| wrong("the port is no number"))?,
        };
        let path = path.trim_end_matches('/');
        let session = match path.split('/').collect::<Vec<_>>()[..] {
            [""] => None,
            ["host", target, session] if !target.is_empty() && !session.is_empty() => {
                Some((target.to_string(), session.to_string()))
            }
            _ => return Err(wrong("the path is not /host/TARGET/SESSION")),
        };
        Ok(LiveUrl { family, host: host.to_string(), port, session })
    }

    /// The addresses to connect to.
    ///
    /// # Errors
    /// When there is no such host.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let failed = |why: String| Error::misuse(format!("the host `{}` cannot be found: {why}", self.host));
        let found = (self.host.as_str(), self.port).to_socket_addrs().map_err(|error| failed(error.to_string()))?;
        let fits = |address: &SocketAddr| match self.family {
            None => true,
            Some(AddressFamily::V4) => address.is_ipv4(),
            Some(AddressFamily::V6) => address.is_ipv6(),
        };
        let found: Vec<SocketAddr> = found.filter(fits).collect();
        if found.is_empty() { Err(failed("it has no address of that family".into())) } else { Ok(found) }
    }

    /// The address of one of the sessions of this relay daemon.
    #[must_use]
    pub fn with_session(&self, target: &str, session: &str) -> LiveUrl {
        LiveUrl { session: Some((target.to_string(), session.to_string())), ..self.clone() }
    }
}

impl fmt::Display for LiveUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.family {
            None => "net",
            Some(AddressFamily::V4) => "net4",
            Some(AddressFamily::V6) => "net6",
        };
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{scheme}://{open}{}{close}", self.host)?;
        if self.port != PORT {
            write!(f, ":{}", self.port)?;
        }
        match &self.session {
            Some((target, session)) => write!(f, "/host/{target}/{session}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let url = LiveUrl::parse("net://localhost/host/mill/grind").unwrap();
        assert_eq!((url.host.as_str(), url.port), ("localhost", 5344));
        assert_eq!(url.session, Some(("mill".into(), "grind".into())));
        for text in ["net://localhost/host/mill/grind", "net6://[::1]:9/host/a/b", "net4://10.0.0.1:1", "net://board"] {
            assert_eq!(LiveUrl::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(LiveUrl::parse("net://h:5344/").unwrap().to_string(), "net://h");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, what) in [
            ("tcp://h", "does not begin with net://"),
            ("net:///host/a/b", "the host is missing"),
            ("net://h:port", "the port is no number"),
            ("net://h:0", "the port is no number"),
            ("net://::1/host/a/b", "an IPv6 address stands in brackets"),
            ("net://[::1/host/a/b", "a bracket is not closed"),
            ("net://[::1]5/", "must follow"),
            ("net://h/host/a", "the path is not /host/TARGET/SESSION"),
            ("net://h/host//b", "the path is not /host/TARGET/SESSION"),
            ("net://h/guest/a/b", "the path is not /host/TARGET/SESSION"),
        ] {
            let error = LiveUrl::parse(text).unwrap_err();
            assert!(error.message().contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn families_are_kept_apart() {
        let url = LiveUrl::parse("net6://127.0.0.1").unwrap();
        assert!(url.addresses().unwrap_err().message().contains("no address of that family"));
        assert!(LiveUrl::parse("net4://127.0.0.1").unwrap().addresses().unwrap()[0].is_ipv4());
    }
}
