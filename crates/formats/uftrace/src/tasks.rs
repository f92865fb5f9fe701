//! `task.txt`: sessions, tasks, forks and loaded libraries, and which session a task is in at a time (`SPEC.md`,
//! section 2).

use std::collections::HashMap;

use tracemill_codec::bits::read_uint;
use tracemill_codec::text::seconds;
use tracemill_model::error::Error;
use tracemill_model::schema::ByteOrder;

use super::lines::read_lines;

/// A run of a program: it has one map of its address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    pub pid: i64,
    pub start: u64,
    pub sid: String,
    pub exename: String,
    /// Libraries that were loaded later, in the order of the file.
    pub loaded: Vec<Loaded>,
}

/// A library that a session loaded while it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loaded {
    pub time: u64,
    pub base: u64,
    pub path: String,
}

/// A task and the sessions it was in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionTask {
    pub pid: i64,
    /// 0 for a thread of `pid`.
    pub parent: i64,
    /// When it began, and its place in the order of the file.
    pub start: u64,
    pub order: u32,
    /// Sessions with their first and one past their last time.
    references: Vec<(usize, u64, u64)>,
}

/// The contents of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks {
    pub sessions: Vec<Session>,
    pub tasks: HashMap<i64, SessionTask>,
    /// Times at which anything about sessions and libraries may change, sorted.
    changes: Vec<u64>,
    pub warnings: Vec<Error>,
}

impl Tasks {
    /// Reads `task.txt`. Lines that cannot be read are warnings.
    pub(super) fn read(bytes: &[u8]) -> Tasks {
        let mut tasks = Tasks::default();
        let expected = "a line that is none of SESS, TASK, FORK and DLOP with their values";
        tasks.warnings = read_lines(bytes, expected, |line| tasks.line(line));
        tasks.finish()
    }

    /// Reads the file `task` of very old data.
    pub(super) fn read_binary(bytes: &[u8], order: ByteOrder) -> Tasks {
        let number = |at: usize, len: usize| Some(read_uint(bytes.get(at..at.checked_add(len)?)?, order));
        let mut tasks = Tasks::default();
        let mut at = 0;
        while at < bytes.len() {
            let message = || {
                let skipped = bytes.len() - at;
                let error = Error::malformed("what stands here is not a record of a task").at_offset(at as u64);
                error.with_help(format!("the rest of the file, {skipped} bytes, is skipped"))
            };
            let (Some(0xface), Some(kind), Some(len)) = (number(at, 2), number(at + 2, 2), number(at + 4, 4)) else {
                tasks.warnings.push(message());
                break;
            };
            let id = |at: usize| number(at, 4).map(|id| i64::from(id as u32 as i32));
            let (Some(time), Some(pid), Some(tid)) = (number(at + 8, 8), id(at + 16), id(at + 20)) else {
                tasks.warnings.push(message());
                break;
            };
            match kind {
                3 => tasks.task(tid, pid, time),
                6 => tasks.fork(tid, pid, time),
                7 => {
                    let sid = bytes.get(at + 24..at + 40).unwrap_or(&[]);
                    let name_len = number(at + 44, 4).unwrap_or(0) as usize;
                    let name = (at + 48).checked_add(name_len).and_then(|end| bytes.get(at + 48..end)).unwrap_or(&[]);
                    let text = |bytes: &[u8]| {
                        String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or(&[])).into_owned()
                    };
                    tasks.session(pid, time, text(sid), text(name));
                }
                _ => {}
            }
            at = at.saturating_add(8).saturating_add(len as usize);
        }
        tasks.finish()
    }

    fn finish(mut self) -> Tasks {
        let starts = self.sessions.iter().map(|session| session.start);
        let loads = self.sessions.iter().flat_map(|session| &session.loaded).map(|loaded| loaded.time);
        let changes = self.tasks.values().flat_map(|task| &task.references).flat_map(|&(_, from, to)| [from, to]);
        let mut all: Vec<u64> = starts.chain(loads).chain(changes).collect();
        all.sort_unstable();
        all.dedup();
        self.changes = all;
        self
    }

    fn line(&mut self, text: &str) -> Option<()> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        if !matches!(word, "SESS" | "TASK" | "FORK" | "DLOP") {
            // A line of a kind that is not known yet, or nothing at all.
            let is_word = word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
            return (text.is_empty() || is_word && rest.starts_with("timestamp=")).then_some(());
        }
        let time = seconds(value(rest, "timestamp")?)?;
        let number = |key: &str| value(rest, key)?.parse::<i64>().ok();
        match word {
            "SESS" => {
                let pid = number("pid").or_else(|| number("tid"))?;
                self.session(pid, time, value(rest, "sid")?.to_string(), quoted(rest, "exename")?.to_string());
            }
            "TASK" => self.task(number("tid")?, number("pid")?, time),
            "FORK" => self.fork(number("pid")?, number("ppid")?, time),
            _ => {
                number("tid")?;
                let sid = value(rest, "sid")?;
                let base = u64::from_str_radix(value(rest, "base")?, 16).ok()?;
                let loaded = Loaded { time, base, path: quoted(rest, "libname")?.to_string() };
                let session = self.sessions.iter_mut().rev().find(|session| session.sid == sid)?;
                session.loaded.push(loaded);
            }
        }
        Some(())
    }

    fn session(&mut self, pid: i64, start: u64, sid: String, exename: String) {
        self.sessions.push(Session { pid, start, sid, exename, loaded: Vec::new() });
    }

    fn task(&mut self, tid: i64, pid: i64, time: u64) {
        self.enter(tid, pid, SessionTask { pid, ..SessionTask::default() }, time);
    }

    fn fork(&mut self, child: i64, parent: i64, time: u64) {
        self.enter(child, parent, SessionTask { pid: child, parent, ..SessionTask::default() }, time);
    }

    /// A task is in the latest session of `pid`, or in that of its parent, from `time` on.
    fn enter(&mut self, tid: i64, pid: i64, new: SessionTask, time: u64) {
        let of_pid =
            self.sessions.iter().enumerate().filter(|(_, session)| session.pid == pid && session.start <= time);
        let session = of_pid.max_by_key(|&(at, session)| (session.start, at)).map(|(at, _)| at);
        if let Some(task) = self.tasks.get_mut(&tid) {
            if let Some(session) = session {
                if let Some((_, _, end)) = task.references.last_mut() {
                    *end = time;
                }
                task.references.push((session, time, u64::MAX));
            }
            return;
        }
        let of_parent = || {
            let parent = self.tasks.get(&pid)?.references.last()?;
            (parent.1 <= time).then_some(parent.0)
        };
        let mut task = new;
        (task.start, task.order) = (time, self.tasks.len() as u32);
        task.references.extend(session.or_else(of_parent).map(|session| (session, time, u64::MAX)));
        self.tasks.insert(tid, task);
    }

    /// The session of a task at a time.
    pub(super) fn session_at(&self, tid: i64, time: u64) -> Option<usize> {
        let mut at = tid;
        // Each step goes up; parents may claim one another.
        for _ in 0..64 {
            let task = self.tasks.get(&at)?;
            let found = task.references.iter().find(|&&(_, from, to)| from <= time && time < to);
            if let Some(&(session, ..)) = found {
                return Some(session);
            }
            let up = if task.parent != 0 { task.parent } else { task.pid };
            if up == 0 || up == at {
                return None;
            }
            at = up;
        }
        None
    }

    /// The times around `time` between which sessions and libraries stay as they are: from the first, before the
    /// second.
    pub(super) fn unchanged_around(&self, time: u64) -> (u64, u64) {
        let at = self.changes.partition_point(|&change| change <= time);
        let from = at.checked_sub(1).map_or(0, |at| self.changes[at]);
        (from, self.changes.get(at).copied().unwrap_or(u64::MAX))
    }
}

/// The value after `key=` up to the next blank.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// The value after `key="`, up to the last quote of the line.
fn quoted<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let at = text.find(&format!("{key}=\""))?;
    let rest = &text[at + key.len() + 2..];
    Some(&rest[..rest.rfind('"')?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exec_and_fork_choose_their_session() {
        let text = b"SESS timestamp=1.5 pid=10 sid=aa exename=\"/srv/one\"\n\
            TASK timestamp=1.6 tid=10 pid=10\n\
            TASK timestamp=1.7 tid=11 pid=10\n\
            FORK timestamp=1.8 pid=12 ppid=10\n\
            SESS timestamp=2.0 tid=10 sid=bb exename=\"/srv/a \"b\"\"\n\
            TASK timestamp=2.0 tid=10 pid=10\n\
            DLOP timestamp=2.5 tid=10 sid=bb base=7f00 libname=\"./x.so\"\n";
        let tasks = Tasks::read(text);
        assert!(tasks.warnings.is_empty());
        assert_eq!(tasks.sessions[1].exename, "/srv/a \"b\"");
        let at = |tid, time| tasks.session_at(tid, time);
        assert_eq!(at(10, 1_599_999_999), None);
        assert_eq!(at(10, 1_700_000_000), Some(0));
        assert_eq!(at(10, 2_000_000_000), Some(1));
        assert_eq!((at(11, 9_000_000_000), at(12, 9_000_000_000)), (Some(0), Some(0)));
        assert_eq!(at(12, 1_700_000_000), Some(0), "before its fork a child is where its parent was");
        assert_eq!(at(99, 9_000_000_000), None);
        assert_eq!(tasks.unchanged_around(2_100_000_000), (2_000_000_000, 2_500_000_000));
        assert_eq!(tasks.sessions[1].loaded[0].path, "./x.so");
    }

    #[test]
    fn lines_that_are_none_are_told_with_their_number() {
        let tasks = Tasks::read(
            b"SESS timestamp=1.5 pid=10 sid=aa exename=\"/srv/one\"\n%$ garbage\nTASK tid=3\nNEWS timestamp=1.0\n",
        );
        let lines: Vec<_> = tasks.warnings.iter().map(|error| error.place().text.as_ref().unwrap().line).collect();
        assert_eq!(lines, [2, 3]);
    }

    #[test]
    fn the_old_binary_file_is_read() {
        let mut bytes = Vec::new();
        let mut record = |kind: u16, body: &[u8]| {
            bytes.extend(0xfaceu16.to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend((body.len() as u32).to_le_bytes());
            bytes.extend(body);
        };
        let base =
            |time: u64, pid: i32, tid: i32| [&time.to_le_bytes()[..], &pid.to_le_bytes(), &tid.to_le_bytes()].concat();
        let session =
            [&base(5, 7, 7)[..], b"0123456789abcdef", &0u32.to_le_bytes(), &6u32.to_le_bytes(), b"/srv/a\0\0"].concat();
        record(7, &session);
        record(3, &base(6, 7, 7));
        record(6, &base(7, 7, 8));
        bytes.extend([1, 2, 3]);
        let tasks = Tasks::read_binary(&bytes, ByteOrder::Little);
        assert_eq!(
            (tasks.sessions[0].sid.as_str(), tasks.sessions[0].exename.as_str()),
            ("0123456789abcdef", "/srv/a")
        );
        assert_eq!((tasks.session_at(7, 6), tasks.session_at(8, 9)), (Some(0), Some(0)));
        assert_eq!(tasks.warnings.len(), 1);
    }
}
