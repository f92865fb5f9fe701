//! Random folders of uftrace: calls with arguments of every kind, events, losses, records of perf, sessions, libraries.

use std::fmt::Write;
use std::path::Path;

use crate::bits::Order;
use crate::nasty;
use crate::schemas::Rng;

/// A value that a call has.
#[derive(Clone, Copy)]
enum Argument {
    /// Bytes in the record.
    Number(u32),
    Text,
    Bytes(u32),
}

struct Function {
    address: u64,
    arguments: Vec<Argument>,
    result: Option<Argument>,
}

struct Maker<'r> {
    rng: &'r mut Rng,
    order: Order,
    word: u32,
    functions: Vec<Function>,
    records: usize,
}

const BASE: u64 = 0x5603_812e_9000;

/// Writes a folder; gives the number of records of its tasks.
pub(crate) fn write(rng: &mut Rng, folder: &Path) -> usize {
    let order = rng.pick(&[Order::Little, Order::Little, Order::Big]);
    let word = rng.pick(&[8, 8, 4]);
    let mut maker = Maker { rng, order, word, functions: Vec::new(), records: 0 };
    std::fs::create_dir_all(folder).expect("a folder can be made");
    maker.folder(folder);
    maker.records
}

impl Maker<'_> {
    fn folder(&mut self, folder: &Path) {
        let put = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("a file can be written");
        let (mut arguments, mut results, mut symbols) = (Vec::new(), Vec::new(), String::new());
        let has_size = self.rng.chance(30);
        for at in 0..2 + self.rng.below(6) {
            let (mut specs, mut own) = (Vec::new(), Vec::new());
            for argument in 1..=self.rng.below(4) {
                let (spec, kind) = self.spec();
                let place = if spec.starts_with("/f") { "fparg" } else { "arg" };
                let stack = if self.rng.chance(10) { format!("%stack+{argument}") } else { String::new() };
                specs.push(format!("{place}{argument}{spec}{stack}"));
                own.push(kind);
            }
            if !specs.is_empty() {
                arguments.push(format!("f{at}@{}", specs.join(",")));
            }
            let result = self.rng.chance(40).then(|| self.spec());
            if let Some((spec, _)) = &result {
                results.push(format!("f{at}@retval{spec}"));
            }
            let address = 0x1000 + at * 0x40;
            let letter = self.rng.pick(&["T", "t", "w", "P"]);
            let size = if has_size { "00000040 " } else { "" };
            let _ = writeln!(symbols, "{address:016x} {size}{letter} f{at}");
            self.functions.push(Function { address: BASE + address, arguments: own, result: result.map(|of| of.1) });
        }
        for (at, name) in
            ["_ZN3foo3barEv", "_ZdlPv", "name with blanks", "\u{e4}\u{20ac}", "a<b>(c)"].iter().enumerate()
        {
            let address = 0x4000 + at as u64 * 0x10;
            let size = if has_size { "00000010 " } else { "" };
            let _ = writeln!(symbols, "{address:016x} {size}T {name}");
            self.functions.push(Function { address: BASE + address, arguments: Vec::new(), result: None });
        }
        let end = if has_size { "00000000 " } else { "" };
        let _ = writeln!(symbols, "0000000000004800 {end}? __sym_end");
        put("prog.sym", format!("# symbols: 9\n# path name: /srv/prog\n{symbols}").as_bytes());

        let tids: Vec<u64> = (0..1 + self.rng.below(3)).map(|at| 4000 + at * 7).collect();
        let sid = "9eba5fdb7d4ffef9";
        let mut tasks = format!("SESS timestamp=1.000000000 pid=4000 sid={sid} exename=\"/srv/prog\"\n");
        for (at, tid) in tids.iter().enumerate() {
            let is_fork = at > 0 && self.rng.chance(40);
            let line = if is_fork {
                format!("FORK timestamp=1.00000000{} pid={tid} ppid=4000\n", at + 1)
            } else {
                format!("TASK timestamp=1.00000000{} tid={tid} pid=4000\n", at + 1)
            };
            tasks += &line;
        }
        if self.rng.chance(40) {
            tasks += &format!(
                "DLOP timestamp=1.500000000 tid=4000 sid={sid} base=7f0000000000 libname=\"./lib \u{e4}.so\"\n"
            );
        }
        put("task.txt", tasks.as_bytes());
        let map = format!(
            "{BASE:x}-{:x} r-xp 00000000 00:00 0                          /srv/prog\n\
             7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0                          [stack]\n",
            BASE + 0x5000
        );
        put(&format!("sid-{sid}.map"), map.as_bytes());

        let has_perf = self.rng.chance(30);
        let mut mask: u64 = 0x363;
        mask |= if arguments.is_empty() { 0 } else { 1 << 3 };
        mask |= if results.is_empty() { 0 } else { 1 << 4 };
        mask |= if has_size { 1 << 12 } else { 0 };
        mask |= if has_perf { 1 << 8 } else { 0 } | 1 << 7;
        let mut info = Vec::new();
        info.extend(b"Ftrace!\0");
        self.number(&mut info, 4, 4);
        self.number(&mut info, 40, 2);
        info.extend([if self.order == Order::Little { 1 } else { 2 }, if self.word == 8 { 2 } else { 1 }]);
        self.number(&mut info, mask, 8);
        let argspec = !arguments.is_empty() || !results.is_empty();
        self.number(&mut info, 0x3089 | if argspec { 1 << 10 } else { 0 }, 8);
        self.number(&mut info, 1024, 2);
        info.extend([0; 6]);
        let list: Vec<String> = tids.iter().map(u64::to_string).collect();
        let mut text = format!(
            "exename:/srv/prog\ncmdline:uftrace record \"a b\" \u{e4}\ntaskinfo:lines=2\ntaskinfo:nr_tid={}\n",
            tids.len()
        );
        let _ = writeln!(text, "taskinfo:tids={}", list.join(","));
        if argspec {
            let lines = 3 + u32::from(!arguments.is_empty()) + u32::from(!results.is_empty());
            let _ = writeln!(text, "argspec:lines={lines}");
            if !arguments.is_empty() {
                let _ = writeln!(text, "argspec:{}", arguments.join(";"));
            }
            if !results.is_empty() {
                let _ = writeln!(text, "retspec:{}", results.join(";"));
            }
            text += "argauto:atoi@arg1/s\nretauto:atoi@retval/d32\nenumauto:enum color { RED, GREEN = 5 }\n";
        }
        text += "pattern_type:simple\nuftrace_version:v0.13 ( x86_64 )\n";
        info.extend(text.as_bytes());
        put("info", &info);
        for tid in &tids {
            let bytes = self.records();
            put(&format!("{tid}.dat"), &bytes);
        }
        if self.rng.chance(50) {
            put("events.txt", b"EVENT: 1000000 prov:first\nEVENT: 1000001 prov:second:part\n");
        }
        if self.rng.chance(30) {
            put("extern.dat", "# comment\n\n2.5 a \"message\"\n 2.600000001\tsecond  \u{e4}\n".as_bytes());
        }
        if self.rng.chance(20) {
            put("default.opts", b"-t 1ns");
        }
        if has_perf {
            let bytes = self.perf(&tids);
            put("perf-cpu0.dat", &bytes);
        }
    }

    fn number(&self, out: &mut Vec<u8>, value: u64, len: usize) {
        match self.order {
            Order::Little => out.extend(&value.to_le_bytes()[..len]),
            Order::Big => out.extend(&value.to_be_bytes()[8 - len..]),
        }
    }

    fn spec(&mut self) -> (String, Argument) {
        let word = self.word;
        match self.rng.below(12) {
            0 => (String::new(), Argument::Number(word)),
            1 => {
                let letter = self.rng.pick(&["i", "u", "x"]);
                let bits = self.rng.pick(&[8, 16, 32, 64]);
                (format!("/{letter}{bits}"), Argument::Number(bits / 8))
            }
            2 => ("/c".into(), Argument::Number(1)),
            3 => ("/f32".into(), Argument::Number(4)),
            4 => ("/f64".into(), Argument::Number(8)),
            5 => ("/f80".into(), Argument::Bytes(10)),
            6 | 7 => (self.rng.pick(&["/s", "/S"]).into(), Argument::Text),
            8 => ("/p".into(), Argument::Number(word)),
            9 => ("/e:color".into(), Argument::Number(word)),
            10 => {
                let bytes = self.rng.pick(&[1, 4, 7, 24]);
                (format!("/t{bytes}:point"), Argument::Bytes(bytes))
            }
            _ => ("/d32".into(), Argument::Number(4)),
        }
    }

    fn payload(&mut self, arguments: &[Argument]) -> Vec<u8> {
        let mut out = Vec::new();
        for argument in arguments {
            match *argument {
                Argument::Number(bytes) => {
                    let value = nasty::number(self.rng, bytes * 8, false) as u64;
                    self.number(&mut out, value, bytes as usize);
                }
                Argument::Bytes(bytes) => out.extend((0..bytes).map(|_| self.rng.next() as u8)),
                Argument::Text => {
                    let mut text = nasty::text(self.rng).into_bytes();
                    match self.rng.below(8) {
                        0 => text = b"NULL".to_vec(),
                        1 => text = vec![0xff; 4],
                        2 => text.extend([0xff, 0xc3, b'x']),
                        _ => {}
                    }
                    self.number(&mut out, text.len() as u64, 2);
                    out.extend(text);
                }
            }
            // Recorders do not clean the padding; it means nothing.
            out.resize(out.len().next_multiple_of(4), 0);
        }
        out.resize(out.len().next_multiple_of(8), 0);
        out
    }

    fn record(
        &mut self,
        out: &mut Vec<u8>,
        time: u64,
        (kind, depth, address): (u64, u64, u64),
        payload: Option<Vec<u8>>,
    ) {
        self.number(out, time, 8);
        let more = u64::from(payload.is_some());
        let word = kind | more << 2 | 5 << 3 | (depth & 1023) << 6 | (address & 0xffff_ffff_ffff) << 16;
        self.number(out, word, 8);
        out.extend(payload.unwrap_or_default());
        self.records += 1;
    }

    fn records(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut time = 2_000_000_000 + self.rng.below(1000);
        let mut stack: Vec<usize> = Vec::new();
        for _ in 0..self.rng.below(40) {
            time += self.rng.pick(&[0, 1, 17, 1000, 5_000_000]);
            match self.rng.below(12) {
                0..=4 => {
                    let at = self.rng.below(self.functions.len() as u64) as usize;
                    let arguments = self.functions[at].arguments.clone();
                    let has = !arguments.is_empty() && self.rng.chance(85);
                    let payload = has.then(|| self.payload(&arguments));
                    let address = self.functions[at].address + self.rng.pick(&[0, 5]);
                    self.record(&mut out, time, (0, stack.len() as u64, address), payload);
                    stack.push(at);
                }
                5..=8 => {
                    let Some(at) = stack.pop() else { continue };
                    let result = self.functions[at].result;
                    let payload = result.filter(|_| self.rng.chance(85)).map(|result| self.payload(&[result]));
                    self.record(&mut out, time, (1, stack.len() as u64, self.functions[at].address), payload);
                }
                // A loss stays after its predecessor of the same task.
                9 if !out.is_empty() => {
                    let count = self.rng.pick(&[1, 3017]);
                    self.record(&mut out, 0, (2, 0, count), None);
                }
                _ => {
                    let (id, len) = self.rng.pick(&[
                        (100_001, 24),
                        (100_002, 16),
                        (100_004, 16),
                        (100_005, 16),
                        (100_008, 16),
                        (100_011, 4),
                        (1_000_000, 0),
                        (1_000_001, 0),
                        (1_000_077, 0),
                    ]);
                    let mut payload = None;
                    if len > 0 {
                        let mut bytes = Vec::new();
                        self.number(&mut bytes, len, 2);
                        let value = self.rng.next();
                        for part in 0..len.div_ceil(8) {
                            let value = if part == 0 { value } else { self.rng.below(1000) };
                            self.number(&mut bytes, value, (len as usize).min(8));
                        }
                        bytes.resize(bytes.len().next_multiple_of(8), 0);
                        payload = Some(bytes);
                    }
                    self.record(&mut out, time, (3, stack.len() as u64, id), payload);
                }
            }
        }
        out
    }

    fn perf(&mut self, tids: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut time = 2_000_000_000;
        for _ in 0..self.rng.below(12) {
            time += self.rng.below(1_000_000);
            let tid = self.rng.pick(tids);
            let mut body = Vec::new();
            let (kind, misc) = match self.rng.below(4) {
                0 | 1 => (14, self.rng.pick(&[0, 0x2000, 0x6000])),
                2 => {
                    self.number(&mut body, 4000, 4);
                    self.number(&mut body, tid, 4);
                    body.extend(self.rng.pick(&[&b"name\0\0\0\0"[..], b"a b \xc3\xa4 x\0\0\0\0\0\0\0"]));
                    body.resize(body.len().next_multiple_of(8), 0);
                    (3, self.rng.pick(&[0, 0x2000]))
                }
                _ => {
                    for value in [4000, 1, tid, 4000] {
                        self.number(&mut body, value, 4);
                    }
                    self.number(&mut body, time, 8);
                    (self.rng.pick(&[4, 7]), 0)
                }
            };
            self.number(&mut body, 4000, 4);
            self.number(&mut body, tid, 4);
            self.number(&mut body, time, 8);
            self.number(&mut out, kind, 4);
            self.number(&mut out, misc, 2);
            self.number(&mut out, 8 + body.len() as u64, 2);
            out.extend(body);
        }
        out
    }
}
