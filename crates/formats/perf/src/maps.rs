//! The place of an address in the file that a process had mapped there, as a field of events (`SPEC.md`, section 12).

use std::io::Write;
use std::sync::Arc;

use tracemill_codec::bits::{u32_at, u64_at};
use tracemill_format::code::CodeMaps;
use tracemill_format::mapped::MappedCode;
use tracemill_model::schema::{ByteOrder, Render};

/// Bytes of the field that [`PlaceText`] shows: an address, and the time.
pub(crate) const PLACE_BYTES: usize = 16;

/// Shows the file of an address and the place in it, as `libc.so.6+0x2724a`. The event begins with the process.
#[derive(Debug)]
pub(crate) struct PlaceText(pub(crate) Arc<MappedCode>);

impl Render for PlaceText {
    fn render(&self, event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        let little = ByteOrder::Little;
        let Some(pid) = u32_at(event, 0, little) else { return false };
        let Some((address, time)) = u64_at(own, 0, little).zip(u64_at(own, 8, little)) else { return false };
        let Some(place) = self.0.place(i64::from(pid as i32), time, address) else { return false };
        let Some(module) = self.0.modules().get(place.module as usize) else { return false };
        // Memory takes everything.
        let _ = write!(out, "{}+0x{:x}", module.short_name(), place.offset);
        true
    }
}

#[cfg(test)]
mod tests {
    use tracemill_format::mapped::CodeMapping;

    use super::*;

    #[test]
    fn places_have_the_names_of_their_files() {
        let mut maps = MappedCode::default();
        let code = CodeMapping {
            begin: 0x1000,
            len: 0x100,
            file_offset: 0x10,
            name: b"/lib/old.so",
            build_id: &[],
            is_function: false,
        };
        maps.map(5, 30, &code);
        maps.finish(|_| None);
        let text = PlaceText(Arc::new(maps));
        let place = |pid: i32, time: u64, address: u64| {
            let own = [address.to_le_bytes(), time.to_le_bytes()].concat();
            let mut out = Vec::new();
            text.render(&pid.to_le_bytes(), &own, &mut out).then(|| String::from_utf8(out).unwrap())
        };
        assert_eq!(place(5, 30, 0x1001).as_deref(), Some("old.so+0x11"));
        assert_eq!(place(5, 29, 0x1001), None);
    }
}
