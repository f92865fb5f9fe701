//! The time zone of the machine that the program runs on.

use std::fs;
use std::io::Read;
use std::path::Path;

use jiff::tz::TimeZone;

/// The zone that the variable `TZ` names, else that of the system; universal time when neither can be read.
///
/// Reads one file, unless `TZ` names a zone: the library would list the whole database of zones, only to know what the zone
/// is called. That took a quarter of the time in which a small trace is printed.
pub fn local() -> TimeZone {
    if std::env::var_os("TZ").is_none()
        && let Some(zone) = read_zone(Path::new("/etc/localtime"))
    {
        return zone;
    }
    TimeZone::system()
}

/// Bytes that a description of a zone takes at most: the largest ones take 4 KiB.
const MOST: u64 = 1 << 20;

fn read_zone(path: &Path) -> Option<TimeZone> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    TimeZone::tzif("", &bytes).ok()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn the_zone_of_a_file_is_that_of_its_name() {
        let zones = ["Europe/Berlin", "America/New_York", "Asia/Kolkata"];
        let seconds = (0..4_000_000_000).step_by(7_654_321);
        for name in zones {
            // Machines without the database have nothing to compare.
            let Some(zone) = read_zone(&Path::new("/usr/share/zoneinfo").join(name)) else { continue };
            let known = TimeZone::get(name).expect("a zone that everybody knows");
            for second in seconds.clone() {
                let stamp = Timestamp::from_second(second).expect("a time");
                assert_eq!(zone.to_offset(stamp), known.to_offset(stamp), "{name} {stamp}");
            }
        }
        assert!(read_zone(Path::new("/dev/null")).is_none());
        assert!(read_zone(Path::new("/nowhere")).is_none());
    }
}
