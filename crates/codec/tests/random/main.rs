//! Compiled plans against the naive interpreter, on random schemas and bytes.
//!
//! `TRACEMILL_SEED=17 cargo test` runs one seed only, `TRACEMILL_SEEDS=1000000` that many.

mod leaves;
mod packets;
mod schemas;
mod tree;

use tracemill_codec::layout;
use tracemill_codec::plan::{Compiler, DecoderState, KnownAlignment, Plan, PlanInput, SharedSlots};
use tracemill_model::schema::{EventClassId, FieldClassId, Schema, Scope};
use tracemill_referee::Interpreter;

use schemas::{Rng, random_bytes, random_schema};
use tree::{Tree, compare_fault};

/// How often something was met, to see that the cases are worth something.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    cases: u64,
    decoded: u64,
    absent: u64,
    huge: u64,
    too_long: u64,
    no_option: u64,
    empty_elements: u64,
    other_order: u64,
    packets: u64,
    whole_packets: u64,
    events: u64,
}

impl Tally {
    fn fault(&mut self, kind: tracemill_codec::plan::FaultKind) {
        use tracemill_codec::plan::FaultKind;
        match kind {
            FaultKind::AbsentSelector => self.absent += 1,
            FaultKind::HugeSelector => self.huge += 1,
            FaultKind::TooLong { .. } => self.too_long += 1,
            FaultKind::NoOption { .. } => self.no_option += 1,
            FaultKind::EmptyElements => self.empty_elements += 1,
            FaultKind::OtherByteOrder => self.other_order += 1,
            _ => {}
        }
    }
}

/// Runs the seeds; a failure says which one, and shows its schema.
fn for_each_seed(count: u64, mut case: impl FnMut(&Schema, &mut Rng, &mut Tally) -> Result<(), String>) -> Tally {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("TRACEMILL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TRACEMILL_SEEDS").unwrap_or(count),
    };
    let mut tally = Tally::default();
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let schema = random_schema(&mut rng, 1 + (seed % 2) as usize);
        let hook = Seed(seed);
        for _ in 0..4 {
            if let Err(message) = case(&schema, &mut rng, &mut tally) {
                panic!("seed {seed}: {message}\n{}", tree::list(&schema));
            }
        }
        std::mem::forget(hook);
    }
    tally
}

/// Says the seed when a panic passes.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        eprintln!("panic in seed {}", self.0);
    }
}

fn enough(tally: &Tally) -> bool {
    tally.cases > 4000
}

#[test]
fn scopes_agree() {
    let tally = for_each_seed(3000, scopes);
    println!("{tally:?}");
    assert!(!enough(&tally) || tally.decoded * 6 > tally.cases, "{tally:?}");
    let all_met =
        [tally.absent, tally.huge, tally.too_long, tally.no_option, tally.other_order].iter().all(|&count| count > 0);
    assert!(!enough(&tally) || all_met, "{tally:?}");
}

#[test]
fn packets_agree() {
    let tally = for_each_seed(3000, packets::packet);
    println!("{tally:?}");
    assert!(!enough(&tally) || tally.events > tally.cases, "{tally:?}");
    assert!(!enough(&tally) || tally.whole_packets * 20 > tally.cases, "{tally:?}");
}

/// Is there a field that does not take whole bytes?
fn has_odd_field(schema: &Schema) -> bool {
    let classes = (0..schema.field_class_count()).map(|at| schema.field_class(FieldClassId(at as u32)));
    classes.into_iter().filter_map(layout::leaf_bits).any(|bits| bits % 8 != 0)
}

/// All six scopes of each event class, one after the other, from a random position.
fn scopes(schema: &Schema, rng: &mut Rng, tally: &mut Tally) -> Result<(), String> {
    let shared = SharedSlots::from_schema(schema);
    let (bytes, end_bits) = random_bytes(rng);
    let mut start = if rng.chance(50) { 0 } else { rng.below(end_bits + 1).min(200) };
    if !has_odd_field(schema) {
        // Then everything is on bytes, packets too: plans rely on it.
        start &= !7;
    }
    let known = match start {
        0 => KnownAlignment::START,
        start => KnownAlignment::aligned(1 << start.trailing_zeros().min(rng.below(8) as u32)),
    };
    for event in 0..schema.events().len() {
        tally.cases += 1;
        let roots = Scope::ALL.map(|scope| schema.scope_root(scope, EventClassId(event as u32)));
        let compile = |mut compiler: Compiler<'_>| -> Plan {
            Scope::ALL.into_iter().for_each(|scope| compiler.add(scope));
            compiler.finish()
        };
        let row = compile(Compiler::row(schema, &shared, roots, known).with_order_checks());
        let skip = compile(Compiler::skip(schema, &shared, roots, known));
        let context =
            || format!("event {event}, start {start}, end {end_bits}, bytes {bytes:x?}\nrow\n{row}\nskip\n{skip}");
        let input = PlanInput::new(&bytes, end_bits);
        let clock = rng.next() >> rng.below(64);
        let (mut state, mut pos) = (DecoderState::new(clock), start);
        let mut naive = Interpreter::new(schema, roots, &bytes, end_bits);
        (naive.clock, naive.pos_bits) = (clock, start);
        let mut fault = None;
        for (section, scope) in Scope::ALL.into_iter().enumerate() {
            let mut tree = Tree::default();
            let found = row.run_section(section, input, &mut pos, &mut state, &mut tree);
            match (naive.scope(scope), found) {
                (Ok(want), Ok(())) if want == tree.finish() && naive.pos_bits == pos => {}
                (Err(want), Err(found)) => {
                    tally.fault(found.kind);
                    compare_fault(&want, &found, &row).map_err(|message| format!("{message}\n{}", context()))?;
                    fault = Some(want);
                    break;
                }
                (want, found) => {
                    let tree = tree.finish();
                    let at = (naive.pos_bits, pos);
                    return Err(format!(
                        "{scope:?}: want {want:?}\nfound {found:?} {tree:?}, at {at:?}\n{}",
                        context()
                    ));
                }
            }
        }
        let (mut skip_state, mut skip_pos) = (DecoderState::new(clock), start);
        match (skip.skip(input, &mut skip_pos, &mut skip_state), fault) {
            (Err(_), Some(_)) => {}
            (Ok(()), None) => {
                tally.decoded += 1;
                let want = (naive.pos_bits, naive.clock, naive.clock_is_set, naive.roles);
                let row_end = (pos, state.clock, state.clock_is_set, state.roles);
                let skip_end = (skip_pos, skip_state.clock, skip_state.clock_is_set, skip_state.roles);
                if want != row_end || want != skip_end {
                    return Err(format!("want {want:?}\nrow {row_end:?}\nskip {skip_end:?}\n{}", context()));
                }
            }
            (found, want) => return Err(format!("skip {found:?} at {skip_pos}, want {want:?}\n{}", context())),
        }
    }
    Ok(())
}
