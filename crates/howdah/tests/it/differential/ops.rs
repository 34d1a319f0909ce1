//! Changes of a tree, made up: a list that can be cut short, so that what fails becomes small.

use proptest::prelude::*;
use std::fmt;

/// A file's name, whatever its bytes.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Name(pub(crate) Vec<u8>);

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// Seconds and nanoseconds since 1970.
pub(crate) type Time = (i64, u32);

/// What is under a name.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// So many bytes made of that one, a hole of so many, and a byte at the end if there is a hole.
    File(usize, u8, u32),
    Dir,
    Link(Name),
    Fifo,
}

/// What is kept besides the content.
#[derive(Clone, Debug)]
pub(crate) struct Attributes {
    pub(crate) mode: u32,
    /// Of a few that nobody has here, and some that are known.
    pub(crate) owner: usize,
    pub(crate) time: Time,
}

/// Entries about users and groups, by their place in a short list, with their bits.
#[derive(Clone, Debug)]
pub(crate) struct Acl {
    pub(crate) user: u16,
    pub(crate) users: Vec<(usize, u16)>,
    pub(crate) group: u16,
    pub(crate) groups: Vec<(usize, u16)>,
    pub(crate) mask: u16,
    pub(crate) other: u16,
}

/// One change. Numbers choose among what there is, in the order of the names.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Make(usize, Name, What, Attributes),
    /// A further name of a file.
    Twin(usize, usize, Name),
    Remove(usize),
    Rename(usize, usize, Name),
    /// Something else under the same name.
    Replace(usize, What, Attributes),
    /// Another content; `None`: of the same time as before.
    Rewrite(usize, usize, u8, Option<Time>),
    Time(usize, Time),
    Mode(usize, u32),
    Owner(usize, usize),
    Xattr(usize, usize, Option<Vec<u8>>),
    Acl(usize, bool, Option<Acl>),
}

fn name() -> impl Strategy<Value = Name> {
    let byte = any::<u8>().prop_filter("", |b| *b != 0 && *b != b'/');
    let any = prop::collection::vec(byte, 1..30);
    let names = prop_oneof![
        12 => "[a-e]{1,2}".prop_map(String::into_bytes),
        3 => any.prop_filter("", |name| name != b"." && name != b".."),
        1 => Just(b"-rf".to_vec()),
        1 => Just(b"..x".to_vec()),
        1 => Just(b"a\nb\x1b[2J".to_vec()),
        1 => Just(vec![b'n'; 255]),
        1 => Just([&[0xff; 250][..], b".part"].concat()),
        1 => Just("e\u{301}".as_bytes().to_vec()),
        1 => Just("\u{e9}".as_bytes().to_vec()),
        1 => Just(b" .. ".to_vec()),
        1 => Just(b"*?[x]".to_vec()),
    ];
    names.prop_map(Name)
}

/// Hardly two of one second: a time and the same cut off count as the same here.
fn time() -> impl Strategy<Value = Time> {
    let nanos = || prop_oneof![6 => 0..1_000_000_000u32, 1 => Just(0), 1 => Just(999_999_999)];
    prop_oneof![
        12 => (0..4_000_000_000i64, nanos()),
        2 => (-2_000_000_000..0i64, nanos()),
        1 => Just((0, 0)),
        1 => Just((-1, 999_999_999)),
        // Before 1901, after 2038, after 2446: what some disk makes another time of.
        1 => (-9_000_000_000..-2_147_483_648i64, nanos()),
        1 => (2_147_483_648..30_000_000_000i64, nanos()),
        1 => Just((1_700_000_000, 1)),
    ]
}

fn what() -> impl Strategy<Value = What> {
    let size = prop_oneof![
        8 => 0..3000usize,
        3 => Just(0usize),
        3 => Just(7usize),
        2 => 3000..200_000usize,
        1 => Just((4 << 20) + 1),
    ];
    let hole = prop_oneof![6 => Just(0u32), 1 => 1..200_000u32, 1 => Just(3 << 20)];
    let target = prop_oneof![
        3 => name(),
        1 => Just(Name(b"../a".to_vec())),
        1 => Just(Name(b"/etc/passwd".to_vec())),
        1 => Just(Name(b".".to_vec())),
        1 => Just(Name(vec![b'/'; 1000])),
    ];
    prop_oneof![
        8 => (size, 0..4u8, hole).prop_map(|(size, fill, hole)| What::File(size, fill, hole)),
        5 => Just(What::Dir),
        3 => target.prop_map(What::Link),
        1 => Just(What::Fifo),
    ]
}

fn mode() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => Just(0o644u32),
        3 => 0..=0o777u32,
        2 => 0..=0o7777u32,
        2 => Just(0o555),
        1 => Just(0o2775),
        1 => Just(0o1777),
        1 => Just(0o4755),
    ]
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let known = (mode(), 0..6usize, time());
    known.prop_map(|(mode, owner, time)| Attributes { mode, owner, time })
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..20),
        1 => (any::<u8>(), Just(1200)).prop_map(|(byte, len)| vec![byte; len]),
        1 => Just(Vec::new()),
    ]
}

fn acl() -> impl Strategy<Value = Acl> {
    let bits = || 0..8u16;
    let named = || prop::collection::vec((0..4usize, bits()), 0..3);
    let all = (bits(), named(), bits(), named(), bits(), bits());
    all.prop_map(|(user, users, group, groups, mask, other)| Acl {
        user,
        users,
        group,
        groups,
        mask,
        other,
    })
}

fn op() -> impl Strategy<Value = Op> {
    let at = || 0..1000usize;
    let size = prop_oneof![2 => Just(7usize), 3 => 0..3000usize];
    prop_oneof![
        12 => (at(), name(), what(), attributes()).prop_map(|(a, b, c, d)| Op::Make(a, b, c, d)),
        3 => (at(), at(), name()).prop_map(|(a, b, c)| Op::Twin(a, b, c)),
        2 => at().prop_map(Op::Remove),
        2 => (at(), at(), name()).prop_map(|(a, b, c)| Op::Rename(a, b, c)),
        3 => (at(), what(), attributes()).prop_map(|(a, b, c)| Op::Replace(a, b, c)),
        2 => (at(), size, 0..4u8, prop::option::weighted(0.8, time()))
            .prop_map(|(a, b, c, d)| Op::Rewrite(a, b, c, d)),
        2 => (at(), time()).prop_map(|(a, b)| Op::Time(a, b)),
        2 => (at(), mode()).prop_map(|(a, b)| Op::Mode(a, b)),
        2 => (at(), 0..6usize).prop_map(|(a, b)| Op::Owner(a, b)),
        3 => (at(), 0..5usize, prop::option::weighted(0.7, value()))
            .prop_map(|(a, b, c)| Op::Xattr(a, b, c)),
        3 => (at(), any::<bool>(), prop::option::weighted(0.7, acl()))
            .prop_map(|(a, b, c)| Op::Acl(a, b, c)),
    ]
}

/// Changes, one after the other.
#[derive(Clone)]
pub(crate) struct Ops(pub(crate) Vec<Op>);

impl fmt::Debug for Ops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.0.iter().map(|op| format!("{op:?}"));
        write!(f, "[{}]", lines.collect::<Vec<_>>().join(", "))
    }
}

pub(crate) fn ops(most: usize) -> impl Strategy<Value = Ops> {
    prop::collection::vec(op(), 0..most).prop_map(Ops)
}
