//! The file `info`: a binary header of 40 bytes, then lines of text (`SPEC.md`, section 1).

use tracemill_codec::bits::read_uint;
use tracemill_format::calls::PatternKind;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

use super::lines::shorten;

/// First bytes of the file.
pub(super) const MAGIC: &[u8; 8] = b"Ftrace!\0";
/// Bytes of the binary header.
const HEADER_LEN: usize = 40;

/// Bits of the feature mask that decide how other files are read.
pub(super) mod feature {
    /// Addresses in symbol files are relative to their module.
    pub(crate) const SYM_REL_ADDR: u64 = 1 << 5;
    /// There are files of the kernel's perf rings.
    pub(crate) const PERF_EVENT: u64 = 1 << 8;
    /// Times of exits are guesses.
    pub(crate) const ESTIMATE_RETURN: u64 = 1 << 11;
    /// The header says how deep stacks may be.
    pub(crate) const MAX_STACK: u64 = 1 << 6;
}

/// Names of the bits of the feature mask, from bit 0.
pub(super) const FEATURES: [&str; 14] = [
    "plthook",
    "task-session",
    "kernel",
    "argument",
    "retval",
    "sym-rel-addr",
    "max-stack",
    "event",
    "perf-event",
    "auto-args",
    "debug-info",
    "estimate-return",
    "sym-size",
    "callsite",
];
/// Names of the bits of the info mask, from bit 0, as far as one line begins with them.
pub(super) const GROUPS: [(&str, &str); 16] = [
    ("exename", "EXE_NAME"),
    ("build_id", "EXE_BUILD_ID"),
    ("exit_status", "EXIT_STATUS"),
    ("cmdline", "CMDLINE"),
    ("cpuinfo", "CPUINFO"),
    ("meminfo", "MEMINFO"),
    ("osinfo", "OSINFO"),
    ("taskinfo", "TASKINFO"),
    ("usageinfo", "USAGEINFO"),
    ("loadinfo", "LOADINFO"),
    ("argspec", "ARG_SPEC"),
    ("record_date", "RECORD_DATE"),
    ("pattern_type", "PATTERN_TYPE"),
    ("uftrace_version", "VERSION"),
    ("utc_offset", "UTC_OFFSET"),
    ("sysctl", "SYSCTL"),
];

/// The binary header of `info`.
#[derive(Clone, Debug, Default)]
pub(super) struct InfoHeader {
    pub bytes: Vec<u8>,
    pub version: u32,
    /// The size of the header that it states.
    pub size: u64,
    pub features: u64,
    /// The mask of the groups of lines.
    pub groups: u64,
}

/// The content of `info`.
#[derive(Clone, Debug, Default)]
pub(super) struct Info {
    pub header: InfoHeader,
    pub byte_order: ByteOrder,
    /// Is the traced program one of 64 bits?
    pub is_64_bit: bool,
    pub max_stack: Option<u16>,
    /// All lines `key:value` in their order; `group.name` for the lines of a group.
    pub entries: Vec<(String, String)>,
    /// Task ids, in their order; `None` when the file does not list them.
    pub tids: Option<Vec<i64>>,
    pub specs: Specs,
    /// Warnings about it that harm no record.
    pub warnings: Vec<Error>,
}

/// The entries of the file `info` about arguments.
#[derive(Clone, Debug, Default)]
pub(super) struct Specs {
    /// How patterns of argument specifications are written.
    pub patterns: PatternKind,
    pub arguments: String,
    pub return_values: String,
    pub auto_arguments: String,
    pub auto_return_values: String,
    pub auto_enumerations: String,
    pub is_auto: bool,
    /// Was the program one for ARM of 32 bits? A long double is a double there.
    pub is_arm: bool,
}

impl Info {
    /// Reads the file.
    ///
    /// # Errors
    /// When the header cannot be used. Lines that are not understood are warnings.
    pub(super) fn read(bytes: &[u8]) -> Result<Info> {
        let header = bytes.get(..HEADER_LEN).ok_or_else(|| {
            let message = format!("the header has {} bytes, expected {HEADER_LEN}", bytes.len());
            Error::truncated(message).at_offset(bytes.len() as u64)
        })?;
        if !header.starts_with(MAGIC) {
            return Err(Error::malformed("the file does not begin with `Ftrace!`").at_offset(0));
        }
        let byte_order = match header[14] {
            1 => ByteOrder::Little,
            2 => ByteOrder::Big,
            other => {
                let message = format!("byte order {other}, expected 1 (little) or 2 (big)");
                return Err(Error::malformed(message).at_offset(14));
            }
        };
        let number = |at: usize, len: usize| read_uint(&header[at..at + len], byte_order);
        let version = number(8, 4) as u32;
        if !matches!(version, 3 | 4) {
            return Err(Error::unsupported(format!("version {version} of the data, known are 3 and 4")).at_offset(8));
        }
        let is_64_bit = match header[15] {
            1 => false,
            2 => true,
            other => {
                let message = format!("word class {other}, expected 1 (32 bits) or 2 (64 bits)");
                return Err(Error::malformed(message).at_offset(15));
            }
        };
        let (features, groups) = (number(16, 8), number(24, 8));
        let mut info = Info {
            header: InfoHeader { bytes: header.to_vec(), version, size: number(12, 2), features, groups },
            byte_order,
            is_64_bit,
            max_stack: (features & feature::MAX_STACK != 0).then(|| number(32, 2) as u16),
            ..Info::default()
        };
        // The recorder wrote its own order, so a size that is not possible was not swapped.
        let text_from = match info.header.size as usize {
            size if (HEADER_LEN..=bytes.len()).contains(&size) => size,
            size => {
                let message = format!("header size {size}, the text begins at {HEADER_LEN}");
                info.warnings.push(Error::inconsistent(message).at_offset(12));
                HEADER_LEN
            }
        };
        info.lines(bytes, text_from);
        info.entries.insert(0, ("features".into(), names(features, &FEATURES)));
        info.entries.insert(1, ("groups".into(), names(groups, &GROUPS.map(|(name, _)| name))));
        if groups == 0 {
            let message = "no group of lines is announced: the recorder did not end in an orderly way";
            info.warnings.push(Error::inconsistent(message).at_offset(24));
        }
        Ok(info)
    }

    fn lines(&mut self, bytes: &[u8], from: usize) {
        let mut offset = from;
        // The group whose number of lines was announced: name, offset, announced, found.
        let mut announced: Option<(String, usize, u64, u64)> = None;
        for line in bytes[from..].split_inclusive(|&byte| byte == b'\n') {
            let place = offset;
            offset += line.len();
            let text = String::from_utf8_lossy(line);
            let text = text.trim_end_matches('\n');
            if text.is_empty() {
                continue;
            }
            let Some((key, value)) = text.split_once(':') else {
                let message = format!("a line that is not `name:value`: `{}`", shorten(text));
                self.warnings.push(Error::malformed(message).at_offset(place as u64));
                continue;
            };
            if let Some(count) = value.strip_prefix("lines=") {
                self.close_group(announced.take());
                match count.trim().parse() {
                    Ok(count) => announced = Some((key.to_string(), place, count, 0)),
                    Err(_) => {
                        let message = format!("`{}` is not a number of lines", shorten(count));
                        self.warnings.push(Error::malformed(message).at_offset(place as u64));
                    }
                }
                continue;
            }
            let group = announced.as_mut().filter(|(name, ..)| is_of_group(name, key));
            if let Some((_, _, _, found)) = group {
                *found += 1;
            } else {
                self.close_group(announced.take());
            }
            self.line(key, value, place);
        }
        self.close_group(announced);
    }

    fn close_group(&mut self, group: Option<(String, usize, u64, u64)>) {
        let Some((name, offset, announced, found)) = group else { return };
        if announced > found {
            let message = format!("`{name}` announces {announced} lines and has {found}");
            self.warnings.push(Error::malformed(message).at_offset(offset as u64));
        }
    }

    fn line(&mut self, key: &str, value: &str, offset: usize) {
        match key {
            "argspec" => self.specs.arguments = value.to_string(),
            "retspec" => self.specs.return_values = value.to_string(),
            "argauto" => self.specs.auto_arguments = value.to_string(),
            "retauto" => self.specs.auto_return_values = value.to_string(),
            "enumauto" => self.specs.auto_enumerations = value.to_string(),
            "auto-args" => self.specs.is_auto = value.trim() == "1",
            "pattern_type" => {
                self.specs.patterns = match value.trim() {
                    "simple" => PatternKind::Simple,
                    "glob" => PatternKind::Glob,
                    _ => PatternKind::Regex,
                }
            }
            _ => {}
        }
        let (key, value) = match value.split_once('=') {
            Some((name, value)) if key.ends_with("info") => (format!("{key}.{name}"), value),
            _ => (key.to_string(), value),
        };
        match key.as_str() {
            "taskinfo.tids" => {
                let mut tids = Vec::new();
                for tid in value.split(',').map(str::trim).filter(|tid| !tid.is_empty()) {
                    match tid.parse() {
                        Ok(tid) if !tids.contains(&tid) => tids.push(tid),
                        Ok(_) => {}
                        Err(_) => {
                            let message = format!("`{}` is not a task id", shorten(tid));
                            self.warnings.push(Error::malformed(message).at_offset(offset as u64));
                        }
                    }
                }
                self.tids = Some(tids);
            }
            "cpuinfo.desc" => {
                self.specs.is_arm = ["ARMv6", "ARMv7", "ARM64"].iter().any(|arm| value.starts_with(arm));
            }
            _ => {}
        }
        self.entries.push((key, value.to_string()));
    }
}

/// Does a line belong to the group `name`?
fn is_of_group(name: &str, key: &str) -> bool {
    match name {
        "argspec" => matches!(key, "argspec" | "retspec" | "argauto" | "retauto" | "enumauto" | "auto-args"),
        _ => name == key,
    }
}

/// The names of the bits that are set.
fn names(mask: u64, names: &[&str]) -> String {
    let set = (0..64).filter(|bit| mask >> bit & 1 == 1);
    let name = |bit: usize| names.get(bit).map_or_else(|| format!("bit-{bit}"), |name| (*name).to_string());
    set.map(name).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(big: bool, version: u32, class: u8) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let order =
            |little: &[u8]| -> Vec<u8> { if big { little.iter().rev().copied().collect() } else { little.to_vec() } };
        bytes.extend(order(&version.to_le_bytes()));
        bytes.extend(order(&40u16.to_le_bytes()));
        bytes.extend([1 + u8::from(big), class]);
        bytes.extend(order(&0x363u64.to_le_bytes()));
        bytes.extend(order(&0x3bffu64.to_le_bytes()));
        bytes.extend(order(&1024u16.to_le_bytes()));
        bytes.resize(40, 0);
        bytes
    }

    #[test]
    fn both_byte_orders_and_classes_are_read() {
        for (big, class) in [(false, 2), (true, 1)] {
            let mut bytes = header(big, 3, class);
            bytes
                .extend(b"exename:/srv/a\ntaskinfo:lines=2\ntaskinfo:nr_tid=2\ntaskinfo:tids=7,5\npattern_type:glob\n");
            let info = Info::read(&bytes).unwrap();
            assert_eq!((info.header.version, info.is_64_bit, info.header.features), (3, class == 2, 0x363));
            assert_eq!((info.max_stack, info.tids.as_deref()), (Some(1024), Some(&[7, 5][..])));
            assert_eq!(info.specs.patterns, PatternKind::Glob);
            assert!(info.warnings.is_empty());
        }
    }

    #[test]
    fn a_header_that_is_none_is_refused() {
        let at = |bytes: &[u8]| Info::read(bytes).unwrap_err().place().offset;
        assert_eq!(at(b"Ftrace!\0"), Some(8));
        assert_eq!(at(&header(false, 2, 2)), Some(8));
        let mut bytes = header(false, 4, 3);
        assert_eq!(at(&bytes), Some(15));
        bytes[14] = 0;
        assert_eq!(at(&bytes), Some(14));
    }

    #[test]
    fn a_group_with_too_few_lines_is_told_with_its_offset() {
        let mut bytes = header(false, 4, 2);
        bytes.extend(b"exename:/a\ntaskinfo:lines=9\ntaskinfo:nr_tid=1\ntaskinfo:tids=5\nloadinfo:1 / 2 / 3\nodd\n");
        let info = Info::read(&bytes).unwrap();
        let told: Vec<_> = info.warnings.iter().map(|error| error.place().offset).collect();
        assert_eq!(told, [Some(51), Some(121)]);
        assert_eq!(info.tids, Some(vec![5]));
    }
}
