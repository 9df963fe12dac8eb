//! A column of names: a dictionary that grows over a scan, so that each name is looked up once and batches share its text.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};

use crate::Error;

/// The key of a number was not looked up yet.
const UNKNOWN: i32 = -2;
/// The row has no value.
const NULL: i32 = -1;
/// So many names begin a new dictionary: a batch carries all of its dictionary.
const MOST_NAMES: usize = 1 << 16;

/// Builds batches of one column of names.
#[derive(Debug, Default)]
pub(crate) struct NameColumn {
    /// The key of each number that stands for a name, by that number.
    key_of: Vec<i32>,
    key_of_text: HashMap<Arc<str>, i32>,
    names: Vec<Arc<str>>,
    /// The names as the last batch had them.
    array: Option<Arc<StringArray>>,
    keys: Vec<i32>,
}

impl NameColumn {
    /// Appends the name that a number stands for; `name` is asked once a number.
    #[inline]
    pub(crate) fn push(&mut self, number: u32, name: impl FnOnce() -> Option<Arc<str>>) {
        let place = number as usize;
        let key = match self.key_of.get(place) {
            Some(&key) if key != UNKNOWN => key,
            _ => self.look_up(place, name()),
        };
        self.keys.push(key);
    }

    #[cold]
    fn look_up(&mut self, place: usize, name: Option<Arc<str>>) -> i32 {
        let key = name.map_or(NULL, |name| self.key(name));
        if self.key_of.len() <= place {
            self.key_of.resize(place + 1, UNKNOWN);
        }
        self.key_of[place] = key;
        key
    }

    fn key(&mut self, name: Arc<str>) -> i32 {
        let (names, new) = (&mut self.names, self.key_of_text.len() as i32);
        *self.key_of_text.entry(name).or_insert_with_key(|name| {
            names.push(Arc::clone(name));
            new
        })
    }

    /// Appends a name that no number stands for.
    pub(crate) fn push_text(&mut self, name: Option<&Arc<str>>) {
        let key = match name {
            None => NULL,
            Some(name) => match self.key_of_text.get(name) {
                Some(&key) => key,
                None => self.key(Arc::clone(name)),
            },
        };
        self.keys.push(key);
    }

    /// The rows since the last batch.
    pub(crate) fn take(&mut self) -> Result<ArrayRef, Error> {
        let old = self.array.take().filter(|array| {
            use arrow_array::Array;
            array.len() == self.names.len()
        });
        let array = old.unwrap_or_else(|| Arc::new(StringArray::from_iter_values(&self.names)));
        let keys = std::mem::take(&mut self.keys);
        let keys: Int32Array = keys.into_iter().map(|key| (key >= 0).then_some(key)).collect();
        let column = DictionaryArray::<Int32Type>::try_new(keys, Arc::clone(&array) as ArrayRef)?;
        if self.names.len() < MOST_NAMES {
            self.array = Some(array);
        } else {
            self.names.clear();
            self.key_of_text.clear();
            self.key_of.fill(UNKNOWN);
        }
        Ok(Arc::new(column))
    }
}

/// A column of few names, all at once.
pub(crate) fn names<T: AsRef<str>>(values: impl IntoIterator<Item = Option<T>>) -> Result<ArrayRef, Error> {
    let mut column = NameColumn::default();
    for value in values {
        column.push_text(value.map(|value| Arc::from(value.as_ref())).as_ref());
    }
    column.take()
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    use super::*;

    fn texts(array: &ArrayRef) -> Vec<Option<String>> {
        let array = array.as_dictionary::<Int32Type>();
        let names = array.downcast_dict::<StringArray>().unwrap();
        names.into_iter().map(|name| name.map(str::to_owned)).collect()
    }

    #[test]
    fn a_dictionary_goes_on_from_batch_to_batch_and_begins_anew_when_it_is_large() {
        let mut column = NameColumn::default();
        let name = |number: u32| (number != 3).then(|| Arc::from(format!("n{}", number / 2)));
        for batch in 0..4 {
            let numbers = (0..40_000u32).map(|i| (i * 7 + batch) % 150_000);
            numbers.clone().for_each(|number| column.push(number, || name(number)));
            let expect: Vec<_> = numbers.map(|number| name(number).map(|name| name.to_string())).collect();
            let array = column.take().unwrap();
            assert_eq!(texts(&array), expect);
            let names = array.as_dictionary::<Int32Type>().values();
            assert!(names.len() <= MOST_NAMES + 40_000, "{}", names.len());
        }
    }
}
