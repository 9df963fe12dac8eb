//! Lists indexed by number that grow on the first use of a number.

/// The place of that number.
pub(crate) fn slot<T: Clone + Default>(list: &mut Vec<T>, index: u32) -> &mut T {
    let index = index as usize;
    if index >= list.len() {
        list.resize(index + 1, T::default());
    }
    &mut list[index]
}
