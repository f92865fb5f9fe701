//! The tree of an expression.
//!
//! Lists of conditions are flat, so that ten thousand terms need no deep stack; only parentheses nest, and the parser
//! limits those.

use std::sync::Arc;

use regex::bytes::Regex;
use tracemill_codec::text::Span;
use tracemill_model::schema::Scope;

use super::number::NumberLiteral;
use super::text::TextLiteral;
use super::time::Time;

/// A condition.
#[derive(Clone, Debug)]
pub(super) enum Test {
    Const(bool),
    All(Vec<Test>),
    Any(Vec<Test>),
    Not(Box<Test>),
    /// A value alone: there, and not 0, empty or null.
    Truth(Operand),
    Compare(Box<Compare>),
}

impl Test {
    /// Calls `see` with every condition that is made of no others.
    pub(super) fn each_leaf<'a>(&'a self, see: &mut impl FnMut(&'a Test)) {
        match self {
            Test::All(tests) | Test::Any(tests) => tests.iter().for_each(|test| test.each_leaf(see)),
            Test::Not(inner) => inner.each_leaf(see),
            leaf => see(leaf),
        }
    }
}

/// A comparison.
#[derive(Clone, Debug)]
pub(super) struct Compare {
    pub left: Operand,
    pub op: Op,
    pub right: Right,
    /// The whole comparison.
    pub span: Span,
}

/// Right side of an operator.
#[derive(Clone, Debug)]
pub(super) enum Right {
    Operand(Operand),
    Number(NumberLiteral),
    Bool(bool),
    Text(TextLiteral),
    Regex(Regex),
    Time(Time),
    /// A time, after binding.
    Instant(i128),
}

/// A value or an intersection of integers: `a & 3 & b`.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    /// Never empty; more than one when the operand is masked. At least one is a path.
    pub parts: Vec<OperandPart>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub(super) enum OperandPart {
    /// Index in the expression's list of paths.
    Path(usize),
    Number(NumberLiteral),
}

impl Operand {
    /// The path when the operand is nothing else.
    pub(super) fn path(&self) -> Option<usize> {
        match *self.parts.as_slice() {
            [OperandPart::Path(path)] => Some(path),
            _ => None,
        }
    }

    /// All paths in it.
    pub(super) fn paths(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().filter_map(|part| match part {
            OperandPart::Path(path) => Some(*path),
            OperandPart::Number(_) => None,
        })
    }
}

/// A comparison operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Match,
}

impl Op {
    /// The operator with its sides exchanged.
    pub(super) fn flipped(self) -> Op {
        match self {
            Op::Less => Op::Greater,
            Op::LessOrEqual => Op::GreaterOrEqual,
            Op::Greater => Op::Less,
            Op::GreaterOrEqual => Op::LessOrEqual,
            op => op,
        }
    }

    pub(super) fn is_equality(self) -> bool {
        matches!(self, Op::Equal | Op::NotEqual)
    }
}

/// A path as it is written.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub head: PathHead,
    pub steps: Vec<SyntaxStep>,
    pub span: Span,
}

impl Path {
    /// Do both mean the same?
    pub(super) fn is_same(&self, other: &Path) -> bool {
        let kinds = |path: &Path| path.steps.iter().map(|step| step.kind.clone()).collect::<Vec<_>>();
        self.head == other.head && kinds(self) == kinds(other)
    }

    /// The path as a name: without backquotes and blanks.
    pub(super) fn name(&self) -> String {
        let spine = PathHead::SPINE.iter().find(|(_, head)| *head == self.head).map(|(word, _)| *word);
        let mut name = match self.head {
            PathHead::StreamName => "stream",
            PathHead::Context => "$ctx",
            PathHead::Scope(scope) => scope.key(),
            _ => spine.unwrap_or_default(),
        }
        .to_string();
        for step in &self.steps {
            match &step.kind {
                StepKind::Member(member) if name.is_empty() => name += member,
                StepKind::Member(member) => name += &format!(".{member}"),
                StepKind::Index(index) => name += &format!("[{index}]"),
            }
        }
        name
    }
}

/// Where a path begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathHead {
    /// Name of the event.
    Name,
    /// Numeric id of the event class.
    Id,
    /// Numeric id of the stream class.
    Stream,
    /// Name of the stream: what `stream` means when it is compared with a string.
    StreamName,
    /// CPU.
    Cpu,
    /// Name of the trace.
    Trace,
    /// Time in ns.
    Ns,
    /// Time in cycles of its clock.
    Cycles,
    /// Time as text.
    Time,
    /// A scope of fields.
    Scope(Scope),
    /// `$ctx`.
    Context,
    /// No known word: payload, then `$ctx`.
    Bare,
    /// A value that is known beside the event: see [`Beside`](super::Beside).
    Beside {
        /// Which one.
        member: u8,
        /// Is it a text, or an integer?
        is_text: bool,
    },
}

impl PathHead {
    /// Words about an event that are no fields.
    pub(super) const SPINE: [(&'static str, PathHead); 8] = [
        ("name", PathHead::Name),
        ("id", PathHead::Id),
        ("stream", PathHead::Stream),
        ("cpu", PathHead::Cpu),
        ("trace", PathHead::Trace),
        ("ns", PathHead::Ns),
        ("cycles", PathHead::Cycles),
        ("time", PathHead::Time),
    ];

    /// Scopes that a path may begin with.
    pub(super) const SCOPES: [Scope; 5] =
        [Scope::EventHeader, Scope::PacketContext, Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

    /// Scopes of `$ctx`, in the order in which they are searched.
    pub(super) const CONTEXTS: [Scope; 3] = [Scope::SpecificContext, Scope::CommonContext, Scope::PacketContext];

    /// The head that a plain word is.
    pub(super) fn parse(word: &str) -> Option<PathHead> {
        let spine = PathHead::SPINE.iter().chain(&[("$ctx", PathHead::Context)]).find(|(key, _)| *key == word);
        spine
            .map(|&(_, head)| head)
            .or_else(|| PathHead::SCOPES.iter().find(|scope| scope.key() == word).map(|&scope| PathHead::Scope(scope)))
    }
}

/// A step of a path.
#[derive(Clone, Debug)]
pub(crate) struct SyntaxStep {
    pub kind: StepKind,
    pub span: Span,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StepKind {
    Member(Arc<str>),
    Index(u64),
}
