//! Small typed indices into a [`World`](crate::World).

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// Position among its kind, in the order of creation.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            pub(crate) fn nth(index: usize) -> Self {
                Self(u32::try_from(index).expect("fewer than 2^32 of a kind"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A machine: a place where endpoints live.
    HostId,
    "host"
);
id!(
    /// One direction of a stretch of network with its own queue.
    PathId,
    "path"
);
id!(
    /// One end of one flow: a transport instance.
    EndpointId,
    "endpoint"
);
