//! A column: its name, its type, and its description in the words of docs/tables.md.

use arrow_schema::{DataType, Field};

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// A number of 32 bits.
    Number32,
    /// A number of 64 bits; also an address.
    Number64,
    /// A number that can be negative.
    Signed32,
    /// Yes or no.
    Truth,
    /// A text that differs in most rows.
    Text,
    /// One of few texts: a dictionary.
    Name,
    /// A list of names.
    Names,
}

impl ValueType {
    /// The type in Arrow.
    pub fn data_type(self) -> DataType {
        let utf8 = || Box::new(DataType::Utf8);
        match self {
            Self::Number32 => DataType::UInt32,
            Self::Number64 => DataType::UInt64,
            Self::Signed32 => DataType::Int32,
            Self::Truth => DataType::Boolean,
            Self::Text => DataType::Utf8,
            Self::Name => DataType::Dictionary(Box::new(DataType::Int32), utf8()),
            Self::Names => DataType::new_list(DataType::Utf8, true),
        }
    }

    /// As docs/tables.md writes it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Number32 => "uint32",
            Self::Number64 => "uint64",
            Self::Signed32 => "int32",
            Self::Truth => "bool",
            Self::Text => "utf8",
            Self::Name => "dictionary of utf8",
            Self::Names => "list of utf8",
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// Its name, also as a key of JSON.
    pub name: &'static str,
    /// What its values are.
    pub value_type: ValueType,
    /// Whether a row may have none.
    pub nullable: bool,
    /// Whether only those have it who name it, since it is expensive to read: `*` does not stand for it.
    pub by_name_only: bool,
    /// What it says.
    pub words: &'static str,
}

impl TableColumn {
    /// A column that every row has a value in.
    pub(crate) const fn new(name: &'static str, value_type: ValueType, words: &'static str) -> Self {
        Self { name, value_type, nullable: false, by_name_only: false, words }
    }

    /// A column that rows may have no value in.
    pub(crate) const fn optional(name: &'static str, value_type: ValueType, words: &'static str) -> Self {
        Self { name, value_type, nullable: true, by_name_only: false, words }
    }

    /// The same column, for those alone who name it.
    pub(crate) const fn by_name_only(self) -> Self {
        Self { by_name_only: true, ..self }
    }

    /// The field of a schema.
    pub fn field(&self) -> Field {
        Field::new(self.name, self.value_type.data_type(), self.nullable)
    }
}
