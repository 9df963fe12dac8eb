//! Errors. Every error leaves the structures as they were.

use core::fmt;

use crate::{Page, Rights};

/// An error of the memory management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No physical frame is free.
    OutOfFrames,
    /// No free part of the address space is large enough.
    OutOfAddressSpace {
        /// Bytes asked for.
        bytes: u64,
    },
    /// A region would overlap another one, or reach beyond the address space.
    Overlap {
        /// Its first page.
        first: Page,
        /// Its pages.
        pages: u32,
    },
    /// The page belongs to no region.
    NoRegion {
        /// The page.
        page: Page,
    },
    /// No region begins at the page.
    NotAStart {
        /// The page.
        page: Page,
    },
    /// The region forbids the access.
    Denied {
        /// The page.
        page: Page,
        /// What was wanted.
        wanted: Rights,
    },
    /// No block of the heap begins at the address.
    NotABlock {
        /// The address.
        addr: u64,
    },
    /// The block was released before.
    AlreadyFree {
        /// The address.
        addr: u64,
    },
    /// An alignment that is no power of two, or larger than the address space.
    BadAlignment {
        /// The alignment.
        align: u64,
    },
    /// What lies at the address does not fit to its neighbours: something wrote over it.
    Corrupt {
        /// The block whose tag it is.
        addr: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutOfFrames => write!(f, "no physical frame is free"),
            Self::OutOfAddressSpace { bytes } => {
                write!(f, "no free part of the address space has {bytes} bytes")
            }
            Self::Overlap { first, pages } => {
                write!(f, "{pages} pages from page {} on overlap a region or the end of the space", first.0)
            }
            Self::NoRegion { page } => write!(f, "page {} belongs to no region", page.0),
            Self::NotAStart { page } => write!(f, "no region begins at page {}", page.0),
            Self::Denied { page, wanted } => {
                write!(f, "the region of page {} does not allow to {wanted}", page.0)
            }
            Self::NotABlock { addr } => write!(f, "no block begins at {addr:#x}"),
            Self::AlreadyFree { addr } => write!(f, "the block at {addr:#x} was released before"),
            Self::BadAlignment { align } => write!(f, "{align} is not an alignment"),
            Self::Corrupt { addr } => write!(f, "the tag of the block at {addr:#x} was written over"),
        }
    }
}

impl core::error::Error for Error {}
