//! Writes a trace of LTTng 0.7: two CPUs of a 32-bit machine, fields packed, eight kinds of kernel events in proportions
//! that a busy machine has; the same events each time.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tracemill_lttng::facilities::definitions::DefinitionFile;

const KERNEL: &str = r#"<?xml version="1.0"?>
<facility name="kernel">
  <type name="irq_mode"><enum><label name="user" value="0"/><label name="kernel" value="1"/></enum></type>
  <event name="trap_entry">
    <field name="trap_id"><long/></field>
    <field name="address"><pointer/></field>
  </event>
  <event name="trap_exit"/>
  <event name="irq_entry">
    <field name="irq_id"><uint/></field>
    <field name="mode"><typeref name="irq_mode"/></field>
  </event>
  <event name="irq_exit"/>
</facility>
"#;

const PROCESS: &str = r#"<?xml version="1.0"?>
<facility name="process">
  <event name="schedchange">
    <field name="out"><uint/></field>
    <field name="in"><uint/></field>
    <field name="out_state"><int/></field>
  </event>
</facility>
"#;

const FS: &str = r#"<?xml version="1.0"?>
<facility name="fs">
  <event name="open">
    <field name="filename"><sequence><uint/><uchar/></sequence></field>
    <field name="fd"><uint/></field>
  </event>
  <event name="read">
    <field name="fd"><uint/></field>
    <field name="count"><size_t/></field>
  </event>
  <event name="seek">
    <field name="fd"><uint/></field>
    <field name="offset"><off_t/></field>
    <field name="origin"><uint/></field>
  </event>
</facility>
"#;

/// Facilities by id, from 1.
const FACILITIES: [(&str, &str); 3] = [("kernel", KERNEL), ("process", PROCESS), ("fs", FS)];

const CPUS: u64 = 2;
const START: u64 = 0x12_3456_0000;

/// Writes a trace of so many events in blocks of so many bytes.
pub(crate) fn write_trace(out: &Path, events: u64, block: usize) -> io::Result<()> {
    fs::create_dir_all(out.join("eventdefs"))?;
    fs::create_dir_all(out.join("control"))?;
    let mut control = Tracefile::create(out.join("control/facilities_0"), 4096)?;
    for (at, (name, xml)) in FACILITIES.iter().enumerate() {
        let path = out.join(format!("eventdefs/{name}.xml"));
        fs::write(&path, xml)?;
        let file = DefinitionFile::parse(xml.as_bytes(), &path);
        let checksum = file.facilities.first().map_or(0, |facility| facility.checksum);
        let mut data = format!("{name}\0").into_bytes();
        for word in [checksum, at as u32 + 1, 4, 4, 4, 4, 0] {
            data.extend(word.to_le_bytes());
        }
        control.event(START + at as u64, (0, 0), &data)?;
    }
    control.finish()?;
    for cpu in 0..CPUS {
        let mut file = Tracefile::create(out.join(format!("cpu_{cpu}")), block)?;
        let mut random = cpu + 1;
        let mut tsc = START + 1000 + cpu * 37;
        for _ in 0..events / CPUS {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let draw = (random >> 33) as u32;
            tsc += 200 + u64::from(draw % 3000);
            event(&mut file, tsc, draw)?;
        }
        file.finish()?;
    }
    Ok(())
}

fn event(file: &mut Tracefile, tsc: u64, draw: u32) -> io::Result<()> {
    let mut data = Vec::with_capacity(64);
    let mut words = |words: &[u32]| words.iter().for_each(|word| data.extend(word.to_le_bytes()));
    let ids = match draw % 100 {
        0..15 => {
            words(&[14, draw.rotate_left(9)]);
            (1, 0)
        }
        15..30 => (1, 1),
        30..45 => {
            words(&[draw % 16, draw >> 5 & 1]);
            (1, 2)
        }
        45..60 => (1, 3),
        60..75 => {
            words(&[draw % 4000, draw % 3999, draw % 2]);
            (2, 0)
        }
        75..80 => {
            let name = format!("/usr/lib/file{}", draw % 10_000);
            words(&[name.len() as u32]);
            data.extend(name.as_bytes());
            data.extend((draw % 200).to_le_bytes());
            (3, 0)
        }
        80..95 => {
            words(&[draw % 200, draw % 65_536]);
            (3, 1)
        }
        _ => {
            words(&[draw % 200, draw, 1]);
            (3, 2)
        }
    };
    file.event(tsc, ids, &data)
}

/// A tracefile that is being written.
struct Tracefile {
    out: BufWriter<File>,
    block_bytes: usize,
    block: Vec<u8>,
    begin: u64,
    last: u64,
}

const HEADER: usize = 106;

impl Tracefile {
    fn create(path: PathBuf, block_bytes: usize) -> io::Result<Self> {
        let out = BufWriter::new(File::create(path)?);
        Ok(Tracefile { out, block_bytes, block: Vec::with_capacity(block_bytes), begin: START, last: START })
    }

    fn event(&mut self, tsc: u64, ids: (u8, u8), data: &[u8]) -> io::Result<()> {
        if self.block.len() + 8 + data.len() > self.block_bytes {
            self.flush()?;
        }
        if self.block.is_empty() {
            self.begin = tsc;
            self.block.resize(HEADER, 0);
        }
        self.last = tsc;
        self.block.extend((tsc as u32).to_le_bytes());
        self.block.extend([ids.0, ids.1]);
        self.block.extend((data.len() as u16).to_le_bytes());
        self.block.extend(data);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut header = Vec::with_capacity(HEADER);
        let freq = 3_000_000u64;
        for word in [self.begin, freq, self.last, freq] {
            header.extend(word.to_le_bytes());
        }
        let lost = self.block_bytes - self.block.len();
        for word in [lost as u32, self.block_bytes as u32, 0x00D6_B7ED, 1, 0, 1234] {
            header.extend(word.to_le_bytes());
        }
        header.extend([4, 0, 7, 0, 1, 0]);
        header.extend(1000u32.to_le_bytes());
        for word in [freq, START, 0, 1_140_000_000, 250_000] {
            header.extend(word.to_le_bytes());
        }
        self.block[..HEADER].copy_from_slice(&header);
        self.block.resize(self.block_bytes, 0);
        self.out.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            self.flush()?;
        }
        self.out.flush()
    }
}
